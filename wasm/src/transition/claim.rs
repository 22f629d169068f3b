//! What a transition writes. Each claim is one conditional `UPDATE` (S-1), and each type's comment
//! is its condition; `holds` and `apply` are the reference that a store must agree with.
//!
//! Invariant: a claim is made by the functions of `transition` alone (outside this crate none can
//! be constructed). Its times are whole microseconds, as the database keeps them.

use crate::reason::EndReason;
use crate::session::{ReviewState, Session, SessionId, State, UserRef};
use alloc::string::{String, ToString};
use jiff::Timestamp;

/// A new row (S-3: an id that is taken is drawn again).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Open {
    /// The row; `active` on Ground and with glass broken, else `requested`.
    pub session: Session,
}

/// `WHERE id AND state = 'requested' AND expires_at > approved_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the row's columns (spec 06)")]
pub struct Approve {
    pub id: SessionId,
    pub approver: UserRef,
    pub approved_at: Timestamp,
    pub expires_at: Timestamp,
    pub decision_note: Option<String>,
    pub recycle_waived_reason: Option<String>,
}

/// `WHERE id AND state = 'requested' AND expires_at > at`. Writes state `ended`, `approver` (the
/// second person, spec 06), `decision_note`, `ended_at`, `ended_by`, `end_reason`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the comment above names the columns")]
pub struct Deny {
    pub id: SessionId,
    pub approver: UserRef,
    pub at: Timestamp,
    pub decision_note: Option<String>,
}

impl Deny {
    /// `denied by <user>`.
    pub fn reason(&self) -> EndReason {
        EndReason::Denied(self.approver.clone())
    }
}

/// `WHERE id AND state = 'approved' AND expires_at > started_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the row's columns (spec 06)")]
pub struct Start {
    pub id: SessionId,
    pub started_at: Timestamp,
    pub expires_at: Timestamp,
}

/// `WHERE id AND state = 'active' AND extended_at IS NULL AND expires_at = from_expires_at`.
/// The deadline itself was judged by the runtime's clock where there is one (W-4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extend {
    /// The session.
    pub id: SessionId,
    /// The deadline that the row must still have.
    pub from_expires_at: Timestamp,
    /// Column `extended_at`.
    pub extended_at: Timestamp,
    /// The new deadline.
    pub expires_at: Timestamp,
}

/// `WHERE id AND state = <from>`, and `AND expires_at = <deadline>` where there is one, so that an
/// extension that came first wins over a deadline that struck.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// The session.
    pub id: SessionId,
    /// The state that the row must still be in.
    pub from: State,
    /// The deadline that struck; the row must still have it. `None` for any other end.
    pub deadline: Option<Timestamp>,
    /// Column `end_reason`, as text.
    pub reason: EndReason,
    /// Column `ended_by`: who ended it; nobody where the system did.
    pub by: Option<UserRef>,
    /// Column `ended_at`.
    pub at: Timestamp,
}

impl End {
    /// Whether the session had been opened, so that the cluster has something to clean up.
    pub fn was_opened(&self) -> bool {
        self.from == State::Active
    }

    /// Writes it to a row that it was made from, so that its condition holds.
    pub(super) fn write(self, row: &mut Session) {
        row.state = State::Ended;
        row.ended_at = Some(self.at);
        row.end_reason = Some(self.reason.to_string());
        row.ended_by = self.by;
    }
}

/// `WHERE id AND state = 'ended' AND review_state = 'due'` (S-2). Writes `review_state = 'done'`,
/// `reviewed_by`, `reviewed_at`, `review_note`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the comment above names the columns")]
pub struct Review {
    pub id: SessionId,
    pub reviewer: UserRef,
    pub at: Timestamp,
    pub note: String,
}

/// Any claim on a row that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its type")]
pub enum Claim {
    Approve(Approve),
    Deny(Deny),
    Start(Start),
    Extend(Extend),
    End(End),
    Review(Review),
}

impl Claim {
    /// The session it is a claim on.
    pub fn id(&self) -> &SessionId {
        match self {
            Self::Approve(claim) => &claim.id,
            Self::Deny(claim) => &claim.id,
            Self::Start(claim) => &claim.id,
            Self::Extend(claim) => &claim.id,
            Self::End(claim) => &claim.id,
            Self::Review(claim) => &claim.id,
        }
    }

    /// Whether the row meets the claim's condition: whether its `UPDATE` would find the row.
    pub fn holds(&self, row: &Session) -> bool {
        let meets = match self {
            Self::Approve(c) => row.state == State::Requested && row.expires_at > c.approved_at,
            Self::Deny(c) => row.state == State::Requested && row.expires_at > c.at,
            Self::Start(c) => row.state == State::Approved && row.expires_at > c.started_at,
            Self::Extend(c) => {
                row.state == State::Active
                    && row.extended_at.is_none()
                    && row.expires_at == c.from_expires_at
            }
            Self::End(c) => {
                row.state == c.from && c.deadline.is_none_or(|deadline| row.expires_at == deadline)
            }
            Self::Review(_) => {
                row.state == State::Ended && row.review_state == Some(ReviewState::Due)
            }
        };
        meets && row.id == *self.id()
    }

    /// Writes the claim to the row if its condition holds, and says whether it did: what a store's
    /// conditional `UPDATE` does.
    #[must_use = "a claim that lost wrote nothing"]
    pub fn apply(&self, row: &mut Session) -> bool {
        if !self.holds(row) {
            return false;
        }
        match self.clone() {
            Self::Approve(claim) => {
                row.state = State::Approved;
                row.approver = Some(claim.approver);
                row.approved_at = Some(claim.approved_at);
                row.expires_at = claim.expires_at;
                row.decision_note = claim.decision_note;
                row.recycle_waived_reason = claim.recycle_waived_reason;
            }
            Self::Deny(claim) => {
                row.end_reason = Some(claim.reason().to_string());
                row.state = State::Ended;
                row.approver = Some(claim.approver.clone());
                row.decision_note = claim.decision_note;
                row.ended_at = Some(claim.at);
                row.ended_by = Some(claim.approver);
            }
            Self::Start(claim) => {
                row.state = State::Active;
                row.started_at = Some(claim.started_at);
                row.expires_at = claim.expires_at;
            }
            Self::Extend(claim) => {
                row.extended_at = Some(claim.extended_at);
                row.expires_at = claim.expires_at;
            }
            Self::End(claim) => claim.write(row),
            Self::Review(claim) => {
                row.review_state = Some(ReviewState::Done);
                row.reviewed_by = Some(claim.reviewer);
                row.reviewed_at = Some(claim.at);
                row.review_note = Some(claim.note);
            }
        }
        true
    }
}

macro_rules! is_a_claim {
    ($($name:ident),*) => {$(
        impl From<$name> for Claim {
            fn from(claim: $name) -> Self {
                Self::$name(claim)
            }
        }
    )*};
}

is_a_claim!(Approve, Deny, Start, Extend, End, Review);
