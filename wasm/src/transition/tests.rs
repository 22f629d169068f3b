mod deadlines;
mod races;

use super::*;
use crate::fixture::{self, ALICE, BOB, actor, at};
use crate::request::{parse_approval, parse_review};
use crate::session::{Mode, SessionId, Tier, UserRef};
use serde_json::json;
use std::time::Duration;

const STATES: [State; 4] = [
    State::Requested,
    State::Approved,
    State::Active,
    State::Ended,
];
const CAROL: &str = "user:default/carol";

fn session_in(state: State) -> Session {
    match state {
        State::Requested => fixture::requested(),
        State::Approved => fixture::approved(),
        State::Active => fixture::active(),
        State::Ended => fixture::ended_glass_broken(),
    }
}

fn requester() -> Actor {
    actor(ALICE, &[Permission::Request])
}

fn approver() -> Actor {
    actor(BOB, &[Permission::Request, Permission::Approve])
}

fn admin() -> Actor {
    actor(CAROL, &[Permission::Terminate])
}

fn note(text: &str) -> Note {
    parse_review(&json!({"note": text})).unwrap()
}

fn runtime(past_deadline: bool) -> RuntimeAges {
    let idle_for = Duration::ZERO;
    RuntimeAges {
        detached_for: None,
        idle_for,
        unsaved_for: None,
        past_deadline,
    }
}

/// The event by whoever may, judged by the wall clock.
fn attempt(session: &Session, event: Event, now: Timestamp) -> Result<Claim, Refusal> {
    match event {
        Event::Approve => approve(session, &approver(), Approval::default(), now).map(Claim::from),
        Event::Deny => deny(session, &approver(), None, now).map(Claim::from),
        Event::Start => start(session, &requester(), now).map(Claim::from),
        Event::Extend => extend(session, &requester(), None, now).map(Claim::from),
        Event::EndByUser => end_by_user(session, &requester(), now).map(Claim::from),
        Event::EndBySystem => end_by_system(session, EndReason::Idle, now).map(Claim::from),
        Event::EndAtDeadline => end_at_deadline(session, None, now).map(Claim::from),
        Event::Review => review(session, &approver(), note("seen"), now).map(Claim::from),
    }
}

fn second() -> SignedDuration {
    SignedDuration::from_secs(1)
}

#[test]
fn every_transition_of_the_table_happens_and_every_other_pair_is_refused() {
    for state in STATES {
        for event in Event::ALL {
            // Only a broken glass is reviewed; of any other session that is said first.
            let glass_broken = event == Event::Review || session_in(state).glass_broken;
            let session = Session {
                glass_broken,
                ..session_in(state)
            };
            let now = match event {
                Event::EndAtDeadline => session.expires_at,
                Event::Approve
                | Event::Deny
                | Event::Start
                | Event::Extend
                | Event::EndByUser
                | Event::EndBySystem
                | Event::Review => session.expires_at - second(),
            };
            match (next_state(state, event), attempt(&session, event, now)) {
                (Some(to), Ok(claim)) => {
                    let mut row = session.clone();
                    assert!(claim.apply(&mut row), "{state:?} {event:?}");
                    assert_eq!(row.state, to, "{state:?} {event:?}");
                }
                (None, Err(refusal)) => {
                    assert_eq!(refusal, Refusal::WrongState { state, event });
                    assert_eq!(refusal.kind(), RefusalKind::Conflict);
                }
                (expected, found) => panic!("{state:?} {event:?}: {expected:?}, {found:?}"),
            }
        }
    }
}

#[test]
fn the_table_has_no_pair_twice() {
    for (index, (from, event, _)) in TRANSITIONS.iter().enumerate() {
        let later = &TRANSITIONS[index + 1..];
        assert!(
            later.iter().all(|(f, e, _)| (f, e) != (from, event)),
            "{from:?} {event:?}"
        );
    }
}

#[test]
fn qa16_an_approved_request_opens_one_session() {
    let mut row = fixture::approved();
    let first = Claim::from(start(&row, &requester(), at("+1m")).unwrap());
    let second = Claim::from(start(&row, &requester(), at("+1m")).unwrap());
    assert!(first.apply(&mut row));
    assert!(!second.apply(&mut row));
    let again = start(&row, &requester(), at("+2m")).unwrap_err();
    assert_eq!(
        again,
        Refusal::WrongState {
            state: State::Active,
            event: Event::Start
        }
    );
    assert_eq!(
        again.to_string(),
        "this session is active, so nobody can start it"
    );
}

#[test]
fn nobody_approves_denies_or_reviews_their_own() {
    let both = actor("User:Default/ALICE", &[Permission::Approve]);
    let session = fixture::requested();
    let own = |event| Refusal::OwnSession {
        user: UserRef::new(ALICE),
        event,
    };
    let approval = Approval::default();
    assert_eq!(
        approve(&session, &both, approval, at("+1m")),
        Err(own(Event::Approve))
    );
    assert_eq!(
        deny(&session, &both, None, at("+1m")),
        Err(own(Event::Deny))
    );
    let ended = fixture::ended_glass_broken();
    assert_eq!(
        review(&ended, &both, note("x"), at("+1m")),
        Err(own(Event::Review))
    );
    assert_eq!(
        own(Event::Approve).to_string(),
        "`user:default/alice` asked for this session, so somebody else must approve it"
    );
}

