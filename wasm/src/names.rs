//! Every name, label and annotation that Break-glass uses in a cluster, once.
//!
//! Invariant: the policies, the sidecar and the builders of this crate all read them here, so that
//! what one makes another finds. What is derived from a session id is reversible where it is read
//! back: the name of a debug container gives the session, and nothing of an app's passes for one.

use crate::session::{SESSION_ID_LENGTH, SessionId};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

/// Label: who manages the object (C-2c).
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY`] on everything of ours; also the prefix of a grant's name.
pub const TOWER_BREAKGLASS: &str = "tower-breakglass";
/// Label: the session that the object belongs to (C-2c).
pub const SESSION: &str = "hangar.io/breakglass-session";
/// Label: the installation that made the object (C-2c).
pub const INSTALLATION: &str = "hangar.io/breakglass-installation";
/// Label on a copy pod, with the value [`TRUE`] (C-12).
pub const COPY: &str = "hangar.io/breakglass-copy";
/// Label that Kyverno's cleanup controller acts on: a duration counted from the creation (C-7).
pub const TTL: &str = "cleanup.kyverno.io/ttl";

/// Annotation: who asked for the session, a full entity ref (C-7).
pub const REQUESTER: &str = "hangar.io/breakglass-requester";
/// Annotation: the second person (C-7).
pub const APPROVER: &str = "hangar.io/breakglass-approver";
/// Annotation, with the value [`TRUE`]: opened without a second person (C-7).
pub const GLASS_BROKEN: &str = "hangar.io/breakglass-glass-broken";
/// Annotation: the session's deadline when the object was made, RFC 3339 in UTC (C-7).
pub const EXPIRES_AT: &str = "hangar.io/breakglass-expires-at";
/// Annotation on a live pod: the one session that may see its processes (C-8).
pub const PROCESS_ACCESS: &str = "hangar.io/breakglass-process-access";

/// What a mark says that is either there or not.
pub const TRUE: &str = "true";

/// The ClusterRole that a live session's grant binds (C-7).
pub const DEBUG_LIVE_ROLE: &str = "tower-breakglass-debug-live";
/// The ClusterRole that a copy session's grant binds (C-7).
pub const DEBUG_COPY_ROLE: &str = "tower-breakglass-debug-copy";

/// Namespace label: the app that owns the namespace (S-14).
pub const APP: &str = "hangar.io/app";
/// Namespace label: the app's environment (S-14).
pub const ENV: &str = "hangar.io/env";
/// Namespace label: a preview, and so Ground (S-9).
pub const EPHEMERAL_ENV: &str = "hangar.io/ephemeral-env";
/// Namespace label: the tier that the platform declares (S-9a).
pub const TIER: &str = "hangar.io/tier";

/// The prefix of a debug container's name; the session id follows, and nothing else (C-26a).
pub const DEBUG_PREFIX: &str = "debug-";
/// The same rule as [`debug_container_session`] for those who can only match text (C-26a).
pub const DEBUG_CONTAINER_PATTERN: &str = "^debug-[0-9a-z]{12}$";

/// Characters that Kubernetes allows in a label's value and in a container's name.
const LABEL_MAX: usize = 63;
const COPY_INFIX: &str = "-copy-";

/// The name of a session's grant (C-7).
pub fn grant_name(id: &SessionId) -> String {
    format!("{TOWER_BREAKGLASS}-{id}")
}

/// The name of the grant that an extended session gets before the first can lapse (C-14).
pub fn second_grant_name(id: &SessionId) -> String {
    format!("{TOWER_BREAKGLASS}-{id}-2")
}

/// The name of a session's debug container (C-8).
pub fn debug_container_name(id: &SessionId) -> String {
    format!("{DEBUG_PREFIX}{id}")
}

/// The session that a debug container's name belongs to; `None` for a name that is not ours, like
/// an app's `debug-proxy` (C-26a). In a pod it counts for *ephemeral* containers alone.
pub fn debug_container_session(name: &str) -> Option<SessionId> {
    SessionId::parse(name.strip_prefix(DEBUG_PREFIX)?).ok()
}

/// The name of a session's copy of a pod: the pod's own, cut to fit 63 characters, and the session
/// id (C-12). A dot becomes a dash: the name is the copy's host name too.
pub fn copy_pod_name(pod: &str, id: &SessionId) -> String {
    let room = LABEL_MAX - COPY_INFIX.len() - SESSION_ID_LENGTH;
    let stem: String = pod
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .take(room)
        .collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "pod" } else { stem };
    format!("{stem}{COPY_INFIX}{id}")
}

/// The labels of everything we make (C-2c). `installation` is a label value, as the configuration
/// checked with [`is_label_value`].
pub fn our_labels(installation: &str, id: &SessionId) -> BTreeMap<String, String> {
    BTreeMap::from([
        (MANAGED_BY.to_owned(), TOWER_BREAKGLASS.to_owned()),
        (SESSION.to_owned(), id.to_string()),
        (INSTALLATION.to_owned(), installation.to_owned()),
    ])
}

/// The session of an object that *this* installation made, by its labels (C-2c); `None` for
/// everything else, another installation's objects among it.
pub fn our_session(labels: &BTreeMap<String, String>, installation: &str) -> Option<SessionId> {
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|found| found == value);
    if !is(MANAGED_BY, TOWER_BREAKGLASS) || !is(INSTALLATION, installation) {
        return None;
    }
    SessionId::parse(labels.get(SESSION)?).ok()
}

/// The label selector that lists this installation's objects (C-23).
pub fn our_selector(installation: &str) -> String {
    format!("{MANAGED_BY}={TOWER_BREAKGLASS},{INSTALLATION}={installation}")
}

/// A Kyverno TTL: whole minutes, the one form that the policies take.
pub fn ttl(minutes: u32) -> String {
    format!("{minutes}m")
}

/// Whether Kubernetes takes this text as a label's value, and it is not empty.
pub fn is_label_value(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LABEL_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests;
