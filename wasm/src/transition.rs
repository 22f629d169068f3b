//! The state machine: who may move a session from which state to which, and what is then written.
//!
//! Invariants: `TRANSITIONS` is the whole machine, and every function here asks it. A function
//! gives the claim or the refusal and changes nothing; the claim's condition repeats what was
//! decided (S-1), so that of two people only one can win. Deadlines belong to every condition: at
//! its deadline a session is over, whether or not the sweep has come by. Permissions count only
//! where they were answered for the session's own app.

mod claim;
mod open;
mod refusal;

#[cfg(test)]
mod tests;

use crate::access;
use crate::reason::EndReason;
use crate::request::{Approval, Note, waiver_refusal};
use crate::session::{Actor, Permission, ReviewState, Session, State};
use crate::settings::{EXTENSION, START_WINDOW, later, stored};
use crate::sweep::{RuntimeAges, is_past_deadline};
use crate::text;
use jiff::{SignedDuration, Timestamp};

pub use claim::{Approve, Claim, Deny, End, Extend, Open, Review, Start};
pub use open::{Admission, open_session};
pub use refusal::{Refusal, RefusalKind};

/// The most characters that are kept of why an opening failed.
pub const FAILURE_MAX: usize = 1000;

/// What can happen to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A second person says yes.
    Approve,
    /// A second person says no.
    Deny,
    /// The requester starts what was approved.
    Start,
    /// The requester takes 15 minutes more, once.
    Extend,
    /// A person ends it, withdraws or cancels it.
    EndByUser,
    /// The system ends an opened session.
    EndBySystem,
    /// Its state's deadline passed.
    EndAtDeadline,
    /// Somebody reviews a glass-broken session.
    Review,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::Approve,
        Self::Deny,
        Self::Start,
        Self::Extend,
        Self::EndByUser,
        Self::EndBySystem,
        Self::EndAtDeadline,
        Self::Review,
    ];

    /// The verb, for texts.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Start => "start",
            Self::Extend => "extend",
            Self::EndByUser | Self::EndBySystem | Self::EndAtDeadline => "end",
            Self::Review => "review",
        }
    }
}

/// The machine: from, event, to (spec 01, "States"). What is not here cannot happen.
pub const TRANSITIONS: &[(State, Event, State)] = &[
    (State::Requested, Event::Approve, State::Approved),
    (State::Requested, Event::Deny, State::Ended),
    (State::Requested, Event::EndByUser, State::Ended),
    (State::Requested, Event::EndAtDeadline, State::Ended),
    (State::Approved, Event::Start, State::Active),
    (State::Approved, Event::EndByUser, State::Ended),
    (State::Approved, Event::EndAtDeadline, State::Ended),
    (State::Active, Event::Extend, State::Active),
    (State::Active, Event::EndByUser, State::Ended),
    (State::Active, Event::EndBySystem, State::Ended),
    (State::Active, Event::EndAtDeadline, State::Ended),
    (State::Ended, Event::Review, State::Ended),
];

/// Where an event leads from a state; `None` where it cannot happen.
pub fn next_state(from: State, event: Event) -> Option<State> {
    TRANSITIONS
        .iter()
        .find(|(f, e, _)| (*f, *e) == (from, event))
        .map(|(_, _, to)| *to)
}

fn possible(session: &Session, event: Event) -> Result<(), Refusal> {
    match next_state(session.state, event) {
        Some(_) => Ok(()),
        None => Err(Refusal::WrongState {
            state: session.state,
            event,
        }),
    }
}

fn in_time(session: &Session, now: Timestamp) -> Result<(), Refusal> {
    if now < session.expires_at {
        return Ok(());
    }
    Err(Refusal::PastDeadline {
        state: session.state,
        at: session.expires_at,
    })
}

fn only_requester(session: &Session, actor: &Actor, what: &'static str) -> Result<(), Refusal> {
    if session.requester == actor.user {
        return Ok(());
    }
    Err(Refusal::NotRequester {
        requester: session.requester.clone(),
        what,
    })
}

fn not_requester(session: &Session, actor: &Actor, event: Event) -> Result<(), Refusal> {
    if session.requester != actor.user {
        return Ok(());
    }
    Err(Refusal::OwnSession {
        user: actor.user.clone(),
        event,
    })
}

fn minutes(minutes: u32) -> SignedDuration {
    SignedDuration::from_mins(i64::from(minutes))
}

