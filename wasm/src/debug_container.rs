//! The debug container: what a person's shell runs in (C-11, C-25).
//!
//! Invariant: whatever the pod says, the container has a pinned image, a non-zero user and group, a
//! read-only root, no capability and no way to gain one, read-only mounts, no token, and a deadline
//! of its own. It sees the processes of the app only where that was asked for and can work.

use crate::mounts::VolumeMount;
use crate::names;
use crate::pod::{Container, PodFacts};
use crate::session::SessionId;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::{Value, json};

/// Seconds that a session can be extended by, once (spec 01).
const EXTENSION_SECONDS: u32 = 15 * 60;
/// Seconds by which the container's own deadline is later than the session's, so that the end in
/// good order comes first.
const DEADLINE_MARGIN_SECONDS: u32 = 60;

/// What the debug container runs: `/bin/sh -c LAUNCHER breakglass <seconds>` (C-25). It asks for
/// no more than a POSIX shell and `sleep`.
///
/// - The outer shell never becomes another program: it is the container's first process, which no
///   signal from inside can kill, so the shell that people type into must be another one. When
///   that is gone, the outer ends and the container with it.
/// - The watcher counts from the container's start and kills the shell at the deadline. If its
///   `sleep` is missing or is killed, the session is over at once; without a `/dev/null`, where no
///   shell starts a watcher, nothing starts. It checks that the outer shell is there, so that it
///   never hits a stranger with the same number.
/// - Its parent is the shell that it kills. The usual name for that, two dollar signs, would not
///   arrive: Kubernetes makes one of two, and replaces `$(NAME)`, in every command.
/// - Then one line is awaited, unechoed: the sidecar sends the terminal's size and then a newline
///   when the first terminal attaches, so that no prompt is lost and the first one fits. Keys that
///   signal are ignored until then.
/// - Who kills the watcher on purpose escapes this deadline (a POSIX shell cannot both wait for two
///   children and lend one the terminal); the sidecar's end, the recycle and a copy's own
///   `activeDeadlineSeconds` are out of their reach.
/// - At the end the watcher goes with the outer's process group, and never with `kill -1`: in the
///   app's process namespace that would be the app.
pub const LAUNCHER: &str = r#": </dev/null >/dev/null || exit 126
trap : INT QUIT TSTP
/bin/sh -c '
trap "" INT QUIT TSTP
/bin/sh -c "sleep \"\$1\"; kill -0 \"\$2\" && kill -KILL \"\$PPID\"" breakglass "$1" "$PPID" \
</dev/null >/dev/null 2>&1 &
stty -echo 2>/dev/null
IFS= read -r line
stty echo 2>/dev/null
trap - INT QUIT TSTP
command -v bash >/dev/null 2>&1 && exec bash
exec /bin/sh
' breakglass "$1"
status=$?
trap : TERM
kill -TERM 0
exit "$status"
"#;

/// The user that a debug container runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DebugUser {
    /// Not 0.
    pub uid: i64,
    /// Not 0.
    pub gid: i64,
}

impl Default for DebugUser {
    /// `nonroot`, as distroless images know it.
    fn default() -> Self {
        Self {
            uid: 65532,
            gid: 65532,
        }
    }
}

/// What a debug container is made of.
#[derive(Debug, Clone, Copy)]
pub struct DebugSpec<'a> {
    /// The session.
    pub id: &'a SessionId,
    /// The configured image, by digest.
    pub image: &'a str,
    /// The pod that it is added to.
    pub pod: &'a PodFacts,
    /// The app's container that the session is about.
    pub container: &'a str,
    /// Whether it sees that container's processes.
    pub process_access: bool,
    /// The volumes that it sees; empty without volume access.
    pub mounts: &'a [VolumeMount],
    /// Its own deadline, in seconds from its start: [`hard_deadline_seconds`].
    pub deadline_seconds: u32,
    /// The user, where it need not be the app's.
    pub user: DebugUser,
}

