//! Deadlines: in every condition, counted from the right moment, judged by the right clock.

use super::*;

/// Whether an event succeeds one second before the deadline, at it, and one second after.
#[test]
fn qa10_every_transition_knows_its_deadline() {
    const IN_TIME: [bool; 3] = [true, false, false];
    const WHEN_DUE: [bool; 3] = [false, true, true];
    const ALWAYS: [bool; 3] = [true, true, true];
    for (state, event, _) in TRANSITIONS {
        let expected = match event {
            Event::Approve | Event::Deny | Event::Start | Event::Extend => IN_TIME,
            Event::EndAtDeadline => WHEN_DUE,
            Event::EndByUser | Event::EndBySystem | Event::Review => ALWAYS,
        };
        let session = session_in(*state);
        let deadline = session.expires_at;
        let times = [deadline - second(), deadline, deadline + second()];
        let found = times.map(|now| attempt(&session, *event, now).is_ok());
        assert_eq!(found, expected, "{state:?} {event:?}");
    }
}

#[test]
fn qa1_an_approval_one_millisecond_after_the_deadline_is_refused() {
    let session = fixture::requested();
    let late = session.expires_at + SignedDuration::from_millis(1);
    let refusal = approve(&session, &approver(), Approval::default(), late).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "this request expired at 2026-03-01T10:30:00Z; ask again"
    );
    assert_eq!(refusal.kind(), RefusalKind::Conflict);
}

#[test]
fn qa6_the_deadline_is_in_the_claim_itself_sweep_or_no_sweep() {
    let session = fixture::requested();
    let decided = session.expires_at - SignedDuration::from_millis(1);
    let claim = Claim::from(approve(&session, &approver(), Approval::default(), decided).unwrap());
    assert!(claim.holds(&session));
    let sooner = Session {
        expires_at: decided,
        ..session
    };
    assert!(!claim.holds(&sooner));
}

#[test]
fn qa15_a_sessions_time_counts_from_its_start_and_not_from_the_approval() {
    for duration_minutes in [15, 30, 60] {
        let session = Session {
            duration_minutes,
            ..fixture::approved()
        };
        let claim = start(&session, &requester(), at("+9m59s")).unwrap();
        let granted = claim.expires_at.duration_since(claim.started_at);
        assert_eq!(
            granted,
            SignedDuration::from_mins(i64::from(duration_minutes))
        );
        assert_eq!(claim.started_at, at("+9m59s"));
    }
}

#[test]
fn qa35_every_answer_after_the_deadline_says_ended_sweep_or_no_sweep() {
    for (session, reason) in [
        (
            fixture::requested(),
            "request expired before anyone approved it",
        ),
        (
            fixture::approved(),
            "approved but not started within 10 minutes",
        ),
        (fixture::active(), "expired"),
    ] {
        let deadline = session.expires_at;
        assert_eq!(as_seen(session.clone(), None, deadline - second()), session);
        for now in [deadline, deadline + SignedDuration::from_secs(150)] {
            let seen = as_seen(session.clone(), None, now);
            assert_eq!((seen.state, seen.ended_at), (State::Ended, Some(deadline)));
            assert_eq!(seen.end_reason.as_deref(), Some(reason));
        }
    }
    let running = as_seen(fixture::active(), Some(runtime(false)), at("+99h"));
    assert_eq!(
        running,
        fixture::active(),
        "its own clock says that there is time left"
    );
    let over = fixture::ended_glass_broken();
    assert_eq!(as_seen(over.clone(), None, at("+99h")), over);
}

#[test]
fn qa35_ending_what_expired_says_that_it_expired() {
    for (session, reason) in [
        (fixture::requested(), EndReason::NobodyApproved),
        (fixture::approved(), EndReason::NotStarted),
    ] {
        for actor in [requester(), admin()] {
            let end = end_by_user(&session, &actor, session.expires_at).unwrap();
            assert_eq!((end.reason, end.by), (reason.clone(), None));
        }
    }
}

#[test]
fn a_running_sessions_deadline_is_judged_by_its_own_clock() {
    let session = fixture::active();
    let (late, early) = (at("+99h"), at("-99h"));
    assert!(extend(&session, &requester(), Some(runtime(false)), late).is_ok());
    assert!(extend(&session, &requester(), Some(runtime(true)), early).is_err());
    assert!(end_at_deadline(&session, Some(runtime(true)), early).is_ok());
    let refusal = end_at_deadline(&session, Some(runtime(false)), late).unwrap_err();
    assert_eq!(
        refusal,
        Refusal::NotDue {
            at: session.expires_at
        }
    );
}

#[test]
fn an_extension_that_came_first_wins_over_the_deadline() {
    let mut row = fixture::active();
    let struck = Claim::from(end_at_deadline(&row, None, row.expires_at).unwrap());
    let extended = Claim::from(extend(&row, &requester(), None, at("+14m59s")).unwrap());
    assert!(extended.apply(&mut row));
    assert!(!struck.apply(&mut row));
    assert_eq!(row.state, State::Active);
}

#[test]
fn an_extension_stored_after_the_deadline_struck_is_not_undone() {
    let mut row = fixture::active();
    let known = row.clone();
    assert!(Claim::from(extend(&row, &requester(), None, at("+14m59s")).unwrap()).apply(&mut row));
    let struck = end_by_system(&known, EndReason::Expired, at("+15m")).unwrap();
    assert!(!Claim::from(struck).holds(&row));
}
