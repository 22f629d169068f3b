//! A transparency log in memory: signs as a real one does, refuses what it refuses, fails on
//! command.
//!
//! Invariant: `answer` gives what a Rekor server writes, so that one fake serves the port's tests
//! and, behind a socket, the adapter's.

use crate::ports::log::{Entered, Entry, LogError, Submitted, TransparencyLog};
use crate::recording::spool::hex;
use crate::rekor::answer::{LogKey, Proposed, is_uuid, leaf, same_leaf};
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _, LineEnding};
use serde_json::{Value, json};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of the fake's tree.
const TREE: &str = "108e9186e8c5677a";
/// The time of the first entry; each further one is a second later.
const FIRST: i64 = 1_800_000_000;

/// What the fake does beside its duty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFault {
    /// Nothing.
    #[default]
    None,
    /// It does not answer.
    Away,
    /// It takes the next submission and its answer is lost.
    AnswerLost,
    /// It refuses every submission.
    Refuses,
    /// It answers with another entry than was submitted.
    Swaps,
}

/// A log in memory.
pub struct FakeLog {
    key: SigningKey,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entered>,
    fault: LogFault,
    submitted: u64,
}

impl Default for FakeLog {
    fn default() -> Self {
        Self {
            key: key(1),
            state: Mutex::default(),
        }
    }
}

impl FakeLog {
    /// An empty log that answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// From here on it behaves so.
    pub fn set_fault(&self, fault: LogFault) {
        self.state().fault = fault;
    }

    /// How often something was submitted, whether or not it worked.
    pub fn submitted(&self) -> u64 {
        self.state().submitted
    }

    /// Everything it holds, in order.
    pub fn entries(&self) -> Vec<Entered> {
        self.state().entries.clone()
    }

    /// Its public key, as PEM.
    pub fn pem(&self) -> String {
        pem(&self.key)
    }

    /// An entry as a Rekor server writes it.
    pub fn answer(entered: &Entered) -> Value {
        json!({ &entered.uuid: {
            "body": BASE64.encode(&entered.body),
            "integratedTime": entered.integrated_at.as_second(),
            "logID": entered.log_id,
            "logIndex": entered.index,
            "verification": {
                "signedEntryTimestamp": BASE64.encode(&entered.promise),
                "inclusionProof": {
                    "checkpoint": "fake - 1\n1\nAAAA\n",
                    "hashes": [],
                    "logIndex": entered.index,
                    "rootHash": hex(&[7; 32]),
                    "treeSize": entered.index + 1,
                },
            },
        }})
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, wanted: impl Fn(&Entered) -> bool) -> Result<Option<Entered>, LogError> {
        let state = self.state();
        if state.fault == LogFault::Away {
            return Err(away());
        }
        Ok(state.entries.iter().find(|it| wanted(it)).cloned())
    }

    fn enter(&self, entry: &Entry, index: u64) -> Result<Entered, LogError> {
        let refused = |message: &str| LogError::Refused {
            message: message.to_owned(),
        };
        let verifier = VerifyingKey::from_public_key_pem(entry.public_key.trim())
            .map_err(|_| refused("the key cannot be read"))?;
        Signature::from_der(&entry.signature)
            .and_then(|signature| verifier.verify_prehash(&entry.sha256, &signature))
            .map_err(|_| refused("the signature is not over the hash"))?;
        let public = verifier.to_public_key_pem(LineEnding::LF);
        let entry = Entry {
            public_key: public.map_err(|_| refused("the key cannot be written"))?,
            ..entry.clone()
        };
        let body = serde_json::to_vec(&Proposed::new(&entry));
        let body = body.map_err(|_| refused("the entry cannot be written"))?;
        let log = LogKey::from_pem(&self.pem()).map_err(|error| refused(&error.to_string()))?;
        let seconds = FIRST + i64::try_from(index).unwrap_or_default();
        let promise = format!(
            r#"{{"body":"{}","integratedTime":{seconds},"logID":"{}","logIndex":{index}}}"#,
            BASE64.encode(&body),
            log.id(),
        );
        let promise: Signature = self.key.sign(promise.as_bytes());
        Ok(Entered {
            uuid: format!("{TREE}{}", leaf(&body)),
            index,
            integrated_at: Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH),
            log_id: log.id().to_owned(),
            body,
            entry,
            promise: promise.to_der().as_bytes().to_vec(),
            proof: None,
        })
    }
}

#[async_trait]
impl TransparencyLog for FakeLog {
    async fn submit(&self, entry: &Entry) -> Result<Submitted, LogError> {
        let mut state = self.state();
        state.submitted += 1;
        let index = state.entries.len() as u64;
        match state.fault {
            LogFault::Away => return Err(away()),
            LogFault::Refuses => {
                return Err(LogError::Refused {
                    message: "the fake log refuses".to_owned(),
                });
            }
            LogFault::Swaps => {
                return Err(LogError::NotBelieved {
                    what: "the hash in it is not ours".to_owned(),
                });
            }
            LogFault::None | LogFault::AnswerLost => {}
        }
        let entered = self.enter(entry, index)?;
        if let Some(there) = state.entries.iter().find(|it| it.uuid == entered.uuid) {
            return Ok(Submitted::AlreadyThere(there.clone()));
        }
        state.entries.push(entered.clone());
        if state.fault == LogFault::AnswerLost {
            state.fault = LogFault::None;
            return Err(away());
        }
        Ok(Submitted::New(entered))
    }

    async fn find(&self, entry: &Entry) -> Result<Option<Entered>, LogError> {
        let id = |pem: &str| LogKey::from_pem(pem).ok();
        self.look(|it| {
            (it.entry.sha256, &it.entry.signature) == (entry.sha256, &entry.signature)
                && id(&it.entry.public_key) == id(&entry.public_key)
        })
    }

    async fn get(&self, uuid: &str) -> Result<Option<Entered>, LogError> {
        self.look(|it| is_uuid(uuid) && same_leaf(&it.uuid, uuid))
    }

    async fn at(&self, index: u64) -> Result<Option<Entered>, LogError> {
        self.look(|it| it.index == index)
    }

    async fn public_key(&self) -> Result<String, LogError> {
        self.look(|_| false).map(|_| self.pem())
    }
}

/// A signing key that is the same in every run.
#[expect(clippy::expect_used, reason = "a number from 1 to 255 is a key")]
pub fn key(number: u8) -> SigningKey {
    SigningKey::from_slice(&[number.max(1); 32]).expect("a scalar in range")
}

/// A signing key's public half, as PEM.
#[expect(
    clippy::expect_used,
    reason = "a key that was just made can be written"
)]
pub fn pem(key: &SigningKey) -> String {
    let public = VerifyingKey::from(key);
    public.to_public_key_pem(LineEnding::LF).expect("PEM")
}

fn away() -> LogError {
    LogError::Away {
        why: "the fake log is away".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::log_contract::{contract, entry};

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        contract(&FakeLog::new()).await;
    }

    #[tokio::test]
    async fn an_entry_whose_answer_was_lost_is_met_by_the_next_try() {
        let log = FakeLog::new();
        let ours = entry(b"a recording", 9);
        log.set_fault(LogFault::AnswerLost);
        let lost = log.submit(&ours).await;
        assert!(matches!(lost, Err(LogError::Away { .. })), "{lost:?}");
        let met = log.submit(&ours).await.unwrap();
        assert!(matches!(met, Submitted::AlreadyThere(_)), "{met:?}");
        assert_eq!(log.entries().len(), 1);
    }
}
