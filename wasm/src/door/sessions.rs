//! The shapes of the questions about a session that exists, and of their answers.
//!
//! Invariant: what is here only moves fields; every judgement is a module's own.

use super::shape::{Place, Shape, shape};
use crate::access;
use crate::queue::{self, AppRights};
use crate::reason::EndReason;
use crate::request::{Approval, Note};
use crate::session::{Actor, Session, UserRef};
use crate::sweep::{self, AnchorAction, ReviewReminder, RuntimeAges, SweepAction, SweepSettings};
use crate::transition::{self, Refusal, RefusalKind};
use alloc::string::{String, ToString};
use core::time::Duration;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) struct Refused {
    /// What kind of refusal it is.
    kind: RefusedAs,
    /// Why, for the person.
    message: String,
}

/// What kind of refusal it is; each has one status (S-11).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum RefusedAs {
    /// 400
    Invalid,
    /// 403
    NotAllowed,
    /// 404
    NotFound,
    /// 409
    Conflict,
    /// 410
    Gone,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind() {
            RefusalKind::Invalid => RefusedAs::Invalid,
            RefusalKind::NotAllowed => RefusedAs::NotAllowed,
            RefusalKind::NotFound => RefusedAs::NotFound,
            RefusalKind::Conflict => RefusedAs::Conflict,
            RefusalKind::Gone => RefusedAs::Gone,
        };
        Self {
            kind,
            message: refusal.to_string(),
        }
    }
}

/// Something that a person can do to a session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum Action {
    /// Say yes.
    Approve,
    /// Say no.
    Deny,
    /// Start what was approved.
    Start,
    /// Take 15 minutes more.
    Extend,
    /// End, withdraw or cancel it.
    End,
    /// Review it.
    Review,
    /// Read its recording.
    ReadRecording,
}

impl Shape for Action {
    fn of(given: Option<Value>, at: &mut Place) -> Self {
        at.word(given).unwrap_or(Self::ReadRecording)
    }
}

/// May this caller do that, at this time?
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct ActionQuestion {
    /// What.
    action: Action,
    /// To which session.
    session: Session,
    /// Who.
    actor: Actor,
    /// When.
    #[cfg_attr(test, serde(with = "crate::time"))]
    #[cfg_attr(test, ts(type = "string"))]
    now: Timestamp,
}

shape!(ActionQuestion {
    action,
    session,
    actor,
    now
});

pub(super) fn action_refusal(question: ActionQuestion) -> Option<Refused> {
    let ActionQuestion {
        action,
        session,
        actor,
        now,
    } = question;
    let refusal = match action {
        Action::Approve => transition::approve(&session, &actor, Approval::default(), now).err(),
        Action::Deny => transition::deny(&session, &actor, None, now).err(),
        Action::Start => transition::start(&session, &actor, now).err(),
        Action::Extend => transition::extend(&session, &actor, None, now).err(),
        Action::End => transition::end_by_user(&session, &actor, now).err(),
        Action::Review => transition::review(&session, &actor, Note::unwritten(), now).err(),
        Action::ReadRecording => access::may_read_recording(&session, &actor).err(),
    };
    refusal.map(Refused::from)
}

/// May this caller read the session's recording?
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct RecordingQuestion {
    /// The session.
    session: Session,
    /// Who.
    actor: Actor,
}

shape!(RecordingQuestion { session, actor });

pub(super) fn sensitive_recording_refusal(question: RecordingQuestion) -> Option<Refused> {
    access::sensitive_recording_refusal(&question.session, &question.actor).map(Refused::from)
}

/// Where does a session belong for this caller?
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct QueueQuestion {
    /// The session.
    session: Session,
    /// The caller.
    user: UserRef,
    /// The caller may approve for the session's app.
    #[cfg_attr(test, serde(default))]
    approve: bool,
    /// The caller is one of the reviewers.
    #[cfg_attr(test, serde(default))]
    reviewer: bool,
    /// When.
    #[cfg_attr(test, serde(with = "crate::time"))]
    #[cfg_attr(test, ts(type = "string"))]
    now: Timestamp,
}

shape!(QueueQuestion { session, user, approve = false, reviewer = false, now });

/// Where in the queue a session belongs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "list")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
#[expect(
    clippy::enum_variant_names,
    reason = "the queue's lists are called so (S-8)"
)]
pub(super) enum QueuePlace {
    /// Somebody else's request.
    ToApprove,
    /// The caller's own approved session.
    ToStart,
    /// Somebody else's glass-broken session.
    ToReview {
        /// It ended 72 hours ago or earlier.
        overdue: bool,
    },
}

pub(super) fn place_in_queue(question: QueueQuestion) -> Option<QueuePlace> {
    let QueueQuestion {
        session,
        user,
        approve,
        reviewer,
        now,
    } = question;
    let place = queue::place_in_queue(&session, &user, AppRights { approve, reviewer }, now)?;
    Some(match place {
        queue::Place::ToApprove => QueuePlace::ToApprove,
        queue::Place::ToStart => QueuePlace::ToStart,
        queue::Place::ToReview { overdue } => QueuePlace::ToReview { overdue },
    })
}

/// A row and the time.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct RowQuestion {
    /// The row.
    session: Session,
    /// When.
    #[cfg_attr(test, serde(with = "crate::time"))]
    #[cfg_attr(test, ts(type = "string"))]
    now: Timestamp,
}

shape!(RowQuestion { session, now });

/// A row, the process that runs it, and the time.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct SweepQuestion {
    /// The row.
    session: Session,
    /// What this process knows of it, if it runs it.
    runtime: Option<Ages>,
    /// When.
    #[cfg_attr(test, serde(with = "crate::time"))]
    #[cfg_attr(test, ts(type = "string"))]
    now: Timestamp,
    /// Whether a session without a process may be taken up again.
    resume_sessions: bool,
}

