use super::*;
use crate::fixture::{self, at};

const FRESH: RuntimeAges = RuntimeAges {
    detached_for: None,
    idle_for: Duration::ZERO,
    unsaved_for: None,
    past_deadline: false,
};

fn sweep(session: &Session, runtime: Option<RuntimeAges>, now: &str) -> SweepAction {
    sweep_action(session, runtime, at(now), SweepSettings { resume: true })
}

#[track_caller]
fn check(session: &Session, runtime: Option<RuntimeAges>, now: &str, expected: SweepAction) {
    assert_eq!(
        sweep(session, runtime, now),
        expected,
        "{runtime:?} at {now}"
    );
}

#[test]
fn a_request_that_nobody_approved_ends_at_its_deadline() {
    let session = fixture::requested();
    check(&session, None, "+29m59s", SweepAction::Keep);
    check(
        &session,
        None,
        "+30m",
        SweepAction::End(EndReason::NobodyApproved),
    );
    check(
        &session,
        None,
        "+30m1s",
        SweepAction::End(EndReason::NobodyApproved),
    );
}

#[test]
fn an_approval_that_nobody_started_ends_at_its_deadline() {
    let session = fixture::approved();
    check(&session, None, "+9m59s", SweepAction::Keep);
    check(
        &session,
        None,
        "+10m",
        SweepAction::End(EndReason::NotStarted),
    );
    check(
        &session,
        None,
        "+10m1s",
        SweepAction::End(EndReason::NotStarted),
    );
}

#[test]
fn an_active_session_without_a_runtime_is_resumed_or_ended() {
    let session = fixture::active();
    check(&session, None, "+14m59s", SweepAction::ResumeOrEnd);
    let resume_off = SweepSettings { resume: false };
    assert_eq!(
        sweep_action(&session, None, at("+14m59s"), resume_off),
        SweepAction::End(EndReason::BackendRestarted)
    );
    for settings in [resume_off, SweepSettings { resume: true }] {
        assert_eq!(
            sweep_action(&session, None, at("+15m"), settings),
            SweepAction::End(EndReason::Expired),
            "the deadline goes before resumption"
        );
    }
}

#[test]
fn a_running_sessions_deadline_is_its_own_clocks_and_not_the_wall_clocks() {
    let session = fixture::active();
    check(&session, Some(FRESH), "+15m", SweepAction::Keep);
    check(&session, Some(FRESH), "+1000h", SweepAction::Keep);
    let over = RuntimeAges {
        past_deadline: true,
        ..FRESH
    };
    check(
        &session,
        Some(over),
        "+0m",
        SweepAction::End(EndReason::Expired),
    );
    check(
        &session,
        Some(over),
        "-1000h",
        SweepAction::End(EndReason::Expired),
    );
}

#[test]
fn a_runtime_says_nothing_about_a_row_that_is_not_active() {
    let over = RuntimeAges {
        past_deadline: true,
        ..FRESH
    };
    check(&fixture::requested(), Some(over), "+1m", SweepAction::Keep);
    check(&fixture::approved(), Some(over), "+1m", SweepAction::Keep);
    check(
        &fixture::requested(),
        Some(FRESH),
        "+30m",
        SweepAction::End(EndReason::NobodyApproved),
    );
}

#[test]
fn more_than_two_minutes_without_a_terminal_end_it() {
    let detached = |secs| RuntimeAges {
        detached_for: Some(Duration::from_secs(secs)),
        ..FRESH
    };
    let session = fixture::active();
    check(&session, Some(detached(119)), "+5m", SweepAction::Keep);
    check(&session, Some(detached(120)), "+5m", SweepAction::Keep);
    check(
        &session,
        Some(detached(121)),
        "+5m",
        SweepAction::End(EndReason::NotReopened),
    );
}

#[test]
fn more_than_ten_minutes_without_input_or_output_end_it() {
    let idle = |secs| RuntimeAges {
        idle_for: Duration::from_secs(secs),
        ..FRESH
    };
    let session = fixture::active();
    check(&session, Some(idle(599)), "+5m", SweepAction::Keep);
    check(&session, Some(idle(600)), "+5m", SweepAction::Keep);
    check(
        &session,
        Some(idle(601)),
        "+5m",
        SweepAction::End(EndReason::Idle),
    );
}

#[test]
fn events_unsaved_for_more_than_a_minute_are_saved() {
    let unsaved = |secs| RuntimeAges {
        unsaved_for: Some(Duration::from_secs(secs)),
        ..FRESH
    };
    let session = fixture::active();
    check(&session, Some(unsaved(60)), "+5m", SweepAction::Keep);
    check(&session, Some(unsaved(61)), "+5m", SweepAction::Checkpoint);
}

