//! Why a person's wish is not granted, in words for that person.

use crate::reason::EndReason;
use crate::request::Problem;
use crate::session::{Permission, SessionId, State, UserRef};
use crate::time::text;
use crate::transition::Event;
use alloc::string::String;
use jiff::Timestamp;

/// What kind of refusal it is; each answers with one status (S-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// 400: what was sent is wrong.
    Invalid,
    /// 403: this person may not.
    NotAllowed,
    /// 404: not a session of the app that the caller was asked about.
    NotFound,
    /// 409: not in this state, or not any longer.
    Conflict,
    /// 410: a terminal or recording that is over.
    Gone,
}

/// Why not (S-11). The text is what the person reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum Refusal {
    #[error("app `{app}` has no session `{id}`")]
    OtherApp { app: String, id: SessionId },
    #[error(
        "the request is for app `{asked}`, but the permissions were asked for app `{answered}`"
    )]
    AnsweredForOtherApp { asked: String, answered: String },
    #[error("`{user}` lacks the permission `{}` for app `{app}`", permission_name(*.permission))]
    NotPermitted {
        user: UserRef,
        permission: Permission,
        app: String,
    },
    #[error("`{user}` asked for this session, so somebody else must {} it", event.verb())]
    OwnSession { user: UserRef, event: Event },
    #[error("only `{requester}`, who asked for this session, may {what}")]
    NotRequester {
        requester: UserRef,
        what: &'static str,
    },
    #[error(
        "only the requester, the approver or an admin may end this session, and `{user}` is none \
         of them"
    )]
    MayNotEnd { user: UserRef },
    #[error(
        "only an approver of app `{app}` or a member of the reviewers may review this session, \
         and `{user}` is neither"
    )]
    MayNotReview { user: UserRef, app: String },
    #[error(
        "this recording may show secrets: only the requester, the approver, a reviewer or an \
         admin may read it, and `{user}` is none of them"
    )]
    SensitiveRecording { user: UserRef },
    #[error("this session is {}, so nobody can {} it", state_name(*.state), event.verb())]
    WrongState { state: State, event: Event },
    #[error("{} at {}; ask again", deadline_text(*.state), text(*.at))]
    PastDeadline { state: State, at: Timestamp },
    #[error("the deadline of this session is {}, and it has not passed", text(*.at))]
    NotDue { at: Timestamp },
    #[error("this session was extended already, and it can be extended once")]
    AlreadyExtended,
    #[error("this session owes no review: its glass was not broken")]
    NoReviewOwed,
    #[error("this session was reviewed already")]
    AlreadyReviewed,
    #[error("{0}")]
    Waiver(Problem),
    #[error("`{reason}` is not how a session that is {} can end", state_name(*.state))]
    ReasonDoesNotFit { state: State, reason: EndReason },
    #[error("this session is {} and has no terminal", state_name(*.state))]
    NotAttachable { state: State },
    #[error("the terminal of this session is not in this process; reload to see what became of it")]
    NotHere,
    #[error("the time of this session was over at {}", text(*.at))]
    TerminalOver { at: Timestamp },
}

impl Refusal {
    /// What kind of refusal it is. No wildcard: a new one does not compile until it has a kind.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Self::OtherApp { .. } => RefusalKind::NotFound,
            Self::NotPermitted { .. }
            | Self::OwnSession { .. }
            | Self::NotRequester { .. }
            | Self::MayNotEnd { .. }
            | Self::MayNotReview { .. }
            | Self::SensitiveRecording { .. } => RefusalKind::NotAllowed,
            Self::WrongState { .. }
            | Self::PastDeadline { .. }
            | Self::NotDue { .. }
            | Self::AlreadyExtended
            | Self::NoReviewOwed
            | Self::AlreadyReviewed
            | Self::ReasonDoesNotFit { .. } => RefusalKind::Conflict,
            Self::AnsweredForOtherApp { .. } | Self::Waiver(_) => RefusalKind::Invalid,
            Self::NotAttachable { .. } | Self::NotHere | Self::TerminalOver { .. } => {
                RefusalKind::Gone
            }
        }
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Requested => "requested",
        State::Approved => "approved",
        State::Active => "active",
        State::Ended => "ended",
    }
}

fn deadline_text(state: State) -> &'static str {
    match state {
        State::Requested => "this request expired",
        State::Approved => "this approval expired",
        State::Active | State::Ended => "this session expired",
    }
}

fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::Request => "tower.breakglass.request",
        Permission::SelfApprove => "tower.breakglass.self",
        Permission::Approve => "tower.breakglass.approve",
        Permission::Terminate => "tower.breakglass.terminate",
    }
}