/// Why there can be no such debug container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DebugRefusal {
    /// The configured image may change under its name.
    #[error("the debug image `{image}` is not pinned by a sha256 digest")]
    ImageNotPinned {
        /// As configured.
        image: String,
    },
    /// The configured user or group is root, or none.
    #[error("the debug container's own user and group must be numbers above 0")]
    DefaultUserIsRoot,
    /// No such container, or it is not one that stays.
    #[error("the pod has no container `{container}`")]
    NoContainer {
        /// As asked for.
        container: String,
    },
    /// The pod runs on Windows.
    #[error("the debug container is for Linux pods; this one runs on `{os}`")]
    NotLinux {
        /// As the pod declares it.
        os: String,
    },
    /// Any container in the pod sees the node's processes.
    #[error("the pod shares the node's processes (`hostPID`), which no session may see")]
    NodeProcesses,
    /// Any container in the pod sees the others' processes.
    #[error(
        "the pod shares its processes between containers (`shareProcessNamespace`), so a session \
         in it has process access: ask for process access"
    )]
    SharedProcesses,
    /// Nobody says what user the app runs as.
    #[error(
        "process access needs the user that `{container}` runs as: the pod does not declare \
         `runAsUser`, and its node does not report it"
    )]
    TargetUserUnknown {
        /// The app's container.
        container: String,
    },
    /// A debug container may not be root.
    #[error(
        "`{container}` runs as root, and a debug container may not: ask for a session without \
         process access"
    )]
    TargetUserIsRoot {
        /// The app's container.
        container: String,
    },
}

/// A debug container in the form that Kubernetes reads (an `EphemeralContainer`; without a target
/// it is a `Container` too).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct DebugContainer {
    pub name: String,
    pub image: String,
    pub image_pull_policy: &'static str,
    pub command: [String; 5],
    pub env: [EnvValue; 1],
    pub stdin: bool,
    pub stdin_once: bool,
    pub tty: bool,
    pub security_context: Hardened,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_container_name: Option<String>,
    /// What to tell people about it; not part of the object.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// An environment variable with a value that is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct EnvValue {
    pub name: &'static str,
    pub value: &'static str,
}

/// The security context of a debug container: what Pod Security calls restricted, and more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Hardened {
    pub run_as_non_root: bool,
    pub run_as_user: i64,
    pub run_as_group: i64,
    pub read_only_root_filesystem: bool,
    pub allow_privilege_escalation: bool,
    pub privileged: bool,
    pub capabilities: Value,
    pub seccomp_profile: Value,
}

/// Seconds after which a debug container ends by itself, and a copy pod is ended by its cluster:
/// the session, its one possible extension and a margin (C-14, C-25).
pub fn hard_deadline_seconds(duration_minutes: u32) -> u32 {
    let session = duration_minutes.saturating_mul(60);
    session
        .saturating_add(EXTENSION_SECONDS)
        .saturating_add(DEADLINE_MARGIN_SECONDS)
}

/// The debug container, or why there can be none (C-11).
pub fn debug_container(spec: &DebugSpec<'_>) -> Result<DebugContainer, DebugRefusal> {
    if !is_pinned(spec.image) {
        return Err(DebugRefusal::ImageNotPinned {
            image: spec.image.to_owned(),
        });
    }
    if spec.user.uid <= 0 || spec.user.gid <= 0 {
        return Err(DebugRefusal::DefaultUserIsRoot);
    }
    if let Some(os) = spec.pod.spec.os.as_ref().filter(|os| os.name != "linux") {
        return Err(DebugRefusal::NotLinux {
            os: os.name.clone(),
        });
    }
    let no_container = || DebugRefusal::NoContainer {
        container: spec.container.to_owned(),
    };
    let target = spec
        .pod
        .container(spec.container)
        .ok_or_else(no_container)?;
    if spec.pod.spec.host_pid {
        return Err(DebugRefusal::NodeProcesses);
    }
    if spec.pod.spec.share_process_namespace && !spec.process_access {
        return Err(DebugRefusal::SharedProcesses);
    }
    let mut notes = Vec::new();
    let user = match spec.process_access {
        true => target_user(spec, target, &mut notes)?,
        false => spec.user,
    };
    Ok(DebugContainer {
        name: names::debug_container_name(spec.id),
        image: spec.image.to_owned(),
        image_pull_policy: "IfNotPresent",
        command: launch(spec.deadline_seconds),
        env: [EnvValue {
            name: "TERM",
            value: "xterm-256color",
        }],
        stdin: true,
        stdin_once: false,
        tty: true,
        security_context: hardened(user),
        volume_mounts: spec.mounts.to_vec(),
        target_container_name: spec.process_access.then(|| target.name.clone()),
        notes,
    })
}