#[test]
fn only_the_requester_starts_and_extends() {
    let other = approver();
    for refusal in [
        start(&fixture::approved(), &other, at("+1m")).unwrap_err(),
        extend(&fixture::active(), &other, None, at("+1m")).unwrap_err(),
    ] {
        assert_eq!(refusal.kind(), RefusalKind::NotAllowed, "{refusal}");
        assert!(
            refusal.to_string().starts_with("only `user:default/alice`"),
            "{refusal}"
        );
    }
}

#[test]
fn what_backstage_did_not_allow_is_refused_before_anything_else_is_said() {
    let (nobody_a, nobody_b) = (actor(ALICE, &[]), actor(BOB, &[]));
    for session in STATES.map(session_in) {
        let now = at("+1m");
        for refusal in [
            approve(&session, &nobody_b, Approval::default(), now).unwrap_err(),
            deny(&session, &nobody_b, None, now).unwrap_err(),
            start(&session, &nobody_a, now).unwrap_err(),
            extend(&session, &nobody_a, None, now).unwrap_err(),
            review(&session, &actor(CAROL, &[]), note("x"), now).unwrap_err(),
            end_by_user(&session, &actor(CAROL, &[]), now).unwrap_err(),
        ] {
            assert_eq!(refusal.kind(), RefusalKind::NotAllowed, "{refusal}");
        }
        let stranger = Actor {
            app: "bank".to_owned(),
            ..approver()
        };
        let refusal = approve(&session, &stranger, Approval::default(), now).unwrap_err();
        assert_eq!(refusal.kind(), RefusalKind::NotFound);
    }
}

#[test]
fn an_approval_gives_ten_minutes_to_start_and_keeps_its_words() {
    let body = json!({"note": "go", "keepPod": true, "keepPodReason": "evidence"});
    let approval = parse_approval(&body, Mode::Live, Tier::Flight).unwrap();
    let mut row = fixture::requested();
    let claim = approve(&row, &approver(), approval.clone(), at("+29m59s")).unwrap();
    assert!(Claim::from(claim).apply(&mut row));
    assert_eq!(row.approver, Some(UserRef::new(BOB)));
    assert_eq!(row.approved_at, Some(at("+29m59s")));
    assert_eq!(row.expires_at, at("+39m59s"));
    assert_eq!(row.decision_note.as_deref(), Some("go"));
    assert_eq!(row.recycle_waived_reason.as_deref(), Some("evidence"));
    let copy = Session {
        mode: Mode::Copy,
        ..fixture::requested()
    };
    let refusal = approve(&copy, &approver(), approval, at("+1m")).unwrap_err();
    assert_eq!(refusal.kind(), RefusalKind::Invalid);
    assert_eq!(
        refusal.to_string(),
        "`keepPod` goes with the mode `live` alone"
    );
}

#[test]
fn a_denial_names_who_denied() {
    let mut row = fixture::requested();
    let claim = deny(&row, &approver(), Some(note("not today")), at("+1m")).unwrap();
    assert!(Claim::from(claim).apply(&mut row));
    assert_eq!(
        row.end_reason.as_deref(),
        Some("denied by user:default/bob")
    );
    assert_eq!(
        (row.ended_by, row.ended_at),
        (Some(UserRef::new(BOB)), Some(at("+1m")))
    );
    assert_eq!(row.decision_note.as_deref(), Some("not today"));
    assert_eq!(
        (row.approver, row.approved_at),
        (Some(UserRef::new(BOB)), None)
    );
}

#[test]
fn how_it_ends_depends_on_who_ends_what() {
    let (alice, bob, carol) = (requester(), approver(), admin());
    let by = |text: &str| format!("{text} user:default/");
    for (state, actor, expected) in [
        (State::Requested, &alice, "withdrawn".to_owned()),
        (State::Requested, &carol, by("cancelled by") + "carol"),
        (State::Approved, &alice, "withdrawn".to_owned()),
        (State::Approved, &bob, by("cancelled by") + "bob"),
        (State::Approved, &carol, by("cancelled by") + "carol"),
        (State::Active, &alice, "ended by user".to_owned()),
        (State::Active, &bob, by("terminated by") + "bob"),
        (State::Active, &carol, by("terminated by") + "carol"),
    ] {
        let end = end_by_user(&session_in(state), actor, at("+1m")).unwrap();
        assert_eq!(end.reason.to_string(), expected, "{state:?}");
        assert_eq!(end.by.as_ref(), Some(&actor.user));
        assert_eq!(end.was_opened(), state == State::Active);
    }
    let ended = end_by_user(&fixture::ended_glass_broken(), &alice, at("+1m")).unwrap_err();
    assert_eq!(ended.kind(), RefusalKind::Conflict);
}

