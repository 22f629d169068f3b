//! The vocabulary: what a session is, as one row (spec 06) and as JSON (S-10). Types only.
//!
//! Invariant: the field names in JSON are the row's columns in camelCase; none is ever renamed
//! or removed, because Tower reads them.

use crate::lower::lower_case;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A session's id: 12 characters of `[0-9a-z]` (S-3). A value of this type is well formed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export, type = "string"))]
pub struct SessionId(String);

/// The text is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a session id is {SESSION_ID_LENGTH} characters of 0-9 and a-z")]
pub struct InvalidSessionId;

/// Characters in a session id (S-3).
pub const SESSION_ID_LENGTH: usize = 12;

impl SessionId {
    /// Reads an id; anything but 12 characters of `[0-9a-z]` is refused.
    pub fn parse(text: &str) -> Result<Self, InvalidSessionId> {
        let well_formed = text.len() == SESSION_ID_LENGTH
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSessionId)
        }
    }

    /// Makes an id of random bytes from a cryptographic generator. `None` for a draw that
    /// would favour some characters; the caller draws again.
    pub fn from_random(bytes: [u8; SESSION_ID_LENGTH]) -> Option<Self> {
        const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        // 252 is the largest multiple of 36 in a byte: beyond it the draw is not even.
        let drawn: Option<String> = bytes
            .iter()
            .map(|b| (*b < 252).then(|| char::from(ALPHABET[usize::from(b % 36)])))
            .collect();
        drawn.map(Self)
    }

    /// What stands for an id that could not be read, until that is told.
    pub(crate) fn blank() -> Self {
        Self(String::from("000000000000"))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidSessionId;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

/// A person: the full entity ref in lower case (`user:default/alice`), compared as text (S-4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export, type = "string"))]
pub struct UserRef(String);

impl UserRef {
    /// Takes a full entity ref and lowers its case.
    pub fn new(text: &str) -> Self {
        Self(lower_case(text))
    }

    /// The ref as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for UserRef {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl fmt::Display for UserRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a session is in its life (spec 01, "States").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum State {
    /// A Flight request that waits for a second person.
    Requested,
    /// Approved; waits for its requester to start it.
    Approved,
    /// Open, or opening.
    Active,
    /// Over, for good.
    Ended,
}

/// What is at stake (S-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum Tier {
    /// Low stakes: a session opens at once.
    Ground,
    /// Production: a second person approves, or an admin breaks the glass.
    Flight,
}

/// How the session looks at the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum Mode {
    /// An ephemeral debug container in the running pod.
    Live,
    /// A hardened copy of the pod with a debug container.
    Copy,
}

/// The review that a glass-broken session owes (S-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum ReviewState {
    /// Owed.
    Due,
    /// Done, once, by somebody other than the requester.
    Done,
}

/// One volume that the debug container got, as told to people and kept on the row (C-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct MountedVolume {
    /// The volume's name in the pod.
    pub name: String,
    /// Where the debug container sees it.
    pub mount_path: String,
    /// Where the app's container sees it, if that is another path; says why in `note`.
    pub app_path: String,
    /// Why it is mounted elsewhere, or whole instead of a sub-path.
    pub note: Option<String>,
}

/// A session: the row (spec 06), and its JSON (S-10). Unset values are `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
#[expect(
    missing_docs,
    reason = "spec 06 and docs/store.md give every column's meaning, once"
)]
pub struct Session {
    pub id: SessionId,
    pub app: String,
    pub env: String,
    pub cluster: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub mode: Mode,
    pub process_access: bool,
    pub volume_access: bool,
    pub volumes: Vec<MountedVolume>,
    pub recycle_last_pod: bool,
    pub recycled: Option<bool>,
    pub reason: String,
    pub ticket_url: Option<String>,
    pub requester: UserRef,
    pub tier: Tier,
    pub duration_minutes: u32,
    pub approver: Option<UserRef>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub approved_at: Option<Timestamp>,
    pub decision_note: Option<String>,
    pub glass_broken: bool,
    pub review_state: Option<ReviewState>,
    pub reviewed_by: Option<UserRef>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub reviewed_at: Option<Timestamp>,
    pub review_note: Option<String>,
    #[serde(with = "crate::time")]
    #[cfg_attr(test, ts(type = "string"))]
    pub created_at: Timestamp,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub started_at: Option<Timestamp>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub extended_at: Option<Timestamp>,
    #[serde(with = "crate::time")]
    #[cfg_attr(test, ts(type = "string"))]
    pub expires_at: Timestamp,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub ended_at: Option<Timestamp>,
    pub end_reason: Option<String>,
    pub ended_by: Option<UserRef>,
    pub role_binding: Option<String>,
    pub copy_pod: Option<String>,
    pub debug_container: Option<String>,
    pub recording_key: Option<String>,
    pub recording_sha256: Option<String>,
    #[cfg_attr(test, ts(type = "number | null"))]
    pub recording_bytes: Option<i64>,
    pub recording_bucket: Option<String>,
    pub recording_version: Option<String>,
    pub sensitive: bool,
    pub hold_app: bool,
    pub pod_image: Option<String>,
    pub pod_image_id: Option<String>,
    pub recycle_waived_reason: Option<String>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub review_reminded_at: Option<Timestamp>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub review_escalated_at: Option<Timestamp>,
    #[cfg_attr(test, ts(type = "number | null"))]
    pub recording_rekor_index: Option<i64>,
    pub recording_rekor_uuid: Option<String>,
    #[serde(default, with = "crate::time::option")]
    #[cfg_attr(test, ts(type = "string | null"))]
    pub anchor_attempted_at: Option<Timestamp>,
    pub anchor_error: Option<String>,
    pub cleanup_notes: Option<String>,
    pub state: State,
}

/// A permission that Backstage answered ALLOW for the session's app (B-3); no other counts (S-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub enum Permission {
    /// `tower.breakglass.request`
    Request,
    /// `tower.breakglass.self`: open on Flight without a second person.
    #[serde(rename = "self")]
    SelfApprove,
    /// `tower.breakglass.approve`
    Approve,
    /// `tower.breakglass.terminate`: its holder is an admin (S-13).
    Terminate,
}

/// Who is calling, as the shim vouches for it (docs/caller-protocol.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Actor {
    /// The person; what is recorded.
    pub user: UserRef,
    /// The app that the answers were given for.
    pub app: String,
    /// What Backstage allowed; what is missing is denied.
    #[serde(default)]
    pub allowed: Vec<Permission>,
    /// Member of `glidepath.breakglass.reviewers`.
    #[serde(default)]
    pub reviewer: bool,
}

impl Actor {
    /// Whether Backstage allowed this to the caller.
    pub fn may(&self, permission: Permission) -> bool {
        self.allowed.contains(&permission)
    }
}
