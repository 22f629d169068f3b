//! What a Rekor log says of an entry, read and checked. No IO.
//!
//! Invariants: an entry comes out only if its name is its own leaf's hash, its log is one whose key
//! we know, and that key signed body, time, log and index together (signed entry timestamp). The
//! body's bytes are used as they came, never written anew.

use crate::ports::log::{Entered, Entry, InclusionProof, LogError};
use crate::recording::spool::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const KIND: &str = "hashedrekord";
const VERSION: &str = "0.0.1";
/// A proof's length is the tree's depth.
const LONGEST_PROOF: usize = 64;

/// A text that is no key that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a public key on the curve P-256 in PEM")]
pub struct BadKey;

/// A log's public key: ECDSA on P-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogKey {
    key: VerifyingKey,
    id: String,
}

impl LogKey {
    /// Reads `-----BEGIN PUBLIC KEY-----`.
    pub fn from_pem(pem: &str) -> Result<Self, BadKey> {
        let key = VerifyingKey::from_public_key_pem(pem.trim()).map_err(|_| BadKey)?;
        let der = key.to_public_key_der().map_err(|_| BadKey)?;
        let id = hex(&Sha256::digest(der.as_bytes()));
        Ok(Self { key, id })
    }

    /// SHA-256 of the key, as a log names itself: lower-case hex.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// An entry as it is submitted, and as the log keeps it: then with its keys in this order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Proposed {
    api_version: String,
    kind: String,
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
struct Spec {
    data: Data,
    signature: Signed,
}

#[derive(Serialize, Deserialize)]
struct Data {
    hash: Hash,
}

#[derive(Serialize, Deserialize)]
struct Hash {
    algorithm: String,
    value: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signed {
    content: String,
    public_key: Key,
}

#[derive(Serialize, Deserialize)]
struct Key {
    content: String,
}

impl Proposed {
    /// The entry in the log's words.
    pub(crate) fn new(entry: &Entry) -> Self {
        Self {
            api_version: VERSION.to_owned(),
            kind: KIND.to_owned(),
            spec: Spec {
                data: Data {
                    hash: Hash {
                        algorithm: "sha256".to_owned(),
                        value: hex(&entry.sha256),
                    },
                },
                signature: Signed {
                    content: BASE64.encode(&entry.signature),
                    public_key: Key {
                        content: BASE64.encode(&entry.public_key),
                    },
                },
            },
        }
    }

