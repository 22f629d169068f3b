//! What state a container is in, and whether it can still start (C-9, T-5).
//!
//! Invariant: what the kubelet says is passed on bounded and printable, whatever it is.

use super::{PodFacts, StateDetail};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// A container's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started yet, or never to start.
    Waiting {
        /// The kubelet's one word for why; may be empty.
        reason: String,
        /// The kubelet's sentence; may be empty.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when, RFC 3339, as the kubelet wrote it.
        started_at: Option<String>,
    },
    /// It is over, for good: debug containers are never restarted.
    Terminated {
        /// What the process exited with.
        exit_code: i64,
        /// The kubelet's one word for why; may be empty.
        reason: String,
        /// The kubelet's sentence; may be empty.
        message: String,
    },
    /// The kubelet has not said anything about it.
    Unknown,
}

/// Characters of the kubelet's words that are passed on.
const WORDS_MAX: usize = 500;

/// Reasons that waiting cannot mend within a session's opening.
const HOPELESS: [&str; 14] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "StartError",
    "ContainerCannotRun",
    "PostStartHookError",
    "CrashLoopBackOff",
];

impl PodFacts {
    /// The state of a container of any kind (C-9).
    pub fn container_state(&self, name: &str) -> ContainerState {
        let Some(status) = self.status_of(name) else {
            return ContainerState::Unknown;
        };
        let words = |detail: &StateDetail| (bounded(&detail.reason), bounded(&detail.message));
        if let Some(over) = &status.state.terminated {
            let (reason, message) = words(over);
            return ContainerState::Terminated {
                exit_code: over.exit_code,
                reason,
                message,
            };
        }
        if let Some(running) = &status.state.running {
            return ContainerState::Running {
                started_at: running.started_at.clone(),
            };
        }
        match &status.state.waiting {
            Some(waiting) => {
                let (reason, message) = words(waiting);
                ContainerState::Waiting { reason, message }
            }
            None => ContainerState::Unknown,
        }
    }

    /// Why the pod has no node yet, in the scheduler's words: what a copy that never started ends
    /// with when its time is up (C-9). More room may still appear, so it is no reason to fail fast.
    pub fn unschedulable(&self) -> Option<String> {
        let scheduled = self
            .status
            .conditions
            .iter()
            .find(|c| c.kind == "PodScheduled")?;
        if scheduled.status != "False" {
            return None;
        }
        let reason = scheduled.reason.as_deref().unwrap_or("Unschedulable");
        Some(joined(
            &bounded(reason),
            &bounded(scheduled.message.as_deref().unwrap_or_default()),
        ))
    }
}

/// Why a container that should be starting never will, in the kubelet's words; `None` while there
/// is hope or it runs (C-9).
pub fn start_failure(state: &ContainerState) -> Option<String> {
    match state {
        ContainerState::Waiting { reason, message } => HOPELESS
            .contains(&reason.as_str())
            .then(|| joined(reason, message)),
        ContainerState::Terminated {
            exit_code,
            reason,
            message,
        } => {
            let reason = if reason.is_empty() {
                "Terminated"
            } else {
                reason
            };
            Some(joined(
                &format!("{reason} (exit code {exit_code})"),
                message,
            ))
        }
        ContainerState::Running { .. } | ContainerState::Unknown => None,
    }
}

fn joined(reason: &str, message: &str) -> String {
    if message.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {message}")
    }
}

/// One line of at most [`WORDS_MAX`] characters. A control character could move the cursor of
/// whoever reads it in a terminal.
fn bounded(words: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = words.trim().chars().take(WORDS_MAX).map(shown).collect();
    if words.trim().chars().nth(WORDS_MAX).is_some() {
        line.push('…');
    }
    line
}
