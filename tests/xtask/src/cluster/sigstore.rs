//! The programs of the tests' Sigstore: one binary, compiled once and kept outside the checkout
//! like those of the cluster. `breakglass_tests::sigstore` runs them.
//!
//! Invariant: the folder's name carries a hash of what it was compiled from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::error::ClusterError;
use super::parts::{cache_dir, once, watched};
use super::process::output;

/// Where the Go module of the binary is; its `go.mod` has the versions, its `go.sum` checks them.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sigstore");
const SOURCES: [&str; 5] = ["go.sum", "main.go", "registry.go", "trillian.go", "tuf.go"];

/// Compiles the programs unless they are in the cache already; the folder with them and with the
/// tables of the log's database.
///
/// # Errors
/// [`ClusterError::NoGo`], or what the compiler says.
pub(crate) fn build_sigstore() -> Result<PathBuf, ClusterError> {
    let mut hash = Sha256::new();
    for name in SOURCES {
        let path = Path::new(SOURCE).join(name);
        hash.update(fs::read(&path).map_err(ClusterError::io("read", &path))?);
    }
    let hash = super::image::hex(&hash.finalize());
    let place = cache_dir()?.join(format!("sigstore-{}", &hash[..16]));
    let what = "Rekor, Fulcio and cosign (some minutes the first time, then kept)";
    once(&place, "sigstore", what, compile)
}

fn compile(folder: &Path) -> Result<(), ClusterError> {
    fs::create_dir_all(folder).map_err(ClusterError::io("create", folder))?;
    let mut go = Command::new("go");
    go.current_dir(SOURCE).env("CGO_ENABLED", "0");
    go.args(["build", "-ldflags", "-s -w", "-o"])
        .arg(folder.join("sigstoreparts"))
        .arg(".");
    watched(go, SOURCE)?;
    let mut list = Command::new("go");
    list.current_dir(SOURCE).stdin(Stdio::null());
    list.args(["list", "-m", "-f", "{{.Dir}}", "github.com/google/trillian"]);
    let trillian = PathBuf::from(output(list, None)?.trim());
    let schema = trillian.join("storage/postgresql/schema/storage.sql");
    let text = fs::read(&schema).map_err(ClusterError::io("read", &schema))?;
    let kept = folder.join("trillian.sql");
    fs::write(&kept, text).map_err(ClusterError::io("write", &kept))
}