/// A second person approves; the requester then has 10 minutes to start.
///
/// # Errors
/// Lacking permission, the requester's own, not requested, past its deadline, or a waiver that does
/// not go with this session (S-6).
pub fn approve(
    session: &Session,
    actor: &Actor,
    approval: Approval,
    now: Timestamp,
) -> Result<Approve, Refusal> {
    decide(session, actor, Event::Approve, now)?;
    if let Some(reason) = &approval.keep_pod_reason
        && let Some(problem) = waiver_refusal(session.mode, session.tier, Some(reason))
    {
        return Err(Refusal::Waiver(problem));
    }
    Ok(Approve {
        id: session.id.clone(),
        approver: actor.user.clone(),
        approved_at: stored(now),
        expires_at: later(now, START_WINDOW),
        decision_note: approval.note.map(Note::into_string),
        recycle_waived_reason: approval.keep_pod_reason.map(Note::into_string),
    })
}

/// A second person refuses; the session is over.
///
/// # Errors
/// Lacking permission, the requester's own, not requested, or past its deadline.
pub fn deny(
    session: &Session,
    actor: &Actor,
    note: Option<Note>,
    now: Timestamp,
) -> Result<Deny, Refusal> {
    decide(session, actor, Event::Deny, now)?;
    Ok(Deny {
        id: session.id.clone(),
        approver: actor.user.clone(),
        at: stored(now),
        decision_note: note.map(Note::into_string),
    })
}

fn decide(session: &Session, actor: &Actor, event: Event, now: Timestamp) -> Result<(), Refusal> {
    access::same_app(session, actor)?;
    access::permitted(actor, Permission::Approve)?;
    not_requester(session, actor, event)?;
    possible(session, event)?;
    in_time(session, now)
}

/// The requester starts an approved session; its time counts from here.
///
/// # Errors
/// Lacking permission, not the requester, not approved, or past the start window.
pub fn start(session: &Session, actor: &Actor, now: Timestamp) -> Result<Start, Refusal> {
    access::same_app(session, actor)?;
    access::permitted(actor, Permission::Request)?;
    only_requester(session, actor, "start it")?;
    possible(session, Event::Start)?;
    in_time(session, now)?;
    Ok(Start {
        id: session.id.clone(),
        started_at: stored(now),
        expires_at: later(now, minutes(session.duration_minutes)),
    })
}

/// The requester takes 15 minutes more, once, counted from the deadline. Where this process runs
/// the session, the runtime's clock says whether the deadline has passed (W-4).
///
/// # Errors
/// Lacking permission, not the requester, not active, past its deadline, or extended already.
pub fn extend(
    session: &Session,
    actor: &Actor,
    runtime: Option<RuntimeAges>,
    now: Timestamp,
) -> Result<Extend, Refusal> {
    access::same_app(session, actor)?;
    access::permitted(actor, Permission::Request)?;
    only_requester(session, actor, "extend it")?;
    possible(session, Event::Extend)?;
    if is_past_deadline(session, runtime, now) {
        return Err(Refusal::PastDeadline {
            state: session.state,
            at: session.expires_at,
        });
    }
    if session.extended_at.is_some() {
        return Err(Refusal::AlreadyExtended);
    }
    Ok(Extend {
        id: session.id.clone(),
        from_expires_at: session.expires_at,
        extended_at: stored(now),
        expires_at: later(session.expires_at, EXTENSION),
    })
}

/// A person ends a session. An end is never refused for being late; but a request or approval past
/// its deadline ends with the deadline's reason, by nobody, for that is what happened.
///
/// # Errors
/// Neither requester, approver nor admin, or ended already.
pub fn end_by_user(session: &Session, actor: &Actor, now: Timestamp) -> Result<End, Refusal> {
    access::same_app(session, actor)?;
    let own = match access::may_end(session, actor)? {
        access::EndsAs::Requester => true,
        access::EndsAs::Approver | access::EndsAs::Admin => false,
    };
    possible(session, Event::EndByUser)?;
    let user = actor.user.clone();
    let reason = match session.state {
        State::Active if own => EndReason::ByUser,
        State::Active => EndReason::Terminated(user.clone()),
        State::Requested | State::Approved | State::Ended if now >= session.expires_at => {
            return end_at_deadline(session, None, now);
        }
        State::Requested | State::Approved | State::Ended if own => EndReason::Withdrawn,
        State::Requested | State::Approved | State::Ended => EndReason::Cancelled(user.clone()),
    };
    let (id, from, at) = (session.id.clone(), session.state, stored(now));
    Ok(End {
        id,
        from,
        deadline: None,
        reason,
        by: Some(user),
        at,
    })
}

