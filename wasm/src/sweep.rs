//! What the sweep does with a row (spec 05, R-9, W-1). Decisions only; the sweep acts on them.
//!
//! Invariant: the order of the rules is the table's, first match wins. Where this process runs the
//! session, its deadline is judged by the runtime's clock, which never jumps; the wall clock judges
//! only rows without a runtime (W-4).

#[cfg(test)]
mod tests;

use crate::reason::EndReason;
use crate::session::{ReviewState, Session, State};
use crate::settings::REVIEW_OVERDUE;
use crate::time::since;
use core::time::Duration;
use jiff::{SignedDuration, Timestamp};

/// No terminal for longer than this ends a session (T-7).
pub const DETACHED_MAX: Duration = Duration::from_mins(2);
/// No input or output for longer than this ends a session (T-7).
pub const IDLE_MAX: Duration = Duration::from_mins(10);
/// New events unsaved for longer than this are saved (the backstop of R-4).
pub const UNSAVED_MAX: Duration = Duration::from_secs(60);
/// Between two tries to anchor a recording.
pub const ANCHOR_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// How long after the end anchoring is tried.
pub const ANCHOR_WINDOW: SignedDuration = SignedDuration::from_hours(24);
/// When the reviewers are reminded, after the end (W-1).
pub const REMIND_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// How long what has been the case, measured on the runtime's own clock (W-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeAges {
    /// Since the last terminal left, or since the opening if none ever came; `None` while one is
    /// attached.
    pub detached_for: Option<Duration>,
    /// Since the last input or output.
    pub idle_for: Duration,
    /// Since the last save, if there are events since; `None` where everything is saved.
    pub unsaved_for: Option<Duration>,
    /// What was granted at the start, and the extension, is used up.
    pub past_deadline: bool,
}

/// Options of the sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepSettings {
    /// Whether an active session without a runtime may be resumed (T-11, `resumeSessions`).
    pub resume: bool,
}

/// What to do with an unfinished row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepAction {
    /// Nothing.
    Keep,
    /// End it (`transition::end_by_system` makes the claim).
    End(EndReason),
    /// Take it up again if its container runs and its spool is intact, else end it:
    /// `backend restarted during the session` (T-11).
    ResumeOrEnd,
    /// Save the recording.
    Checkpoint,
}

/// Whether a row's deadline has passed. The wall clock is asked only where there is no runtime, or
/// none of its business: a row that is not active has no runtime (W-4).
pub fn is_past_deadline(session: &Session, runtime: Option<RuntimeAges>, now: Timestamp) -> bool {
    match (session.state, runtime) {
        (State::Active, Some(runtime)) => runtime.past_deadline,
        (State::Active | State::Requested | State::Approved, _) => now >= session.expires_at,
        (State::Ended, _) => false,
    }
}

/// What to do with a row (spec 05). `runtime` is this process's, if it runs the session.
pub fn sweep_action(
    session: &Session,
    runtime: Option<RuntimeAges>,
    now: Timestamp,
    settings: SweepSettings,
) -> SweepAction {
    let Some(reason) = EndReason::of_deadline(session.state) else {
        return SweepAction::Keep;
    };
    if is_past_deadline(session, runtime, now) {
        return SweepAction::End(reason);
    }
    if session.state != State::Active {
        return SweepAction::Keep;
    }
    let Some(runtime) = runtime else {
        return match settings.resume {
            true => SweepAction::ResumeOrEnd,
            false => SweepAction::End(EndReason::BackendRestarted),
        };
    };
    if runtime
        .detached_for
        .is_some_and(|detached| detached > DETACHED_MAX)
    {
        return SweepAction::End(EndReason::NotReopened);
    }
    if runtime.idle_for > IDLE_MAX {
        return SweepAction::End(EndReason::Idle);
    }
    if runtime
        .unsaved_for
        .is_some_and(|unsaved| unsaved > UNSAVED_MAX)
    {
        return SweepAction::Checkpoint;
    }
    SweepAction::Keep
}

/// What to do about an ended row's anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorAction {
    /// Nothing, or nothing yet.
    Keep,
    /// Read the recording back, check its hash, sign it and submit it.
    Anchor,
}

/// Whether to try to anchor this row's recording: ended less than 24 hours ago, with a
/// recording and no log index, and not tried in the last 5 minutes.
pub fn anchor_action(session: &Session, now: Timestamp) -> AnchorAction {
    let saved = session.recording_key.is_some() && session.recording_sha256.is_some();
    let anchored = session.recording_rekor_index.is_some();
    let Some(ended) = session.ended_at else {
        return AnchorAction::Keep;
    };
    let in_window = since(ended, now) < ANCHOR_WINDOW;
    // A try that lies in the future was made before the wall clock was set back: it says nothing.
    let rested = session.anchor_attempted_at.is_none_or(|tried| {
        let rested_for = since(tried, now);
        rested_for >= ANCHOR_RETRY || rested_for.is_negative()
    });
    if session.state == State::Ended && saved && !anchored && in_window && rested {
        AnchorAction::Anchor
    } else {
        AnchorAction::Keep
    }
}

/// What to do about a review that is owed (W-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewReminder {
    /// Nothing, or nothing yet.
    Keep,
    /// Remind owners, admins and the fallback groups; then `review_reminded_at` is set.
    Remind,
    /// Escalate, critical; then `review_escalated_at` is set.
    Escalate,
}

/// Whether to remind of or escalate this row's review (W-1): at 24 and 72 hours after the end, each
/// once. After an escalation nothing is left to remind of.
pub fn review_reminder_action(session: &Session, now: Timestamp) -> ReviewReminder {
    let due = session.state == State::Ended
        && session.glass_broken
        && session.review_state == Some(ReviewState::Due);
    let Some(ended) = session.ended_at.filter(|_| due) else {
        return ReviewReminder::Keep;
    };
    if session.review_escalated_at.is_some() {
        return ReviewReminder::Keep;
    }
    let owed_for = since(ended, now);
    if owed_for >= REVIEW_OVERDUE {
        return ReviewReminder::Escalate;
    }
    if owed_for >= REMIND_AFTER && session.review_reminded_at.is_none() {
        return ReviewReminder::Remind;
    }
    ReviewReminder::Keep
}
