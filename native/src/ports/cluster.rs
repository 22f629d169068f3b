//! What a session needs of one cluster (spec 02).
//!
//! Invariants: every verb may be repeated; an object is deleted by its UID, so a namesake made by
//! somebody else is never touched (C-26); every call has a deadline (C-28); no error carries a
//! token.

use async_trait::async_trait;
use bytes::Bytes;
use decisions::session::SessionId;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Why a cluster did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// An admission policy refused it; final. The policy's own message (S-11, C-8).
    #[error("{message}")]
    RefusedByPolicy {
        /// The API server's message, which names the policy and its check.
        message: String,
    },
    /// RBAC refused it (403 without a policy's name).
    #[error("the cluster does not allow it: {message}")]
    Forbidden {
        /// The API server's message.
        message: String,
    },
    /// The API server did not accept our credentials (401).
    #[error("the cluster does not accept our credentials: {message}")]
    Unauthorized {
        /// The API server's message.
        message: String,
    },
    /// The object was changed by somebody else meanwhile, or its UID is another (409).
    #[error("the object changed meanwhile: {message}")]
    Conflict {
        /// The API server's message.
        message: String,
    },
    /// The API server found the object invalid (400, 422).
    #[error("the cluster refused the object: {message}")]
    Invalid {
        /// The API server's message.
        message: String,
    },
    /// The object, or the namespace, is not there (404).
    #[error("not found: {what}")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The debug container cannot start; the kubelet's own reason (C-9).
    #[error("{reason}")]
    CannotStart {
        /// The kubelet's reason and message.
        reason: String,
    },
    /// No answer, none in time, or one of a server that is ill; whether the call had an effect is
    /// unknown.
    #[error("cluster `{cluster}` {why}")]
    Away {
        /// The cluster's configured name.
        cluster: String,
        /// What happened, as the rest of the sentence.
        why: String,
    },
    /// The answer made no sense.
    #[error("cluster `{cluster}` answered in a way that is not understood: {why}")]
    Unexpected {
        /// The cluster's configured name.
        cluster: String,
        /// What was wrong with it.
        why: String,
    },
}

/// A pod by name; and by UID where one is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, once it was seen.
    pub uid: Option<String>,
}

/// An object we made, as kept in `breakglass_objects` before the next step (C-26).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeObject {
    /// The session it was made for.
    pub session: SessionId,
    /// The cluster it is in.
    pub cluster: String,
    /// What it is.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The kinds of things that a session leaves in a cluster until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A grant.
    RoleBinding,
    /// A copy pod.
    CopyPod,
    /// The live pod that carries the debug container; recycled at the end.
    LivePod,
}

/// What the cluster says of a target before a session (S-9, S-14).
#[derive(Debug, Clone)]
pub struct TargetFacts {
    /// The namespace's labels; `None` where the namespace cannot be read.
    pub namespace_labels: Option<BTreeMap<String, String>>,
    /// The pod as the API server gives it; `None` where there is none of that name.
    pub pod: Option<serde_json::Value>,
}

/// What became of a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, or was gone already.
    Gone,
    /// It is on its way out (finalizers, grace period).
    Terminating,
    /// Another object has the name now; it was left alone.
    Replaced,
}

/// One object that carries our labels (C-23).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The object; its session is what its label says.
    pub object: MadeObject,
    /// `hangar.io/breakglass-expires-at`, if it can be read.
    pub expires_at: Option<jiff::Timestamp>,
}

/// What C-17 has to know, beside the pod itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerFacts {
    /// Ready pods of the same controller, this one not counted; `None` where that is not known.
    pub other_ready_pods: Option<u32>,
    /// The fewest further disruptions that a PodDisruptionBudget on this pod allows; `None` where
    /// no budget covers it or budgets cannot be read.
    pub disruptions_allowed: Option<u32>,
}

