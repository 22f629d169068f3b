//! The Kubernetes programs: one binary, compiled once and kept outside the checkout.
//!
//! Invariant: the binary's name carries a hash of what it was compiled from, and it gets that name
//! only when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use super::error::ClusterError;
use super::time::{say, step};

/// The Kubernetes version of the test cluster. Not newer: from 1.35 the kubelet wants cgroup v2
/// and containerd 2, which the machines that run the tests need not have.
pub(crate) const VERSION: &str = "v1.34.4";

/// Where the Go module of the binary is.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster");

/// The project's cache: `$BREAKGLASS_CACHE`, or `~/.cache/breakglass`.
///
/// # Errors
/// [`ClusterError::Io`] where there is neither variable nor home.
pub(crate) fn cache_dir() -> Result<PathBuf, ClusterError> {
    if let Some(cache) = std::env::var_os("BREAKGLASS_CACHE").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(cache));
    }
    std::env::home_dir()
        .map(|home| home.join(".cache/breakglass"))
        .ok_or_else(|| ClusterError::Io {
            doing: "find a home for the cache; set BREAKGLASS_CACHE".to_owned(),
            source: std::io::ErrorKind::NotFound.into(),
        })
}

/// Where the binary is, or will be, in `cache`.
///
/// # Errors
/// [`ClusterError::Io`] where the sources cannot be read.
pub(crate) fn parts_in(cache: &Path) -> Result<PathBuf, ClusterError> {
    let mut hash = Sha256::new();
    for name in ["go.sum", "main.go"] {
        let path = Path::new(SOURCE).join(name);
        hash.update(fs::read(&path).map_err(ClusterError::io("read", &path))?);
    }
    let hash = super::image::hex(&hash.finalize());
    Ok(cache.join(format!("clusterparts-{VERSION}-{}", &hash[..16])))
}

/// Compiles the parts unless they are in `cache` already; the binary's path.
///
/// # Errors
/// [`ClusterError::NoGo`], or what the compiler says.
pub(crate) fn build_parts(cache: &Path) -> Result<PathBuf, ClusterError> {
    let binary = parts_in(cache)?;
    if binary.is_file() {
        return Ok(binary);
    }
    fs::create_dir_all(cache).map_err(ClusterError::io("create", cache))?;
    let lock_path = cache.join("clusterparts.lock");
    let lock = File::create(&lock_path).map_err(ClusterError::io("create", &lock_path))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| ClusterError::io("lock", &lock_path)(error.into()))?;
    if binary.is_file() {
        return Ok(binary);
    }
    if Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return Err(ClusterError::NoGo(binary));
    }
    say("compiling Kubernetes (7 minutes on 2 cores the first time, then kept)");
    let building = step(format!(
        "Kubernetes {VERSION} compiled into `{}`",
        binary.display()
    ));
    let new = cache.join("clusterparts.new");
    compile(&new)?;
    fs::rename(&new, &binary).map_err(ClusterError::io("rename", &new))?;
    building.done();
    Ok(binary)
}

fn compile(binary: &Path) -> Result<(), ClusterError> {
    let (major, minor) = ("1", "34");
    let package = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {package}.gitVersion={VERSION} -X {package}.gitMajor={major} \
         -X {package}.gitMinor={minor}"
    );
    let mut go = Command::new("go");
    go.current_dir(SOURCE).env("CGO_ENABLED", "0");
    go.args(["build", "-ldflags", &flags, "-o"])
        .arg(binary)
        .arg(".");
    // The compiler's own messages go to the terminal: they are the progress of these minutes.
    let status = go
        .stdin(Stdio::null())
        .status()
        .map_err(ClusterError::io("run", binary))?;
    if status.success() {
        return Ok(());
    }
    Err(ClusterError::Command {
        command: "go build".to_owned(),
        status: status.to_string(),
        stderr: format!("its messages are above; the module is in `{SOURCE}`"),
    })
}