shape!(SweepQuestion {
    session,
    runtime,
    now,
    resume_sessions
});

/// How long what has been the case, in milliseconds.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct Ages {
    /// Without a terminal; null while there is one.
    detached_for_ms: Option<u64>,
    /// Without input or output.
    idle_for_ms: u64,
    /// With unsaved events; null while there are none.
    unsaved_for_ms: Option<u64>,
    /// The time that was granted is used up.
    past_deadline: bool,
}

shape!(Ages {
    detached_for_ms,
    idle_for_ms,
    unsaved_for_ms,
    past_deadline
});

impl From<Ages> for RuntimeAges {
    fn from(ages: Ages) -> Self {
        Self {
            detached_for: ages.detached_for_ms.map(Duration::from_millis),
            idle_for: Duration::from_millis(ages.idle_for_ms),
            unsaved_for: ages.unsaved_for_ms.map(Duration::from_millis),
            past_deadline: ages.past_deadline,
        }
    }
}

/// What the sweep does.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "action")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum SweepAnswer {
    /// Nothing.
    Keep,
    /// End it.
    End {
        /// With this text (S-4).
        reason: String,
    },
    /// Take it up again where that is safe, else end it.
    ResumeOrEnd,
    /// Save the recording.
    Checkpoint,
}

pub(super) fn sweep_action(question: SweepQuestion) -> SweepAnswer {
    let SweepQuestion {
        session,
        runtime,
        now,
        resume_sessions,
    } = question;
    let settings = SweepSettings {
        resume: resume_sessions,
    };
    match sweep::sweep_action(&session, runtime.map(RuntimeAges::from), now, settings) {
        SweepAction::Keep => SweepAnswer::Keep,
        SweepAction::End(reason) => SweepAnswer::End {
            reason: reason.to_string(),
        },
        SweepAction::ResumeOrEnd => SweepAnswer::ResumeOrEnd,
        SweepAction::Checkpoint => SweepAnswer::Checkpoint,
    }
}

/// What to do about an anchor.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum AnchorAnswer {
    /// Nothing, or nothing yet.
    Keep,
    /// Sign and submit.
    Anchor,
}

pub(super) fn anchor_action(question: RowQuestion) -> AnchorAnswer {
    match sweep::anchor_action(&question.session, question.now) {
        AnchorAction::Keep => AnchorAnswer::Keep,
        AnchorAction::Anchor => AnchorAnswer::Anchor,
    }
}

/// What to do about a review.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum ReminderAnswer {
    /// Nothing, or nothing yet.
    Keep,
    /// Remind.
    Remind,
    /// Escalate.
    Escalate,
}

pub(super) fn review_reminder_action(question: RowQuestion) -> ReminderAnswer {
    match sweep::review_reminder_action(&question.session, question.now) {
        ReviewReminder::Keep => ReminderAnswer::Keep,
        ReviewReminder::Remind => ReminderAnswer::Remind,
        ReviewReminder::Escalate => ReminderAnswer::Escalate,
    }
}

pub(super) fn as_seen(question: RowQuestion) -> Session {
    transition::as_seen(question.session, None, question.now)
}

/// The text of `endReason`.
#[derive(Debug)]
#[cfg_attr(
    test,
    derive(serde::Deserialize, ts_rs::TS),
    serde(rename_all = "camelCase"),
    ts(export)
)]
pub(super) struct EndReasonText {
    /// The text.
    text: String,
}

shape!(EndReasonText { text });

/// What an end reason says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) struct EndReasonFacts {
    /// Which reason.
    kind: EndReasonKind,
    /// Who ended it, where the text names somebody.
    user: Option<UserRef>,
    /// Why it could not be opened, where that is the reason.
    why: Option<String>,
}

/// The end reasons (S-4).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub(super) enum EndReasonKind {
    ByUser,
    Terminated,
    Withdrawn,
    Cancelled,
    Denied,
    NobodyApproved,
    NotStarted,
    Expired,
    BackendRestarted,
    NotReopened,
    Idle,
    ShellExited,
    PodGone,
    FailedToStart,
    PermissionLost,
    NotRecorded,
}

pub(super) fn read_end_reason(question: EndReasonText) -> Option<EndReasonFacts> {
    use EndReasonKind as Kind;
    let fixed = |kind| EndReasonFacts {
        kind,
        user: None,
        why: None,
    };
    let by = |kind, user| EndReasonFacts {
        kind,
        user: Some(user),
        why: None,
    };
    Some(match EndReason::parse(&question.text)? {
        EndReason::ByUser => fixed(Kind::ByUser),
        EndReason::Terminated(user) => by(Kind::Terminated, user),
        EndReason::Withdrawn => fixed(Kind::Withdrawn),
        EndReason::Cancelled(user) => by(Kind::Cancelled, user),
        EndReason::Denied(user) => by(Kind::Denied, user),
        EndReason::NobodyApproved => fixed(Kind::NobodyApproved),
        EndReason::NotStarted => fixed(Kind::NotStarted),
        EndReason::Expired => fixed(Kind::Expired),
        EndReason::BackendRestarted => fixed(Kind::BackendRestarted),
        EndReason::NotReopened => fixed(Kind::NotReopened),
        EndReason::Idle => fixed(Kind::Idle),
        EndReason::ShellExited => fixed(Kind::ShellExited),
        EndReason::PodGone => fixed(Kind::PodGone),
        EndReason::FailedToStart(why) => EndReasonFacts {
            kind: Kind::FailedToStart,
            user: None,
            why: Some(why),
        },
        EndReason::PermissionLost => fixed(Kind::PermissionLost),
        EndReason::NotRecorded => fixed(Kind::NotRecorded),
    })
}