/// What a session needs of one cluster.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The backend's username there (C-1): asked once, then cached until a 401.
    async fn username(&self) -> Result<String, ClusterError>;

    /// Namespace labels and pod. A namespace that is not there or not readable gives `None` labels.
    async fn look_at(&self, namespace: &str, pod: &str) -> Result<TargetFacts, ClusterError>;

    /// Creates a RoleBinding (C-7). One of the same name with our session's label is taken as
    /// made by us (an earlier try whose answer was lost, C-10a); another's is a conflict.
    async fn create_grant(
        &self,
        session: &SessionId,
        binding: &serde_json::Value,
    ) -> Result<MadeObject, ClusterError>;

    /// Deletes a RoleBinding by UID (C-26). Not found counts as done (C-22).
    async fn delete_grant(&self, grant: &MadeObject) -> Result<Deleted, ClusterError>;

    /// The grants of a session that exist, looked up by name (C-10a).
    async fn find_grants(
        &self,
        namespace: &str,
        session: &SessionId,
    ) -> Result<Vec<MadeObject>, ClusterError>;

    /// Sets or removes `hangar.io/breakglass-process-access` by a merge patch (C-8).
    async fn annotate_process_access(
        &self,
        pod: &PodRef,
        session: Option<&SessionId>,
    ) -> Result<(), ClusterError>;

    /// Adds the ephemeral container to the pod with this UID. Retries a 403 for up to 5 s and a
    /// conflict by re-reading (C-8); one of that name that is there already counts as added.
    async fn add_debug_container(
        &self,
        pod: &PodRef,
        container: &serde_json::Value,
    ) -> Result<(), ClusterError>;

    /// Makes a copy pod (C-8, C-12). One of the same name with our session's labels is taken as
    /// made by us (C-10a); another's is a conflict. Retries a 403 for up to 5 s.
    async fn create_copy_pod(
        &self,
        session: &SessionId,
        pod: &serde_json::Value,
    ) -> Result<MadeObject, ClusterError>;

    /// Waits until the container runs (C-9); a start that cannot succeed fails at once with the
    /// kubelet's reason, a pod that is gone with `NotFound`, the bound with `CannotStart`.
    async fn await_running(
        &self,
        pod: &PodRef,
        container: &str,
        bound: Duration,
    ) -> Result<(), ClusterError>;

    /// The pod as it is, or `None` when it is gone or another one has its name (by UID).
    async fn read_pod(&self, pod: &PodRef) -> Result<Option<serde_json::Value>, ClusterError>;

    /// Attaches to a running container over a WebSocket with a TTY.
    async fn attach(&self, pod: &PodRef, container: &str) -> Result<Box<dyn Shell>, ClusterError>;

    /// What C-17 has to know of the pod's controller. Budgets that may not be read are `None`;
    /// pods that may not be listed are `Forbidden`, because a session's grant gives that right.
    async fn controller_facts(
        &self,
        pod: &serde_json::Value,
    ) -> Result<ControllerFacts, ClusterError>;

    /// Deletes a pod by UID. `grace` of `None` is the pod's own.
    async fn delete_pod(
        &self,
        pod: &PodRef,
        grace: Option<Duration>,
    ) -> Result<Deleted, ClusterError>;

    /// Waits until the pod's UID is gone (C-25); `Terminating` when the bound passes first.
    async fn await_gone(&self, pod: &PodRef, bound: Duration) -> Result<Deleted, ClusterError>;

    /// Objects that carry this installation's labels (C-2c, C-23), in every namespace.
    async fn leftovers(&self) -> Result<Vec<Leftover>, ClusterError>;
}

/// The configured clusters by name. A name that is not here is a cluster nobody configured.
pub type Clusters = BTreeMap<String, Arc<dyn Cluster>>;

/// What the shell's side of the relay sends us. Its `Debug` shows no terminal byte.
#[derive(PartialEq, Eq)]
pub enum ShellEvent {
    /// Terminal output, as the shell wrote it.
    Output(Bytes),
    /// The other side answered a ping.
    Pong,
    /// The remote command's status (channel 3): the stream ends after it. `None` for success.
    Status(Option<String>),
}

impl fmt::Debug for ShellEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(bytes) => write!(f, "Output({} bytes)", bytes.len()),
            Self::Pong => f.write_str("Pong"),
            Self::Status(None) => f.write_str("Status(success)"),
            Self::Status(Some(text)) => write!(f, "Status({} bytes)", text.len()),
        }
    }
}

/// What the relay sends to the shell's side. Its `Debug` shows no terminal byte.
#[derive(PartialEq, Eq)]
pub enum ShellInput {
    /// Bytes for the terminal's input.
    Stdin(Bytes),
    /// The terminal's size.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Asks for a `Pong`.
    Ping,
}

impl fmt::Debug for ShellInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin(bytes) => write!(f, "Stdin({} bytes)", bytes.len()),
            Self::Resize { cols, rows } => write!(f, "Resize({cols}x{rows})"),
            Self::Ping => f.write_str("Ping"),
        }
    }
}

/// The stream to a shell failed.
#[derive(Debug, thiserror::Error)]
#[error("the stream to the shell broke: {0}")]
pub struct ShellError(pub String);

/// A stream to a shell, polled so that one task can serve both directions without one ever
/// blocking the other (T-14). Dropping it closes the stream, not the shell (C-25).
pub trait Shell: Send + Unpin {
    /// The next event; `Ready(None)` when the stream is closed.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ShellEvent, ShellError>>>;
    /// Whether one more input can be taken.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>>;
    /// Takes one input; only after `poll_ready` was `Ready(Ok)`.
    fn start_send(&mut self, input: ShellInput) -> Result<(), ShellError>;
    /// Pushes out what was taken.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_a_terminal_is_in_no_debug_output() {
        let secret = Bytes::from_static(b"hunter2");
        for shown in [
            format!("{:?}", ShellEvent::Output(secret.clone())),
            format!("{:?}", ShellInput::Stdin(secret)),
            format!("{:?}", ShellEvent::Status(Some("hunter2".to_owned()))),
        ] {
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("7 bytes"), "{shown}");
        }
    }
}
