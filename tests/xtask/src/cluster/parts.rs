//! The Kubernetes programs: one binary, compiled once and kept outside the checkout.
//!
//! Invariant: what is kept has a name that carries a hash of what it was compiled from, and it gets
//! that name only when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::ClusterError;
use super::process::output;
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
    let what = format!("Kubernetes {VERSION} (7 minutes on 2 cores the first time, then kept)");
    once(&binary, "clusterparts", &what, compile)
}

/// Makes what belongs at `place` unless it is there: `make` makes it beside, under another name.
/// One driver at a time, by the lock of this `family`.
///
/// # Errors
/// [`ClusterError::NoGo`], or what `make` says.
pub(super) fn once(
    place: &Path,
    family: &str,
    what: &str,
    make: impl FnOnce(&Path) -> Result<(), ClusterError>,
) -> Result<PathBuf, ClusterError> {
    if place.exists() {
        return Ok(place.to_owned());
    }
    let cache = place.parent().unwrap_or(place);
    fs::create_dir_all(cache).map_err(ClusterError::io("create", cache))?;
    let lock_path = cache.join(format!("{family}.lock"));
    let lock = File::create(&lock_path).map_err(ClusterError::io("create", &lock_path))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| ClusterError::io("lock", &lock_path)(error.into()))?;
    if place.exists() {
        return Ok(place.to_owned());
    }
    if Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return Err(ClusterError::NoGo(place.to_owned()));
    }
    say(&format!("compiling {what}"));
    let building = step(format!("compiled into `{}`", place.display()));
    let new = cache.join(format!("{family}.new"));
    make(&new)?;
    fs::rename(&new, place).map_err(ClusterError::io("rename", &new))?;
    building.done();
    Ok(place.to_owned())
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
    watched(go, SOURCE)
}

/// The folder of a Go module's sources, downloaded where it is not there, and compared with `sum`,
/// its checksum as Go writes it. Built in its own folder, it keeps its `replace` lines and its
/// `go.sum`.
pub(super) fn module(module: &str, sum: &'static str) -> Result<PathBuf, ClusterError> {
    let mut go = Command::new("go");
    // Away from the checkout: a module around the working directory would have its say.
    go.args(["mod", "download", "-json", module])
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null());
    let said = output(go, None)?;
    let said: Value =
        serde_json::from_str(&said).map_err(|error| not_understood("`go mod download`", &error))?;
    let found = said["Sum"].as_str().unwrap_or_default().to_owned();
    if found != sum {
        return Err(ClusterError::OtherModule {
            module: module.to_owned(),
            found,
            wanted: sum,
        });
    }
    Ok(PathBuf::from(said["Dir"].as_str().unwrap_or_default()))
}

pub(super) fn not_understood(what: &str, why: &dyn std::fmt::Display) -> ClusterError {
    ClusterError::NotUnderstood {
        what: what.to_owned(),
        why: why.to_string(),
    }
}

/// Runs the compiler. Its own messages go to the terminal: they are the progress of these minutes.
pub(super) fn watched(mut go: Command, source: &str) -> Result<(), ClusterError> {
    let status = go
        .stdin(Stdio::null())
        .status()
        .map_err(ClusterError::io("run", Path::new("go")))?;
    if status.success() {
        return Ok(());
    }
    Err(ClusterError::Command {
        command: "go build".to_owned(),
        status: status.to_string(),
        stderr: format!("its messages are above; the module is in `{source}`"),
    })
}
