//! The terminal of an open session: attaching to it, and what its endings mean (spec 03).
//!
//! Invariants: only the requester attaches, and only where the session runs; every way in which a
//! shell, its stream, its pod or its recording ends leads to exactly one end of the session.

use super::Sessions;
use super::runtime::{Phase, Runtime};
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::ports::Cluster;
use crate::ports::cluster::{ClusterError, ObjectKind, PodRef};
use crate::recording::LiveRecording;
use crate::terminal::{TerminalEvent, TerminalHandle, TerminalParts};
use decisions::access::may_attach;
use decisions::names::debug_container_name;
use decisions::pod::PodFacts;
use decisions::pod::state::ContainerState;
use decisions::reason::EndReason;
use decisions::session::SessionId;
use std::sync::Arc;
use std::time::Duration;

/// The kubelet reports an exit a moment after the stream closes (T-5).
const SETTLE: Duration = Duration::from_secs(15);
/// Between two looks at the container.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A terminal that a browser may be connected to.
pub struct Terminal(TerminalHandle);

impl Terminal {
    /// Hands an upgraded connection over to the session's relay; it replaces the one before (T-4).
    pub fn attach_browser<I>(&self, io: I)
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        self.0.attach_browser(io);
    }
}

impl Sessions {
    /// Judges an attach before the upgrade (T-1).
    pub async fn attach(&self, caller: &Caller, id: &SessionId) -> Result<Terminal, ApiError> {
        let session = self.load(id).await?;
        let runtime = self.runtimes.get(id);
        let ages = runtime
            .as_ref()
            .map(|runtime| runtime.ages(self.clock.elapsed()));
        may_attach(&session, &caller.actor, ages, self.clock.wall())?;
        let terminal = runtime.as_ref().and_then(|runtime| runtime.terminal.get());
        let Some(terminal) = terminal else {
            return Err(ApiError::Gone(
                "the session is still opening; try again when its debug container runs".to_owned(),
            ));
        };
        Ok(Terminal(terminal.clone()))
    }

    /// Attaches to the running debug container and starts the relay. No browser is needed: what
    /// the shell prints is recorded from here on.
    pub(super) async fn open_terminal(
        &self,
        runtime: &Runtime,
        cluster: &dyn Cluster,
        recording: LiveRecording,
    ) -> Result<(), ApiError> {
        let session = runtime.session();
        let target = target_of(runtime);
        let container = debug_container_name(&session.id);
        let shell = cluster.attach(&target, &container).await?;
        let terminal = TerminalHandle::spawn(TerminalParts {
            clock: self.clock.clone(),
            recording,
            deadline: runtime.deadline(),
        });
        terminal.set_shell(shell);
        let _ = runtime.terminal.set(terminal);
        Ok(())
    }