fn launch(seconds: u32) -> [String; 5] {
    [
        "/bin/sh",
        "-c",
        LAUNCHER,
        "breakglass",
        &seconds.to_string(),
    ]
    .map(str::to_owned)
}

fn hardened(user: DebugUser) -> Hardened {
    Hardened {
        run_as_non_root: true,
        run_as_user: user.uid,
        run_as_group: user.gid,
        read_only_root_filesystem: true,
        allow_privilege_escalation: false,
        privileged: false,
        capabilities: json!({ "drop": ["ALL"] }),
        seccomp_profile: json!({ "type": "RuntimeDefault" }),
    }
}

/// The app's own user, with which /proc is readable: as declared, else as the node reports it.
fn target_user(
    spec: &DebugSpec<'_>,
    target: &Container,
    notes: &mut Vec<String>,
) -> Result<DebugUser, DebugRefusal> {
    let container = || target.name.clone();
    let own = target.security_context.as_ref();
    let pods = spec.pod.spec.security_context.as_ref();
    let reported = spec
        .pod
        .status_of(&target.name)
        .and_then(|s| s.user.as_ref()?.linux.as_ref());

    let declared = own
        .and_then(|c| c.run_as_user)
        .or_else(|| pods?.run_as_user);
    let uid = declared.or_else(|| Some(reported?.uid));
    if uid == Some(0) || reported.is_some_and(|user| user.uid == 0) {
        return Err(DebugRefusal::TargetUserIsRoot {
            container: container(),
        });
    }
    let unknown = || DebugRefusal::TargetUserUnknown {
        container: container(),
    };
    let uid = uid.filter(|uid| *uid > 0).ok_or_else(unknown)?;

    let declared = own
        .and_then(|c| c.run_as_group)
        .or_else(|| pods?.run_as_group);
    let gid = declared
        .or_else(|| Some(reported?.gid))
        .filter(|gid| *gid > 0);
    if gid.is_none() {
        // The kernel wants the group to be the same before it shows these.
        notes.push(format!(
            "the group of `{}` is root's or not known, so its files and environment under /proc \
             cannot be read; its processes are listed",
            target.name
        ));
    }
    Ok(DebugUser {
        uid,
        gid: gid.unwrap_or(spec.user.gid),
    })
}

/// Whether an image reference names its content: `…@sha256:` and 64 hexadecimal digits.
pub fn is_pinned(image: &str) -> bool {
    let Some((repository, digest)) = image.split_once("@sha256:") else {
        return false;
    };
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let plain = |c: char| c.is_ascii_alphanumeric() || "./:-_".contains(c);
    !repository.is_empty()
        && repository.chars().all(plain)
        && digest.len() == 64
        && digest.bytes().all(hex)
}

/// The strategic merge patch for `pods/ephemeralcontainers` that adds the debug container to this
/// very pod, as it was read: another pod of the name, or a change in between, is a conflict (C-8).
pub fn add_patch(pod: &PodFacts, container: &DebugContainer) -> Value {
    json!({
        "metadata": { "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version },
        "spec": { "ephemeralContainers": [container] },
    })
}

/// The merge patch that lets one session see this very pod's processes, or nobody (C-8, C-17).
pub fn process_access_patch(pod_uid: &str, session: Option<&SessionId>) -> Value {
    let session = session.map(SessionId::as_str);
    json!({
        "metadata": { "uid": pod_uid, "annotations": { (names::PROCESS_ACCESS): session } },
    })
}

#[cfg(test)]
mod tests;