#[test]
fn of_several_rules_the_tables_first_decides() {
    let long = Duration::from_hours(1);
    let everything = RuntimeAges {
        detached_for: Some(long),
        idle_for: long,
        unsaved_for: Some(long),
        past_deadline: true,
    };
    let session = fixture::active();
    check(
        &session,
        Some(everything),
        "+5m",
        SweepAction::End(EndReason::Expired),
    );
    let in_time = RuntimeAges {
        past_deadline: false,
        ..everything
    };
    check(
        &session,
        Some(in_time),
        "+5m",
        SweepAction::End(EndReason::NotReopened),
    );
    let attached = RuntimeAges {
        detached_for: None,
        ..in_time
    };
    check(
        &session,
        Some(attached),
        "+5m",
        SweepAction::End(EndReason::Idle),
    );
}

#[test]
fn an_ended_row_is_left_alone() {
    let over = RuntimeAges {
        past_deadline: true,
        ..FRESH
    };
    check(
        &fixture::ended_glass_broken(),
        None,
        "+1000h",
        SweepAction::Keep,
    );
    check(
        &fixture::ended_glass_broken(),
        Some(over),
        "+1000h",
        SweepAction::Keep,
    );
}

#[track_caller]
fn check_anchor(session: &Session, now: &str, expected: AnchorAction) {
    assert_eq!(anchor_action(session, at(now)), expected, "at {now}");
}

#[test]
fn a_recording_without_an_index_is_anchored_for_a_day() {
    let session = fixture::ended_glass_broken();
    check_anchor(&session, "+0m", AnchorAction::Anchor);
    check_anchor(&session, "+23h59m59s", AnchorAction::Anchor);
    check_anchor(&session, "+24h", AnchorAction::Keep);
}

#[test]
fn anchoring_is_tried_every_five_minutes() {
    let tried = Session {
        anchor_attempted_at: Some(at("+60m")),
        ..fixture::ended_glass_broken()
    };
    check_anchor(&tried, "+64m59s", AnchorAction::Keep);
    check_anchor(&tried, "+65m", AnchorAction::Anchor);
    check_anchor(&tried, "+59m", AnchorAction::Anchor);
}

#[test]
fn nothing_is_anchored_that_is_not_over_not_saved_or_anchored_already() {
    let session = fixture::ended_glass_broken();
    for (why, session) in [
        (
            "anchored",
            Session {
                recording_rekor_index: Some(0),
                ..session.clone()
            },
        ),
        (
            "no recording",
            Session {
                recording_key: None,
                ..session.clone()
            },
        ),
        (
            "no hash",
            Session {
                recording_sha256: None,
                ..session.clone()
            },
        ),
        (
            "active",
            Session {
                state: State::Active,
                ..session.clone()
            },
        ),
        (
            "no end",
            Session {
                ended_at: None,
                ..session
            },
        ),
    ] {
        assert_eq!(
            anchor_action(&session, at("+1m")),
            AnchorAction::Keep,
            "{why}"
        );
    }
}

#[track_caller]
fn check_review(session: &Session, now: &str, expected: ReviewReminder) {
    assert_eq!(
        review_reminder_action(session, at(now)),
        expected,
        "at {now}"
    );
}

#[test]
fn a_review_is_reminded_of_at_24_hours_and_escalated_at_72() {
    let session = fixture::ended_glass_broken();
    check_review(&session, "+23h59m59s", ReviewReminder::Keep);
    check_review(&session, "+24h", ReviewReminder::Remind);
    check_review(&session, "+71h59m59s", ReviewReminder::Remind);
    check_review(&session, "+72h", ReviewReminder::Escalate);
}

#[test]
fn each_reminder_is_given_once() {
    let reminded = Session {
        review_reminded_at: Some(at("+24h")),
        ..fixture::ended_glass_broken()
    };
    check_review(&reminded, "+25h", ReviewReminder::Keep);
    check_review(&reminded, "+72h", ReviewReminder::Escalate);
    let escalated = Session {
        review_escalated_at: Some(at("+72h")),
        ..reminded.clone()
    };
    check_review(&escalated, "+1000h", ReviewReminder::Keep);
    let at_once = Session {
        review_reminded_at: None,
        ..escalated
    };
    check_review(&at_once, "+1000h", ReviewReminder::Keep);
}

#[test]
fn only_an_ended_glass_broken_session_whose_review_is_due_is_reminded_of() {
    let session = fixture::ended_glass_broken();
    for (why, session) in [
        (
            "done",
            Session {
                review_state: Some(ReviewState::Done),
                ..session.clone()
            },
        ),
        (
            "none owed",
            Session {
                review_state: None,
                ..session.clone()
            },
        ),
        (
            "glass whole",
            Session {
                glass_broken: false,
                ..session.clone()
            },
        ),
        (
            "active",
            Session {
                state: State::Active,
                ..session
            },
        ),
    ] {
        assert_eq!(
            review_reminder_action(&session, at("+80h")),
            ReviewReminder::Keep,
            "{why}"
        );
    }
}
