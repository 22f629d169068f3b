//! Who may do or read what (S-7, S-12, S-13), from permissions and from the session's own people,
//! never from names.
//!
//! Invariant: a permission counts only for the app it was answered for; what is missing is denied.
//! Every refusal says who, and what would have been needed.

#[cfg(test)]
mod tests;

use crate::session::{Actor, Permission, Session, State};
use crate::sweep::{RuntimeAges, is_past_deadline};
use crate::transition::{Event, Refusal};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the caller can do in an app, for the lists' answers (S-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Capabilities {
    /// May open on Flight without a second person: `tower.breakglass.self`.
    pub can_break_glass: bool,
    /// May review somebody else's glass-broken session: an approver, or one of the reviewers.
    pub can_review: bool,
    /// May end anybody's session: `tower.breakglass.terminate`; an admin (S-13).
    pub can_terminate: bool,
}

impl Capabilities {
    /// What this caller can do in the app that the permissions were answered for.
    pub fn of(actor: &Actor) -> Self {
        Self {
            can_break_glass: actor.may(Permission::SelfApprove),
            can_review: reviews(actor),
            can_terminate: actor.may(Permission::Terminate),
        }
    }
}

fn reviews(actor: &Actor) -> bool {
    actor.reviewer || actor.may(Permission::Approve)
}

/// As whom a person ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndsAs {
    /// It is their own.
    Requester,
    /// They approved it.
    Approver,
    /// They hold `tower.breakglass.terminate`.
    Admin,
}

/// The permissions must have been answered for the session's app (caller protocol).
///
/// # Errors
/// `OtherApp`: the app that was asked about has no such session.
pub fn same_app(session: &Session, actor: &Actor) -> Result<(), Refusal> {
    if session.app == actor.app {
        return Ok(());
    }
    Err(Refusal::OtherApp {
        app: actor.app.clone(),
        id: session.id.clone(),
    })
}

/// The caller must hold the permission.
///
/// # Errors
/// `NotPermitted`.
pub fn permitted(actor: &Actor, permission: Permission) -> Result<(), Refusal> {
    if actor.may(permission) {
        return Ok(());
    }
    let (user, app) = (actor.user.clone(), actor.app.clone());
    Err(Refusal::NotPermitted {
        user,
        permission,
        app,
    })
}

/// Who may see a session: `tower.breakglass.request` for its app.
///
/// # Errors
/// `OtherApp`, `NotPermitted`.
pub fn may_see(session: &Session, actor: &Actor) -> Result<(), Refusal> {
    same_app(session, actor)?;
    permitted(actor, Permission::Request)
}

/// Who may end a session: its requester, its approver, or an admin; nobody loses the way to end
/// what they opened, so no further permission is asked.
///
/// # Errors
/// `OtherApp`, `MayNotEnd`.
pub fn may_end(session: &Session, actor: &Actor) -> Result<EndsAs, Refusal> {
    same_app(session, actor)?;
    if session.requester == actor.user {
        return Ok(EndsAs::Requester);
    }
    if session.approver.as_ref() == Some(&actor.user) {
        return Ok(EndsAs::Approver);
    }
    if actor.may(Permission::Terminate) {
        return Ok(EndsAs::Admin);
    }
    Err(Refusal::MayNotEnd {
        user: actor.user.clone(),
    })
}

/// Who may review a session: an approver of its app or one of the reviewers, not its requester, and
/// only where the glass was broken. Whether the review is due is `transition::review`'s to say.
///
/// # Errors
/// `OtherApp`, `MayNotReview`, `OwnSession`, `NoReviewOwed`.
pub fn may_review(session: &Session, actor: &Actor) -> Result<(), Refusal> {
    same_app(session, actor)?;
    let user = actor.user.clone();
    if !reviews(actor) {
        return Err(Refusal::MayNotReview {
            user,
            app: actor.app.clone(),
        });
    }
    if session.requester == actor.user {
        return Err(Refusal::OwnSession {
            user,
            event: Event::Review,
        });
    }
    if !session.glass_broken {
        return Err(Refusal::NoReviewOwed);
    }
    Ok(())
}

/// Who may read a session's recording: who may see it, narrowed for a sensitive one (S-7).
///
/// # Errors
/// `OtherApp`, `NotPermitted`, `SensitiveRecording`.
pub fn may_read_recording(session: &Session, actor: &Actor) -> Result<(), Refusal> {
    may_see(session, actor)?;
    match sensitive_recording_refusal(session, actor) {
        Some(refusal) => Err(refusal),
        None => Ok(()),
    }
}

/// Why this caller may not read a sensitive session's recording, if so (S-7): it is for its
/// requester, its approver, the one who reviewed it or may, and admins.
pub fn sensitive_recording_refusal(session: &Session, actor: &Actor) -> Option<Refusal> {
    let user = Some(&actor.user);
    let allowed = !session.sensitive
        || session.requester == actor.user
        || session.approver.as_ref() == user
        || session.reviewed_by.as_ref() == user
        || may_review(session, actor).is_ok()
        || (session.app == actor.app && actor.may(Permission::Terminate));
    (!allowed).then(|| Refusal::SensitiveRecording {
        user: actor.user.clone(),
    })
}

/// Whether the caller still holds what the session was opened with (T-12): breaking the glass took
/// `tower.breakglass.self`, everything else `tower.breakglass.request`.
///
/// # Errors
/// `OtherApp`, `NotPermitted`: the session ends (`requester lost the permission`).
pub fn keeps_permission(session: &Session, actor: &Actor) -> Result<(), Refusal> {
    same_app(session, actor)?;
    let needed = if session.glass_broken {
        Permission::SelfApprove
    } else {
        Permission::Request
    };
    permitted(actor, needed)
}

/// Who may attach to a session's terminal: its requester alone, while it is active, here, and
/// within its deadline (T-1). `runtime` is this process's, if it runs the session.
///
/// # Errors
/// `OtherApp` (404), `NotRequester` (403), then `NotAttachable`, `NotHere`, `TerminalOver` (410).
pub fn may_attach(
    session: &Session,
    actor: &Actor,
    runtime: Option<RuntimeAges>,
    now: Timestamp,
) -> Result<(), Refusal> {
    same_app(session, actor)?;
    if session.requester != actor.user {
        let requester = session.requester.clone();
        return Err(Refusal::NotRequester {
            requester,
            what: "attach to it",
        });
    }
    if session.state != State::Active {
        return Err(Refusal::NotAttachable {
            state: session.state,
        });
    }
    if runtime.is_none() {
        return Err(Refusal::NotHere);
    }
    if is_past_deadline(session, runtime, now) {
        return Err(Refusal::TerminalOver {
            at: session.expires_at,
        });
    }
    Ok(())
}
