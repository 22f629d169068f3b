use super::*;
use crate::fixture::{self, ALICE, BOB, actor, at};
use crate::session::UserRef;
use crate::transition::RefusalKind;
use std::time::Duration;

const CAROL: &str = "user:default/carol";
const RUNNING: RuntimeAges = RuntimeAges {
    detached_for: None,
    idle_for: Duration::ZERO,
    unsaved_for: None,
    past_deadline: false,
};

fn of_other_app(user: &str) -> Actor {
    use Permission::{Approve, Request, SelfApprove, Terminate};
    let allowed = vec![Request, SelfApprove, Approve, Terminate];
    Actor {
        user: UserRef::new(user),
        app: "bank".to_owned(),
        allowed,
        reviewer: true,
    }
}

fn reviewer(user: &str) -> Actor {
    Actor {
        reviewer: true,
        ..actor(user, &[Permission::Request])
    }
}

#[test]
fn capabilities_come_from_permissions_and_membership_alone() {
    use Permission::{Approve, Request, SelfApprove, Terminate};
    let check = |allowed: &[Permission], reviewer, expected: [bool; 3]| {
        let actor = Actor {
            reviewer,
            ..actor("user:default/admin", allowed)
        };
        let c = Capabilities::of(&actor);
        assert_eq!(
            [c.can_break_glass, c.can_review, c.can_terminate],
            expected,
            "{allowed:?}"
        );
    };
    check(&[], false, [false, false, false]);
    check(&[Request], false, [false, false, false]);
    check(&[SelfApprove], false, [true, false, false]);
    check(&[Approve], false, [false, true, false]);
    check(&[Terminate], false, [false, false, true]);
    check(&[], true, [false, true, false]);
    let json = serde_json::json!(Capabilities::of(&actor(ALICE, &[SelfApprove])));
    let expected =
        serde_json::json!({"canBreakGlass": true, "canReview": false, "canTerminate": false});
    assert_eq!(json, expected);
}

#[test]
fn permissions_answered_for_another_app_count_for_nothing() {
    let (session, actor) = (fixture::ended_glass_broken(), of_other_app(ALICE));
    let sensitive = Session {
        sensitive: true,
        ..session.clone()
    };
    let stranger = of_other_app(CAROL);
    let active = fixture::active();
    let refusals = [
        may_see(&session, &actor).unwrap_err(),
        may_end(&active, &actor).unwrap_err(),
        may_review(&session, &stranger).unwrap_err(),
        may_read_recording(&sensitive, &actor).unwrap_err(),
        keeps_permission(&active, &actor).unwrap_err(),
        may_attach(&active, &actor, Some(RUNNING), at("+0m")).unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.kind(), RefusalKind::NotFound, "{refusal}");
        assert_eq!(
            refusal.to_string(),
            "app `bank` has no session `0123456789ab`"
        );
    }
    assert!(sensitive_recording_refusal(&sensitive, &stranger).is_some());
}

#[test]
fn seeing_needs_the_request_permission() {
    let session = fixture::active();
    assert_eq!(
        may_see(&session, &actor(CAROL, &[Permission::Request])),
        Ok(())
    );
    let refusal = may_see(&session, &actor(CAROL, &[Permission::Terminate])).unwrap_err();
    let text =
        "`user:default/carol` lacks the permission `tower.breakglass.request` for app `shop`";
    assert_eq!(
        (refusal.to_string().as_str(), refusal.kind()),
        (text, RefusalKind::NotAllowed)
    );
}

#[test]
fn its_requester_its_approver_and_admins_may_end_a_session() {
    let session = fixture::active();
    assert_eq!(may_end(&session, &actor(ALICE, &[])), Ok(EndsAs::Requester));
    assert_eq!(may_end(&session, &actor(BOB, &[])), Ok(EndsAs::Approver));
    let admin = actor(CAROL, &[Permission::Terminate]);
    assert_eq!(may_end(&session, &admin), Ok(EndsAs::Admin));
    for allowed in [&[][..], &[Permission::Approve, Permission::Request][..]] {
        let refusal = may_end(&session, &actor(CAROL, allowed)).unwrap_err();
        assert_eq!(
            refusal,
            Refusal::MayNotEnd {
                user: UserRef::new(CAROL)
            }
        );
    }
    let request = fixture::requested();
    assert!(may_end(&request, &actor(BOB, &[Permission::Approve])).is_err());
}