/// The system ends a session for a reason that `sweep_action`, a terminal or an opening found.
///
/// A deadline's reason is taken for the deadline that `session` carries, and the row must still
/// carry it. For an active session that it struck is the caller's word, since the runtime's clock
/// decides (W-4); so pass the session as the runtime knows it, not one read since: an extension
/// that was stored in between must win.
///
/// # Errors
/// The reason is a person's, or not one of the session's state; or the deadline of a request or
/// approval has not passed.
pub fn end_by_system(session: &Session, reason: EndReason, now: Timestamp) -> Result<End, Refusal> {
    let deadline = EndReason::of_deadline(session.state).as_ref() == Some(&reason);
    let event = if deadline {
        Event::EndAtDeadline
    } else {
        Event::EndBySystem
    };
    if !deadline && session.state != State::Ended && !is_systems(&reason) {
        return Err(Refusal::ReasonDoesNotFit {
            state: session.state,
            reason,
        });
    }
    possible(session, event)?;
    if deadline && session.state != State::Active && now < session.expires_at {
        return Err(Refusal::NotDue {
            at: session.expires_at,
        });
    }
    Ok(End {
        id: session.id.clone(),
        from: session.state,
        deadline: deadline.then_some(session.expires_at),
        reason: storable(reason),
        by: None,
        at: stored(now),
    })
}

/// A cluster's or a kubelet's words are bounded and made one line before a row keeps them: a text
/// that the database refuses would keep the session open.
fn storable(reason: EndReason) -> EndReason {
    if let EndReason::FailedToStart(why) = &reason {
        return EndReason::FailedToStart(text::one_line(why, FAILURE_MAX));
    }
    reason
}

/// Whether the system ends an active session for this reason, other than at its deadline.
fn is_systems(reason: &EndReason) -> bool {
    match reason {
        EndReason::BackendRestarted
        | EndReason::NotReopened
        | EndReason::Idle
        | EndReason::ShellExited
        | EndReason::PodGone
        | EndReason::FailedToStart(_)
        | EndReason::PermissionLost
        | EndReason::NotRecorded => true,
        EndReason::ByUser
        | EndReason::Terminated(_)
        | EndReason::Withdrawn
        | EndReason::Cancelled(_)
        | EndReason::Denied(_)
        | EndReason::NobodyApproved
        | EndReason::NotStarted
        | EndReason::Expired => false,
    }
}

/// Ends a session whose deadline has passed, with its state's reason; judged by the runtime's clock
/// where this process runs it, else by the wall clock (W-4).
///
/// # Errors
/// Ended already, or the deadline has not passed.
pub fn end_at_deadline(
    session: &Session,
    runtime: Option<RuntimeAges>,
    now: Timestamp,
) -> Result<End, Refusal> {
    let Some(reason) = EndReason::of_deadline(session.state) else {
        return Err(Refusal::WrongState {
            state: session.state,
            event: Event::EndAtDeadline,
        });
    };
    if !is_past_deadline(session, runtime, now) {
        return Err(Refusal::NotDue {
            at: session.expires_at,
        });
    }
    end_by_system(session, reason, now)
}

/// The session as people see it at this moment: one past its deadline is over, with its reason,
/// since its deadline, whether or not the sweep has written that. `runtime` as in `sweep_action`.
#[must_use]
pub fn as_seen(mut session: Session, runtime: Option<RuntimeAges>, now: Timestamp) -> Session {
    if let Ok(mut end) = end_at_deadline(&session, runtime, now) {
        end.at = session.expires_at;
        end.write(&mut session);
    }
    session
}

/// Somebody other than the requester reviews an ended glass-broken session, once (S-2).
///
/// # Errors
/// Neither approver nor reviewer, the requester's own, no glass broken, not ended, or done already.
pub fn review(
    session: &Session,
    actor: &Actor,
    note: Note,
    now: Timestamp,
) -> Result<Review, Refusal> {
    access::same_app(session, actor)?;
    access::may_review(session, actor)?;
    possible(session, Event::Review)?;
    match session.review_state {
        Some(ReviewState::Due) => {}
        Some(ReviewState::Done) => return Err(Refusal::AlreadyReviewed),
        None => return Err(Refusal::NoReviewOwed),
    }
    Ok(Review {
        id: session.id.clone(),
        reviewer: actor.user.clone(),
        at: stored(now),
        note: note.into_string(),
    })
}