    /// Follows an open session to its end.
    pub(super) fn supervise(self: &Arc<Self>, runtime: Arc<Runtime>) {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let reason = tokio::select! {
                reason = this.until_it_ends(&runtime) => reason,
                () = runtime.abandoned.cancelled() => None,
            };
            if let Some(reason) = reason {
                this.end_by_system(&runtime.session().id, reason).await;
            }
        });
    }

    /// The reason why the session must end; `None` when its end comes from elsewhere.
    async fn until_it_ends(&self, runtime: &Runtime) -> Option<EndReason> {
        let terminal = runtime.terminal.get()?;
        loop {
            let deadline = runtime.deadline();
            let event = tokio::select! {
                () = self.clock.sleep_until(deadline) => {
                    // It may have been extended meanwhile.
                    if self.clock.elapsed() >= runtime.deadline() {
                        return Some(EndReason::Expired);
                    }
                    continue;
                }
                event = terminal.next_event() => event?,
            };
            match event {
                TerminalEvent::DeadlineStruck => return Some(EndReason::Expired),
                TerminalEvent::RecordingFailed => return Some(EndReason::NotRecorded),
                TerminalEvent::ShellStreamClosed => {
                    if runtime.phase() != Phase::Open || runtime.cancelled.is_cancelled() {
                        return None;
                    }
                    if let Some(reason) = self.shell_stream_closed(runtime).await {
                        return Some(reason);
                    }
                }
            }
        }
    }

    /// T-5: an exit, a pod that is gone, or only a stream that broke.
    async fn shell_stream_closed(&self, runtime: &Runtime) -> Option<EndReason> {
        let terminal = runtime.terminal.get()?;
        let patience = self.clock.elapsed() + SETTLE;
        loop {
            match self.look_at_shell(runtime).await {
                Ok(ShellState::Exited) => return Some(EndReason::ShellExited),
                Ok(ShellState::PodGone) => return Some(EndReason::PodGone),
                Ok(ShellState::Running) | Err(_) => {}
            }
            let now = self.clock.elapsed();
            if now >= patience {
                break;
            }
            tokio::select! {
                () = self.clock.sleep_until(now + LOOK_AGAIN) => {}
                () = self.clock.sleep_until(runtime.deadline()) => return Some(EndReason::Expired),
                () = runtime.cancelled.cancelled() => return None,
            }
        }
        tracing::info!(session = %runtime.session().id, "the stream broke, the shell runs");
        terminal.detach_all("the connection to the pod broke; reconnect");
        self.reattach(runtime).await
    }

    /// A new stream to a shell that still runs; until the session ends or it succeeds.
    async fn reattach(&self, runtime: &Runtime) -> Option<EndReason> {
        let session = runtime.session();
        let cluster = self.cluster(&session.cluster).ok()?;
        let container = debug_container_name(&session.id);
        let mut pause = LOOK_AGAIN;
        while !runtime.cancelled.is_cancelled() {
            match cluster.attach(&target_of(runtime), &container).await {
                Ok(shell) => {
                    runtime.terminal.get()?.set_shell(shell);
                    return None;
                }
                Err(error) => {
                    tracing::debug!(session = %session.id, %error, "the shell is not back yet");
                }
            }
            match self.look_at_shell(runtime).await {
                Ok(ShellState::Exited) => return Some(EndReason::ShellExited),
                Ok(ShellState::PodGone) => return Some(EndReason::PodGone),
                Ok(ShellState::Running) | Err(_) => {}
            }
            tokio::select! {
                () = self.clock.sleep_until(self.clock.elapsed() + pause) => {}
                () = self.clock.sleep_until(runtime.deadline()) => return Some(EndReason::Expired),
                () = runtime.cancelled.cancelled() => return None,
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        None
    }

    /// Whether the pod and the shell in it are still there (C-24); the sweep asks too, since a
    /// stream to a pod that is gone can stay open and silent.
    pub(crate) async fn look_at_shell(
        &self,
        runtime: &Runtime,
    ) -> Result<ShellState, ClusterError> {
        let session = runtime.session();
        let cluster = self
            .cluster(&session.cluster)
            .map_err(|error| ClusterError::Unexpected {
                cluster: session.cluster.clone(),
                why: error.to_string(),
            })?;
        let Some(pod) = cluster.read_pod(&target_of(runtime)).await? else {
            return Ok(ShellState::PodGone);
        };
        let pod = PodFacts::read(&pod).map_err(|error| ClusterError::Unexpected {
            cluster: session.cluster.clone(),
            why: error.to_string(),
        })?;
        Ok(shell_state(&pod, &debug_container_name(&session.id)))
    }
}

/// A pod that was evicted, or whose node is lost, is still to be read; its shell is over with it,
/// and that is not the shell's own exit (C-24).
fn shell_state(pod: &PodFacts, container: &str) -> ShellState {
    let over = matches!(
        pod.status.phase.as_str(),
        "Failed" | "Succeeded" | "Unknown"
    );
    match pod.container_state(container) {
        _ if over => ShellState::PodGone,
        ContainerState::Terminated { .. } if pod.is_terminating() => ShellState::PodGone,
        ContainerState::Terminated { .. } => ShellState::Exited,
        ContainerState::Waiting { .. }
        | ContainerState::Running { .. }
        | ContainerState::Unknown => ShellState::Running,
    }
}

/// What the cluster says of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellState {
    Running,
    Exited,
    PodGone,
}

/// The pod that the session is in, by the UID that it had when it was touched.
pub(super) fn target_of(runtime: &Runtime) -> PodRef {
    let session = runtime.session();
    let uid = runtime
        .objects()
        .into_iter()
        .find(|object| object.kind == ObjectKind::LivePod)
        .map(|object| object.uid);
    PodRef {
        namespace: session.namespace.clone(),
        name: session.pod.clone(),
        uid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(phase: &str, deleted: bool, state: &serde_json::Value, expected: ShellState) {
        let deleted = deleted.then_some("2027-01-15T08:00:00Z");
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "deletionTimestamp": deleted},
            "spec": {"containers": [], "ephemeralContainers": [{"name": "debug-aaaaaaaaaaaa"}]},
            "status": {"phase": phase, "ephemeralContainerStatuses": [{
                "name": "debug-aaaaaaaaaaaa", "state": state,
            }]},
        });
        let pod = PodFacts::read(&pod).unwrap();
        assert_eq!(
            shell_state(&pod, "debug-aaaaaaaaaaaa"),
            expected,
            "{phase} {deleted:?}"
        );
    }

    #[test]
    fn a_shell_that_ends_with_its_pod_did_not_exit_by_itself() {
        let (runs, over) = (
            json!({"running": {}}),
            json!({"terminated": {"exitCode": 137}}),
        );
        check("Running", false, &runs, ShellState::Running);
        check("Running", false, &over, ShellState::Exited);
        check("Running", true, &runs, ShellState::Running);
        check("Running", true, &over, ShellState::PodGone);
        for phase in ["Failed", "Succeeded", "Unknown"] {
            check(phase, false, &runs, ShellState::PodGone);
            check(phase, false, &over, ShellState::PodGone);
        }
    }
}
