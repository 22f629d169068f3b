//! What spans packages: the stage on which the whole product runs for tests and the demo.
//!
//! Invariant: every server listens on loopback or a Unix socket, in folders of its own, and is gone
//! when its handle is dropped.

pub mod backstage;
pub mod bench;
pub mod browser;
pub mod cli;
pub mod log;
pub mod object_store;
pub mod pod;
pub mod policy_cases;
pub mod postgres;
pub mod processes;
pub mod promises;
pub mod pty;
pub mod real_cluster;
pub mod scenario;
pub mod sidecar;
pub mod sigstore;
pub mod smoke;
pub mod stage;
pub mod tls;
pub mod witness;

/// The repository's root.
pub fn root() -> std::path::PathBuf {
    let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Why a stage could not be set.
#[derive(Debug, thiserror::Error)]
#[error("{what}{}", .source.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
pub struct StageError {
    what: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StageError {
    /// A failure without a further cause.
    pub fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    /// A failure with its cause.
    pub fn of(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}
