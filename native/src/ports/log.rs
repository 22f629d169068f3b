//! The transparency log that recordings are anchored in.
//!
//! Invariants: what was submitted once may be submitted again, and is then met, not made twice
//! an entry is handed out only after it was checked against the log's own key. The
//! signature is the caller's: it is stored before the first submission. Nothing is ever deleted.

use async_trait::async_trait;
use jiff::Timestamp;

/// Why the log did not do what it was asked, or is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// No answer, none in time, or one that says "later". Whether an entry was made is unknown;
    /// submitting the same entry again is safe.
    #[error(
        "the transparency log cannot be used at the moment: {why}; submit the same entry again"
    )]
    Away {
        /// What happened.
        why: String,
    },
    /// The log does not take this; final. No entry was made.
    #[error("the transparency log refused the entry: {message}; nothing was entered")]
    Refused {
        /// The log's own words, cut.
        message: String,
    },
    /// The answer does not hold what it must: another entry, or a signature that is not the log's.
    #[error("the transparency log's answer is not believed: {what}; look at its address and key")]
    NotBelieved {
        /// What did not agree.
        what: String,
    },
}

/// What is entered: a hash, a signature over it, and the key that verifies the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// SHA-256 of the recording.
    pub sha256: [u8; 32],
    /// ECDSA P-256 over that hash, ASN.1 DER; kept and repeated byte for byte.
    pub signature: Vec<u8>,
    /// The public key as PEM (SubjectPublicKeyInfo).
    pub public_key: String,
}

/// An entry that the log holds, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// The entry's name in the log: its leaf's hash, with the tree's number before it or without.
    pub uuid: String,
    /// The entry's number in the log, over all of its trees.
    pub index: u64,
    /// When the log says that it took the entry.
    pub integrated_at: Timestamp,
    /// SHA-256 of the log's key: lower-case hex.
    pub log_id: String,
    /// The entry as the log keeps it, byte for byte: what its hash and its promise are over.
    pub body: Vec<u8>,
    /// What the body says.
    pub entry: Entry,
    /// The log's signature over the four facts above (signed entry timestamp), ASN.1 DER.
    pub promise: Vec<u8>,
    /// The way from the entry to a root that the log signed, where it gave one. Not checked here.
    pub proof: Option<InclusionProof>,
}

/// An inclusion proof as the log gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof {
    /// The entry's number within its tree.
    pub index: u64,
    /// The tree's size when the proof was made.
    pub tree_size: u64,
    /// The tree's root.
    pub root: [u8; 32],
    /// The hashes from the leaf up.
    pub hashes: Vec<[u8; 32]>,
    /// The signed note that holds size and root.
    pub checkpoint: String,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The entry was made.
    New(Entered),
    /// The log had it already, from an earlier try.
    AlreadyThere(Entered),
}

impl Submitted {
    /// The entry, whoever made it.
    pub fn into_entered(self) -> Entered {
        match self {
            Self::New(entered) | Self::AlreadyThere(entered) => entered,
        }
    }
}

/// A transparency log. What it answers about an entry was checked before.
#[async_trait]
pub trait TransparencyLog: Send + Sync {
    /// Enters it; the answer holds exactly this entry. An entry that is there is read back.
    async fn submit(&self, entry: &Entry) -> Result<Submitted, LogError>;

    /// Looks for exactly this entry; for a submission whose answer was lost.
    async fn find(&self, entry: &Entry) -> Result<Option<Entered>, LogError>;

    /// The entry of this name.
    async fn get(&self, uuid: &str) -> Result<Option<Entered>, LogError>;

    /// The entry of this number.
    async fn at(&self, index: u64) -> Result<Option<Entered>, LogError>;

    /// The key that the log says it signs with, as PEM. For `doctor`: what is believed is the
    /// configured key, never this one.
    async fn public_key(&self) -> Result<String, LogError>;
}