#[test]
fn a_session_is_extended_once_by_a_quarter_of_an_hour_from_its_deadline() {
    let mut row = fixture::active();
    let first = extend(&row, &requester(), None, at("+1m")).unwrap();
    assert_eq!(first.expires_at, at("+30m"));
    let second = Claim::from(extend(&row, &requester(), None, at("+2m")).unwrap());
    assert!(Claim::from(first).apply(&mut row));
    assert_eq!(
        (row.extended_at, row.expires_at),
        (Some(at("+1m")), at("+30m"))
    );
    assert!(!second.apply(&mut row));
    let again = extend(&row, &requester(), None, at("+3m")).unwrap_err();
    assert_eq!(again, Refusal::AlreadyExtended);
    let same_deadline = Session {
        extended_at: Some(at("+1m")),
        ..fixture::active()
    };
    assert!(
        !second.holds(&same_deadline),
        "an extension is had once, whatever the deadline says"
    );
}

#[test]
fn the_system_ends_only_with_its_own_reasons() {
    let systems = [
        EndReason::BackendRestarted,
        EndReason::NotReopened,
        EndReason::Idle,
        EndReason::ShellExited,
        EndReason::PodGone,
        EndReason::FailedToStart("image cannot be pulled".to_owned()),
        EndReason::PermissionLost,
        EndReason::NotRecorded,
        EndReason::Expired,
    ];
    for reason in &systems {
        let end = end_by_system(&fixture::active(), reason.clone(), at("+1m")).unwrap();
        assert_eq!((&end.reason, &end.by), (reason, &None));
        assert_eq!(end.deadline.is_some(), *reason == EndReason::Expired);
    }
    let user = UserRef::new(BOB);
    for reason in [
        EndReason::ByUser,
        EndReason::Withdrawn,
        EndReason::Terminated(user.clone()),
        EndReason::Cancelled(user.clone()),
        EndReason::Denied(user),
        EndReason::NobodyApproved,
        EndReason::NotStarted,
    ] {
        let refusal = end_by_system(&fixture::active(), reason.clone(), at("+1m")).unwrap_err();
        assert_eq!(
            refusal,
            Refusal::ReasonDoesNotFit {
                state: State::Active,
                reason
            }
        );
    }
    let early = end_by_system(
        &fixture::requested(),
        EndReason::NobodyApproved,
        at("+29m59s"),
    );
    assert_eq!(early, Err(Refusal::NotDue { at: at("+30m") }));
}

#[test]
fn why_an_opening_failed_is_kept_as_one_bounded_line() {
    let why = format!("no\0pull\r\n\u{1b}[31m{}", "x".repeat(5000));
    let end = end_by_system(&fixture::active(), EndReason::FailedToStart(why), at("+1m")).unwrap();
    let text = end.reason.to_string();
    assert!(
        text.starts_with("failed to start: no pull [31mxxx"),
        "{text}"
    );
    assert!(
        text.ends_with("x…") && text.chars().count() <= 1020,
        "{text}"
    );
}

#[test]
fn a_review_is_done_once() {
    let mut row = fixture::ended_glass_broken();
    let first = Claim::from(review(&row, &approver(), note("fine"), at("+1h")).unwrap());
    let second = Claim::from(review(&row, &approver(), note("too late"), at("+1h")).unwrap());
    assert!(first.apply(&mut row));
    assert!(!second.apply(&mut row));
    assert_eq!(row.review_state, Some(ReviewState::Done));
    assert_eq!(
        (row.reviewed_by.clone(), row.reviewed_at),
        (Some(UserRef::new(BOB)), Some(at("+1h")))
    );
    assert_eq!(row.review_note.as_deref(), Some("fine"));
    let again = review(&row, &approver(), note("x"), at("+2h")).unwrap_err();
    assert_eq!(again, Refusal::AlreadyReviewed);
    let whole = Session {
        glass_broken: false,
        review_state: None,
        ..row
    };
    let none = review(&whole, &approver(), note("x"), at("+2h")).unwrap_err();
    assert_eq!(none, Refusal::NoReviewOwed);
}

#[test]
fn a_claims_times_are_what_the_database_keeps() {
    let now = at("+1m") + SignedDuration::from_nanos(1_999);
    let kept = at("+1m") + SignedDuration::from_micros(1);
    let claim = start(&fixture::approved(), &requester(), now).unwrap();
    assert_eq!(
        (claim.started_at, claim.expires_at),
        (kept, kept + minutes(15))
    );
}

#[test]
fn a_claim_on_another_session_does_not_hold() {
    let claim = Claim::from(start(&fixture::approved(), &requester(), at("+1m")).unwrap());
    let other = SessionId::parse("zzzzzzzzzzzz").unwrap();
    assert!(!claim.holds(&Session {
        id: other,
        ..fixture::approved()
    }));
}
