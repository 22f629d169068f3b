//! `cargo xtask bench relay`: relay and recording, beside kube's own loop and a Node server.
//!
//! Invariants: who relays has a process to itself, and only its CPU time and memory are counted;
//! source, relays and reader are the same for everyone who is compared; whatever is measured is
//! also checked: every byte arrived, and the recording on disk has the hash that was said.
//! Everything listens on loopback or a Unix socket, in a folder in memory that is removed.

mod child;
mod content;
pub mod copier;
mod figure;
mod interrupt;
mod kube_loop;
mod latency;
mod machine;
mod memory;
pub mod relay;
mod run;
mod sink;
pub mod source;
mod throughput;
mod upgrade;
mod verify;

pub use machine::pin_to;
pub use run::{Options, run};

use serde::{Deserialize, Serialize};

/// The one container that everything attaches to.
const CONTAINER: &str = "shell";
/// The one namespace there is.
const NAMESPACE: &str = "bench";

/// Who relays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Way {
    /// The sidecar's terminal.
    Ours,
    /// The loop that one writes around kube's `AttachedProcess`.
    Kube,
    /// A Node server with `@kubernetes/client-node` and `ws`.
    Node,
}

impl Way {
    const ALL: [Self; 3] = [Self::Ours, Self::Kube, Self::Node];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Kube => "kube",
            Self::Node => "node",
        }
    }
}

/// What the relaying process is told, a line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// So many more sessions: recorded and attached. CPU time counts from here.
    Open(usize),
    /// Every recording is complete and hashed; says what was used.
    Stop,
}

/// What it answers to [`Order::Stop`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    /// User and system time of the whole process since the order before.
    cpu_seconds: f64,
    /// One recording per session.
    recordings: Vec<Recorded>,
}

/// One recording, as its recorder saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    path: std::path::PathBuf,
    bytes: u64,
    sha256: String,
}