    /// `None` where it is another kind of entry, or nothing that could be one.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let Spec { data, signature } = &self.spec;
        if self.kind != KIND || self.api_version != VERSION || data.hash.algorithm != "sha256" {
            return None;
        }
        let key = BASE64.decode(&signature.public_key.content).ok()?;
        Some(Entry {
            sha256: unhex(&data.hash.value)?,
            signature: BASE64.decode(&signature.content).ok()?,
            public_key: String::from_utf8(key).ok()?,
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    body: String,
    integrated_time: i64,
    #[serde(rename = "logID")]
    log_id: String,
    log_index: u64,
    verification: Verification,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verification {
    signed_entry_timestamp: String,
    inclusion_proof: Option<Proof>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Proof {
    checkpoint: String,
    hashes: Vec<String>,
    log_index: u64,
    root_hash: String,
    tree_size: u64,
}

/// What the log signed: these four, in this order, without a space.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Promise<'a> {
    body: &'a str,
    integrated_time: i64,
    #[serde(rename = "logID")]
    log_id: &'a str,
    log_index: u64,
}

type Answers = BTreeMap<String, Answer>;

/// The entry in an answer that must hold exactly one.
pub(super) fn read(bytes: &[u8], keys: &[LogKey]) -> Result<Entered, LogError> {
    let answers: Answers = parse(bytes)?;
    only(answers, keys)?.ok_or_else(|| not_believed("it holds no entry"))
}

/// The entry in a list that must hold one at most.
pub(super) fn read_list(bytes: &[u8], keys: &[LogKey]) -> Result<Option<Entered>, LogError> {
    let lists: Vec<Answers> = parse(bytes)?;
    only(lists.into_iter().flatten(), keys)
}

/// That it is this entry and no other.
pub(super) fn holds(entered: &Entered, entry: &Entry) -> Result<(), LogError> {
    let key = |pem: &str| LogKey::from_pem(pem).map(|key| key.id).ok();
    let agree = [
        ("the hash", entered.entry.sha256 == entry.sha256),
        ("the signature", entered.entry.signature == entry.signature),
        (
            "the key",
            key(&entered.entry.public_key).is_some_and(|it| Some(it) == key(&entry.public_key)),
        ),
    ];
    match agree.iter().find(|(_, agrees)| !agrees) {
        None => Ok(()),
        Some((what, _)) => Err(not_believed(&format!("{what} in it is not ours"))),
    }
}

/// A leaf's hash, or a tree's number and a leaf's hash.
pub(crate) fn is_uuid(text: &str) -> bool {
    let digits = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    matches!(text.len(), 64 | 80) && text.bytes().all(digits)
}

/// Whether both names are of one leaf.
pub(crate) fn same_leaf(one: &str, other: &str) -> bool {
    let leaf = |uuid: &str| {
        uuid.len()
            .checked_sub(64)
            .and_then(|at| uuid.get(at..).map(str::to_owned))
    };
    leaf(one).is_some_and(|it| Some(it) == leaf(other))
}

fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, LogError> {
    // The place alone: the error's own words would repeat what was sent.
    let place =
        |error: serde_json::Error| format!("line {} column {}", error.line(), error.column());
    serde_json::from_slice(bytes)
        .map_err(|error| not_believed(&format!("it is not an entry at {}", place(error))))
}

fn only(
    answers: impl IntoIterator<Item = (String, Answer)>,
    keys: &[LogKey],
) -> Result<Option<Entered>, LogError> {
    let mut answers = answers.into_iter();
    match (answers.next(), answers.next()) {
        (None, _) => Ok(None),
        (Some((uuid, answer)), None) => entered(uuid, &answer, keys).map(Some),
        (Some(_), Some(_)) => Err(not_believed("it holds more than one entry")),
    }
}

fn entered(uuid: String, answer: &Answer, keys: &[LogKey]) -> Result<Entered, LogError> {
    let body = decoded(&answer.body, "its body")?;
    if !is_uuid(&uuid) || !same_leaf(&uuid, &leaf(&body)) {
        return Err(not_believed("its name is not its content's"));
    }
    let promise = decoded(&answer.verification.signed_entry_timestamp, "its promise")?;
    verify(answer, &promise, keys)?;
    let entry = serde_json::from_slice::<Proposed>(&body).ok();
    let entry = entry.and_then(|it| it.entry());
    let proof = answer.verification.inclusion_proof.as_ref();
    Ok(Entered {
        uuid,
        index: answer.log_index,
        integrated_at: Timestamp::from_second(answer.integrated_time)
            .map_err(|_| not_believed("its time is none"))?,
        log_id: answer.log_id.clone(),
        entry: entry.ok_or_else(|| not_believed("it is another kind of entry"))?,
        body,
        promise,
        proof: proof.map(inclusion).transpose()?,
    })
}

fn verify(answer: &Answer, promise: &[u8], keys: &[LogKey]) -> Result<(), LogError> {
    let key = keys
        .iter()
        .find(|key| key.id == answer.log_id)
        .ok_or_else(|| not_believed("it is of a log whose key we do not have"))?;
    let signed = serde_json::to_vec(&Promise {
        body: &answer.body,
        integrated_time: answer.integrated_time,
        log_id: &answer.log_id,
        log_index: answer.log_index,
    });
    let signature = Signature::from_der(promise).ok();
    match (signed, signature) {
        (Ok(signed), Some(signature)) if key.key.verify(&signed, &signature).is_ok() => Ok(()),
        _ => Err(not_believed("its promise is not signed by the log's key")),
    }
}

/// RFC 6962: a leaf's hash begins with a zero byte.
pub(crate) fn leaf(body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(body);
    hex(&hash.finalize())
}

fn inclusion(proof: &Proof) -> Result<InclusionProof, LogError> {
    let hash = |text: &String| unhex(text);
    let hashes: Option<Vec<_>> = proof.hashes.iter().map(hash).collect();
    match (unhex(&proof.root_hash), hashes) {
        (Some(root), Some(hashes)) if hashes.len() <= LONGEST_PROOF => Ok(InclusionProof {
            index: proof.log_index,
            tree_size: proof.tree_size,
            root,
            hashes,
            checkpoint: proof.checkpoint.clone(),
        }),
        _ => Err(not_believed("its inclusion proof cannot be read")),
    }
}

fn decoded(text: &str, what: &str) -> Result<Vec<u8>, LogError> {
    let bytes = BASE64.decode(text);
    bytes.map_err(|_| not_believed(&format!("{what} is not base64")))
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn not_believed(what: &str) -> LogError {
    LogError::NotBelieved {
        what: what.to_owned(),
    }
}
