//! What can go wrong with the test cluster, said so that a person knows what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why the test cluster did not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// The driver makes bridges, mounts and cgroups.
    #[error("the test cluster needs root (network bridge, mounts, cgroups); nothing was started")]
    NotRoot,
    /// Programs that the cluster is made of are not on this machine.
    #[error(
        "the test cluster needs {}; nothing was started: run `apt-get install {}`, or pass \
         `--install`", .0.join(", "), .0.join(" ")
    )]
    Missing(Vec<String>),
    /// The parts have to be compiled and there is no compiler.
    #[error(
        "the cluster's parts are not built yet and `go` 1.21 or later is not on the PATH; install \
         it from https://go.dev/dl, or put a built binary at `{}`", .0.display()
    )]
    NoGo(PathBuf),
    /// Another `up` or `down` is under way on this machine.
    #[error("another `cluster up` or `down` is under way on this machine; wait for it")]
    Busy,
    /// A living process uses the cluster that is up.
    #[error(
        "process {pid} uses the test cluster in `{}`; its ports are fixed, so there is one at a \
         time on a machine: wait for that process or end it", dir.display()
    )]
    InUse {
        /// The process that brought the cluster up for itself.
        pid: i32,
        /// That cluster's folder.
        dir: PathBuf,
    },
    /// A cluster was brought up and left running.
    #[error(
        "a test cluster is up in `{}`; its ports are fixed, so there is one at a time on a \
         machine: use that one, or end it with `cargo xtask cluster down {}`", .0.display(), .0.display()
    )]
    AlreadyUp(PathBuf),
    /// A port belongs to a program that is not ours.
    #[error("port {port} on 127.0.0.1 is taken, and {part} needs it; nothing was started")]
    PortTaken {
        /// The port.
        port: u16,
        /// The part of the cluster that listens on it.
        part: &'static str,
    },
    /// The folder holds something else, and `up` and `down` empty it.
    #[error("`{}` is neither empty nor a test cluster's folder; it was left alone", .0.display())]
    ForeignFolder(PathBuf),
    /// The folder's path does not fit a Unix socket's address.
    #[error("`{}` is too long a path for the sockets in it; choose one under 60 bytes", .0.display())]
    LongPath(PathBuf),
    /// A part ended while it should run.
    #[error("{part} ended while the cluster came up; the end of `{}`:\n{tail}", log.display())]
    PartEnded {
        /// Which part.
        part: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A state did not come within its bound.
    #[error("{what}: not so within {} s", bound.as_secs())]
    TimedOut {
        /// The state that was waited for.
        what: String,
        /// For how long.
        bound: Duration,
    },
    /// A program that the driver calls failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The program and what it was to do.
        command: String,
        /// Its exit status.
        status: String,
        /// What it said.
        stderr: String,
    },
    /// Something of a cluster could not be taken away.
    #[error("the cluster in `{}` is not wholly gone: {what}; its folder was kept", dir.display())]
    Remains {
        /// The cluster's folder.
        dir: PathBuf,
        /// What remains.
        what: String,
    },
    /// Something is to be added to a cluster that is not there.
    #[error(
        "no test cluster is up in `{}`; start one with `cargo xtask cluster up {}`",
        .0.display(), .0.display()
    )]
    NoCluster(PathBuf),
    /// A module of others is not the one that was chosen.
    #[error("`{module}` has the checksum {found} and not {wanted}; nothing was built of it")]
    OtherModule {
        /// The module and its version.
        module: String,
        /// What `go` says of what it downloaded.
        found: String,
        /// What was chosen.
        wanted: &'static str,
    },
    /// What others wrote is not of the form that the driver knows.
    #[error("cannot make sense of {what}: {why}")]
    NotUnderstood {
        /// The file, or the program whose answer it is.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made.
    #[error("the cluster's certificates could not be made")]
    Certificate(#[from] rcgen::Error),
    /// The policies' rendering refused a name.
    #[error("the sidecar's rights could not be rendered")]
    Name(#[from] policies::identity::NameError),
    /// A file or a process of the machine.
    #[error("could not {doing}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl ClusterError {
    /// For `map_err`: what was being done to `path`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{doing} `{}`", path.display());
        move |source| Self::Io { doing, source }
    }
}