#[test]
fn a_sensitive_recording_is_for_its_people_and_admins() {
    let broken = Session {
        sensitive: true,
        reviewed_by: Some(UserRef::new("user:default/rita")),
        ..fixture::ended_glass_broken()
    };
    let approved = Session {
        sensitive: true,
        ..fixture::active()
    };
    let request = Permission::Request;
    let check = |session: &Session, actor: &Actor, allowed: bool| {
        assert_eq!(
            may_read_recording(session, actor).is_ok(),
            allowed,
            "{actor:?}"
        );
    };
    check(&approved, &actor(ALICE, &[request]), true);
    check(&approved, &actor(BOB, &[request]), true);
    check(&approved, &actor(CAROL, &[request]), false);
    check(
        &approved,
        &actor(CAROL, &[request, Permission::Terminate]),
        true,
    );
    // Nothing is there to be reviewed where the glass is whole.
    check(
        &approved,
        &actor(CAROL, &[request, Permission::Approve]),
        false,
    );
    check(&approved, &reviewer(CAROL), false);
    check(&broken, &actor("user:default/rita", &[request]), true);
    check(
        &broken,
        &actor(CAROL, &[request, Permission::Approve]),
        true,
    );
    check(&broken, &reviewer(CAROL), true);
    check(&broken, &actor(CAROL, &[request]), false);
    // Narrowed, never widened: the route's own permission is needed first.
    check(&approved, &actor(ALICE, &[]), false);
    check(&fixture::active(), &actor(CAROL, &[request]), true);
    let refusal = sensitive_recording_refusal(&broken, &actor(CAROL, &[request])).unwrap();
    assert_eq!(refusal.kind(), RefusalKind::NotAllowed);
}

#[test]
fn a_review_is_for_approvers_and_reviewers_other_than_the_requester() {
    let session = fixture::ended_glass_broken();
    assert_eq!(
        may_review(&session, &actor(BOB, &[Permission::Approve])),
        Ok(())
    );
    assert_eq!(may_review(&session, &reviewer(BOB)), Ok(()));
    let nobody = may_review(&session, &actor(BOB, &[Permission::Terminate])).unwrap_err();
    assert_eq!(nobody.kind(), RefusalKind::NotAllowed);
    let own = may_review(&session, &actor(ALICE, &[Permission::Approve])).unwrap_err();
    assert_eq!(
        own,
        Refusal::OwnSession {
            user: UserRef::new(ALICE),
            event: Event::Review
        }
    );
    assert_eq!(
        may_review(&fixture::active(), &reviewer(CAROL)),
        Err(Refusal::NoReviewOwed)
    );
}

#[test]
fn a_session_is_kept_by_the_permission_it_was_opened_with() {
    use Permission::{Request, SelfApprove};
    let (whole, broken) = (
        fixture::active(),
        Session {
            glass_broken: true,
            ..fixture::active()
        },
    );
    assert!(keeps_permission(&whole, &actor(ALICE, &[Request])).is_ok());
    assert!(keeps_permission(&whole, &actor(ALICE, &[SelfApprove])).is_err());
    assert!(keeps_permission(&broken, &actor(ALICE, &[SelfApprove])).is_ok());
    assert!(keeps_permission(&broken, &actor(ALICE, &[Request])).is_err());
}

#[test]
fn only_the_requester_attaches_and_only_while_it_runs_here_in_time() {
    let (session, alice) = (fixture::active(), actor(ALICE, &[]));
    let attach = |session: &Session, actor: &Actor, runtime| {
        may_attach(session, actor, runtime, at("+1m")).map_err(|refusal| refusal.kind())
    };
    assert_eq!(attach(&session, &alice, Some(RUNNING)), Ok(()));
    let over = RuntimeAges {
        past_deadline: true,
        ..RUNNING
    };
    assert_eq!(attach(&session, &alice, Some(over)), Err(RefusalKind::Gone));
    assert_eq!(attach(&session, &alice, None), Err(RefusalKind::Gone));
    for state in [State::Requested, State::Approved, State::Ended] {
        let session = Session {
            state,
            ..session.clone()
        };
        assert_eq!(
            attach(&session, &alice, Some(RUNNING)),
            Err(RefusalKind::Gone),
            "{state:?}"
        );
    }
    let admin = actor(
        BOB,
        &[
            Permission::Terminate,
            Permission::Request,
            Permission::Approve,
        ],
    );
    assert_eq!(
        attach(&session, &admin, Some(RUNNING)),
        Err(RefusalKind::NotAllowed)
    );
    assert_eq!(attach(&session, &admin, None), Err(RefusalKind::NotAllowed));
}
