//! MinIO and its client `mc`, for the job that makes the bucket of recordings: compiled once and
//! kept outside the checkout like the programs of the cluster. `breakglass_tests::object_store`
//! runs them.
//!
//! Invariant: the folder's name carries a hash of what it was compiled from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::error::ClusterError;
use super::parts::{cache_dir, module, once, watched};

/// The programs: module, checksum, name. MinIO's last release before it was archived.
const PROGRAMS: [(&str, &str, &str); 2] = [
    (
        "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
        "h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=",
        "minio",
    ),
    (
        "github.com/minio/mc@v0.0.0-20250313080218-cf909e1063a9",
        "h1:6RyInOHKL6jz8zxcAar/h6rg/aJCxDP/uFuSNvYSuMI=",
        "mc",
    ),
];
const FLAGS: &str = "-s -w";

/// What is done with the object store.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ObjectStoreCommand {
    /// Compile it into the cache, and say where it is (5 minutes, once)
    Build,
}

/// Compiles the programs unless they are in the cache already; the folder with them.
///
/// # Errors
/// [`ClusterError::NoGo`], or what the compiler says.
pub(crate) fn build_object_store() -> Result<PathBuf, ClusterError> {
    let mut hash = Sha256::new();
    for (_, sum, name) in PROGRAMS {
        hash.update(format!("{name} {sum} {FLAGS}\n"));
    }
    let hash = super::image::hex(&hash.finalize());
    let place = cache_dir()?.join(format!("object-store-{}", &hash[..16]));
    let what = "MinIO and its client (5 minutes on 2 cores the first time, then kept)";
    once(&place, "object-store", what, compile)
}

fn compile(folder: &Path) -> Result<(), ClusterError> {
    fs::create_dir_all(folder).map_err(ClusterError::io("create", folder))?;
    for (name, sum, program) in PROGRAMS {
        let source = module(name, sum)?;
        let mut go = Command::new("go");
        go.current_dir(&source).env("CGO_ENABLED", "0");
        go.args(["build", "-ldflags", FLAGS, "-o"])
            .arg(folder.join(program))
            .arg(".");
        watched(go, &source.to_string_lossy())?;
    }
    Ok(())
}
