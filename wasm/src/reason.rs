//! Why a session ended, with the exact texts that people see and rows keep (S-4).
//!
//! Invariant: `to_string` and `parse` are inverse; a stored row is read back without loss.

use crate::session::{State, UserRef};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::fmt;

/// Why a session ended (S-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The requester ended it.
    ByUser,
    /// An admin or the approver ended an active session.
    Terminated(UserRef),
    /// The requester took back a request or an approved session.
    Withdrawn,
    /// An approver or admin took back somebody's request or approval.
    Cancelled(UserRef),
    /// A second person said no.
    Denied(UserRef),
    /// Nobody approved within the request's 30 minutes.
    NobodyApproved,
    /// Approved, and not started within its 10 minutes.
    NotStarted,
    /// The agreed time is over.
    Expired,
    /// The process that ran the session is gone.
    BackendRestarted,
    /// No terminal for more than 2 minutes.
    NotReopened,
    /// No input or output for more than 10 minutes.
    Idle,
    /// The shell exited.
    ShellExited,
    /// The pod was deleted, evicted or replaced, or its node is lost.
    PodGone,
    /// It could not be opened; the text says why.
    FailedToStart(String),
    /// Backstage no longer allows it to the requester (T-12).
    PermissionLost,
    /// What cannot be recorded does not happen.
    NotRecorded,
}

const TERMINATED: &str = "terminated by ";
const CANCELLED: &str = "cancelled by ";
const DENIED: &str = "denied by ";
const FAILED: &str = "failed to start: ";

impl EndReason {
    /// Reads a row's text; `None` for a text that is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let by = |prefix: &str| text.strip_prefix(prefix).map(UserRef::new);
        if let Some(user) = by(TERMINATED) {
            return Some(Self::Terminated(user));
        }
        if let Some(user) = by(CANCELLED) {
            return Some(Self::Cancelled(user));
        }
        if let Some(user) = by(DENIED) {
            return Some(Self::Denied(user));
        }
        if let Some(why) = text.strip_prefix(FAILED) {
            return Some(Self::FailedToStart(why.to_owned()));
        }
        Self::FIXED
            .iter()
            .find(|reason| reason.to_string() == text)
            .cloned()
    }

    /// The reasons without a part that varies.
    pub const FIXED: [Self; 12] = [
        Self::ByUser,
        Self::Withdrawn,
        Self::NobodyApproved,
        Self::NotStarted,
        Self::Expired,
        Self::BackendRestarted,
        Self::NotReopened,
        Self::Idle,
        Self::ShellExited,
        Self::PodGone,
        Self::PermissionLost,
        Self::NotRecorded,
    ];

    /// What a session ends with when its state's deadline passes; an ended one has none.
    pub fn of_deadline(state: State) -> Option<Self> {
        match state {
            State::Requested => Some(Self::NobodyApproved),
            State::Approved => Some(Self::NotStarted),
            State::Active => Some(Self::Expired),
            State::Ended => None,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByUser => f.write_str("ended by user"),
            Self::Terminated(user) => write!(f, "{TERMINATED}{user}"),
            Self::Withdrawn => f.write_str("withdrawn"),
            Self::Cancelled(user) => write!(f, "{CANCELLED}{user}"),
            Self::Denied(user) => write!(f, "{DENIED}{user}"),
            Self::NobodyApproved => f.write_str("request expired before anyone approved it"),
            Self::NotStarted => f.write_str("approved but not started within 10 minutes"),
            Self::Expired => f.write_str("expired"),
            Self::BackendRestarted => f.write_str("backend restarted during the session"),
            Self::NotReopened => f.write_str("terminal closed and not reopened within 2 minutes"),
            Self::Idle => f.write_str("idle for 10 minutes"),
            Self::ShellExited => f.write_str("shell exited"),
            Self::PodGone => f.write_str("pod is gone"),
            Self::FailedToStart(why) => write!(f, "{FAILED}{why}"),
            Self::PermissionLost => f.write_str("requester lost the permission"),
            Self::NotRecorded => f.write_str("recording could not be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_read_back_as_it_was_written() {
        let user = UserRef::new("User:Default/Alice");
        let varying = [
            EndReason::Terminated(user.clone()),
            EndReason::Cancelled(user.clone()),
            EndReason::Denied(user),
            EndReason::FailedToStart("image cannot be pulled".to_owned()),
        ];
        for reason in EndReason::FIXED.iter().chain(&varying) {
            assert_eq!(EndReason::parse(&reason.to_string()).as_ref(), Some(reason));
        }
        assert_eq!(EndReason::parse("because"), None);
    }

    #[test]
    fn a_user_is_named_in_lower_case() {
        let reason = EndReason::Terminated(UserRef::new("User:Default/Alice"));
        assert_eq!(reason.to_string(), "terminated by user:default/alice");
    }
}
