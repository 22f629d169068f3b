//! Where recordings are kept (spec 04).
//!
//! Invariants: what was put is never overwritten: each put is a new version, and it is
//! read back by bucket and version, never "the latest". Nothing is ever deleted.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::path::PathBuf;

/// Why recordings could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The store cannot be written or read at the moment.
    #[error("recordings are unavailable: {why}")]
    Unavailable {
        /// What failed.
        why: String,
        /// The cause.
        #[source]
        source: Option<std::io::Error>,
    },
    /// There is no such version (past retention, or never saved).
    #[error("this recording is not in the store")]
    NotFound,
    /// What the store holds is not what was saved.
    #[error("the stored recording does not match its hash")]
    Damaged,
}

/// A recording's place: `<app>/<env>/<id>.cast` in a bucket, at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The object's key.
    pub key: String,
    /// The bucket, or the folder store's name.
    pub bucket: String,
    /// The version.
    pub version: String,
}

/// What is put: bytes in memory, or the first `len` bytes of a spool file.
#[derive(Debug, Clone)]
pub enum Content {
    /// Small content: a header.
    Bytes(Bytes),
    /// A prefix of a file that only ever grows.
    File {
        /// The file.
        path: PathBuf,
        /// How many of its bytes.
        len: u64,
    },
}

/// An open recording.
pub struct Reading {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its content.
    pub stream: BoxStream<'static, Result<Bytes, RecordingError>>,
}

/// Where recordings are kept.
#[async_trait]
pub trait Recordings: Send + Sync {
    /// Saves a new version. `sha256` (lower-case hex) is verified by the store before it answers
    /// the answer means that it is durable.
    async fn put(
        &self,
        key: &str,
        content: Content,
        sha256: &str,
    ) -> Result<Location, RecordingError>;

    /// Opens one version.
    async fn get(&self, location: &Location) -> Result<Reading, RecordingError>;

    /// Whether a recording could be saved at this moment; used before the first session.
    async fn check(&self) -> Result<(), RecordingError>;
}
