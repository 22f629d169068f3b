//! What the signed-in person can act on, across every app (S-8).
//!
//! Invariant: nobody is asked to decide about their own session, and nothing past its deadline is
//! offered, sweep or no sweep.

use crate::session::{ReviewState, Session, State, UserRef};
use crate::settings::REVIEW_OVERDUE;
use crate::time::since;
use alloc::vec::Vec;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the caller may do on the session's app; what is unknown is false.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppRights {
    /// Backstage allowed `tower.breakglass.approve` for the app.
    pub approve: bool,
    /// Member of `glidepath.breakglass.reviewers`.
    pub reviewer: bool,
}

/// Where in the caller's queue a session belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Somebody else's request, to approve or deny.
    ToApprove,
    /// The caller's own approved session, to start.
    ToStart,
    /// Somebody else's glass-broken session, to review.
    ToReview {
        /// The session ended 72 hours ago or earlier.
        overdue: bool,
    },
}

/// Where in the caller's queue a session belongs, if anywhere (S-8).
pub fn place_in_queue(
    session: &Session,
    caller: &UserRef,
    rights: AppRights,
    now: Timestamp,
) -> Option<Place> {
    let own = session.requester == *caller;
    let unexpired = now < session.expires_at;
    match session.state {
        State::Requested => (!own && unexpired && rights.approve).then_some(Place::ToApprove),
        State::Approved => (own && unexpired).then_some(Place::ToStart),
        State::Active => None,
        State::Ended => {
            let due = session.glass_broken && session.review_state == Some(ReviewState::Due);
            let mine = !own && (rights.approve || rights.reviewer);
            (due && mine).then(|| Place::ToReview {
                overdue: is_overdue(session, now),
            })
        }
    }
}

/// Whether a due review is 72 hours past the session's end.
pub fn is_overdue(session: &Session, now: Timestamp) -> bool {
    session
        .ended_at
        .is_some_and(|ended| since(ended, now) >= REVIEW_OVERDUE)
}

/// A session to review, with its urgency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct ToReview {
    /// The session, its fields beside `overdue`.
    #[serde(flatten)]
    pub session: Session,
    /// The session ended 72 hours ago or earlier.
    pub overdue: bool,
}

/// The answer of `GET /queue` (S-8); each list in the order the sessions were given in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(ts_rs::TS), ts(export))]
pub struct Queue {
    /// Requests to approve or deny.
    pub to_approve: Vec<Session>,
    /// The caller's approved sessions to start.
    pub to_start: Vec<Session>,
    /// Reviews due.
    pub to_review: Vec<ToReview>,
}

impl Queue {
    /// Sorts sessions into the caller's queue. `rights` answers for an app from one batched
    /// permission check.
    pub fn of(
        sessions: impl IntoIterator<Item = Session>,
        caller: &UserRef,
        rights: impl Fn(&str) -> AppRights,
        now: Timestamp,
    ) -> Self {
        let mut queue = Self::default();
        for session in sessions {
            match place_in_queue(&session, caller, rights(&session.app), now) {
                Some(Place::ToApprove) => queue.to_approve.push(session),
                Some(Place::ToStart) => queue.to_start.push(session),
                Some(Place::ToReview { overdue }) => {
                    queue.to_review.push(ToReview { session, overdue });
                }
                None => {}
            }
        }
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at};

    const APPROVE: AppRights = AppRights {
        approve: true,
        reviewer: false,
    };
    const REVIEWER: AppRights = AppRights {
        approve: false,
        reviewer: true,
    };
    const NOTHING: AppRights = AppRights {
        approve: false,
        reviewer: false,
    };

    #[track_caller]
    fn check(session: &Session, who: &str, rights: AppRights, now: &str, expected: Option<Place>) {
        let caller = UserRef::new(who);
        assert_eq!(place_in_queue(session, &caller, rights, at(now)), expected);
    }

    #[test]
    fn a_request_waits_for_somebody_else_who_may_approve() {
        let (session, alice, bob) = (fixture::requested(), fixture::ALICE, fixture::BOB);
        check(&session, bob, APPROVE, "+0m", Some(Place::ToApprove));
        check(&session, alice, APPROVE, "+0m", None);
        check(&session, "USER:default/Alice", APPROVE, "+0m", None);
        check(&session, bob, REVIEWER, "+0m", None);
        check(&session, bob, NOTHING, "+0m", None);
    }

    #[test]
    fn an_approval_waits_for_its_requester_alone() {
        let (session, alice, bob) = (fixture::approved(), fixture::ALICE, fixture::BOB);
        check(&session, alice, NOTHING, "+0m", Some(Place::ToStart));
        check(&session, bob, APPROVE, "+0m", None);
    }

    #[test]
    fn qa35_nothing_past_its_deadline_is_offered_sweep_or_no_sweep() {
        let (session, bob) = (fixture::requested(), fixture::BOB);
        check(&session, bob, APPROVE, "+29m59s", Some(Place::ToApprove));
        check(&session, bob, APPROVE, "+30m", None);
        check(&session, bob, APPROVE, "+30m1s", None);
        let session = fixture::approved();
        check(
            &session,
            fixture::ALICE,
            NOTHING,
            "+9m59s",
            Some(Place::ToStart),
        );
        check(&session, fixture::ALICE, NOTHING, "+10m", None);
    }

    #[test]
    fn a_review_waits_for_an_approver_or_reviewer_and_is_overdue_after_72_hours() {
        let (session, bob) = (fixture::ended_glass_broken(), fixture::BOB);
        let (fresh, late) = (
            Some(Place::ToReview { overdue: false }),
            Some(Place::ToReview { overdue: true }),
        );
        check(&session, bob, APPROVE, "+0m", fresh);
        check(&session, bob, REVIEWER, "+71h59m59s", fresh);
        check(&session, bob, REVIEWER, "+72h", late);
        check(&session, bob, NOTHING, "+0m", None);
        check(&session, fixture::ALICE, APPROVE, "+0m", None);
        let done = Session {
            review_state: Some(ReviewState::Done),
            ..session.clone()
        };
        check(&done, bob, APPROVE, "+0m", None);
        let active = Session {
            state: State::Active,
            ended_at: None,
            ..session
        };
        check(&active, bob, APPROVE, "+0m", None);
    }

    #[test]
    fn rights_are_asked_for_each_sessions_own_app() {
        let other = Session {
            app: "bank".to_owned(),
            ..fixture::requested()
        };
        let sessions = [other, fixture::requested(), fixture::ended_glass_broken()];
        let rights = |app: &str| if app == "shop" { APPROVE } else { NOTHING };
        let queue = Queue::of(sessions, &UserRef::new(fixture::BOB), rights, at("+0m"));
        assert_eq!(queue.to_approve, [fixture::requested()]);
        assert_eq!(queue.to_start, []);
        assert_eq!(queue.to_review.len(), 1);
        let json = serde_json::to_value(&queue).unwrap();
        assert_eq!(json["toReview"][0]["overdue"], false);
        assert_eq!(json["toReview"][0]["app"], "shop");
    }
}
