//! Claims: won, lost or unknown as the reference says, and never won twice (S-1).

use super::{
    World, after, approve, before, deny, end, end_at, extend, minute, one_of_each, opened, owner,
    requested, review, row, start, stored,
};
use crate::ports::store::{Claimed, OpenedFacts};
use crate::ports::{Store, StoreError};
use decisions::session::{Session, State};
use decisions::transition::Claim;
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;

/// Asks the store for any claim.
pub async fn claim(store: &dyn Store, claim: &Claim) -> Result<Claimed, StoreError> {
    match claim {
        Claim::Approve(claim) => store.claim_approve(claim).await,
        Claim::Deny(claim) => store.claim_deny(claim).await,
        Claim::Start(claim) => store.claim_start(claim).await,
        Claim::Extend(claim) => store.claim_extension(claim).await,
        Claim::End(claim) => store.claim_end(claim).await,
        Claim::Review(claim) => store.claim_review(claim).await,
    }
}

/// What the reference says becomes of a claim on this row; writes it to the row.
fn expected(model: &mut Session, claim: &Claim) -> Claimed {
    if claim.apply(model) {
        return Claimed::Won(Box::new(model.clone()));
    }
    Claimed::Lost {
        now_in: model.state,
    }
}

#[track_caller]
fn is(answer: Result<Claimed, StoreError>, expected: &Claimed, what: &dyn std::fmt::Debug) {
    let answer = answer.expect("the store answers");
    assert_eq!(answer, *expected, "{what:?}");
}

async fn agree(store: &dyn Store, model: &mut Session, claims: &[Claim]) {
    for asked in claims {
        let expected = expected(model, asked);
        is(claim(store, asked).await, &expected, asked);
    }
    assert_eq!(row(store, model).await, *model);
}

const CLAIMERS: [&str; 3] = ["user:default/bob", "user:default/carol", "user:default/dan"];

/// A step of the property test: which claim, on which row, by whom, and when.
#[derive(Debug, Clone)]
struct Step {
    on: usize,
    kind: u8,
    by: usize,
    at: Moment,
}

#[derive(Debug, Clone, Copy)]
enum Moment {
    /// This many microseconds from the row's deadline.
    NearDeadline(i64),
    /// Minutes after `t0`.
    Minute(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let moment = prop_oneof![
        (-1_i64..=1).prop_map(Moment::NearDeadline),
        (0_i64..60).prop_map(Moment::Minute),
    ];
    let drawn = (0..3_usize, 0..12_u8, 0..CLAIMERS.len(), moment);
    drawn.prop_map(|(on, kind, by, at)| Step { on, kind, by, at })
}

fn claim_of(step: &Step, row: &Session) -> Claim {
    let by = CLAIMERS[step.by];
    let at = match step.at {
        Moment::NearDeadline(by) => row.expires_at + SignedDuration::from_micros(by),
        Moment::Minute(minutes) => minute(minutes),
    };
    let near = match step.at {
        Moment::NearDeadline(_) => at,
        Moment::Minute(_) => row.expires_at,
    };
    match step.kind {
        0 | 1 => approve(row, by, at).into(),
        2 => deny(row, by, at).into(),
        3 | 4 => start(row, at).into(),
        5 => extend(row, near, at).into(),
        6 => end(row, State::Requested, by, at).into(),
        7 => end(row, State::Approved, by, at).into(),
        8 => end(row, State::Active, by, at).into(),
        9 => end_at(row, row_state(row), near).into(),
        _ => review(row, by, at).into(),
    }
}

/// The row's own state, or active where it has no deadline any more.
fn row_state(row: &Session) -> State {
    match row.state {
        State::Ended => State::Active,
        unfinished @ (State::Requested | State::Approved | State::Active) => unfinished,
    }
}

/// Any sequence of claims: store and reference give the same answers and leave the same rows.
pub async fn claims_agree_with_the_reference(world: &dyn World) {
    let store = owner(world).await;
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let here = tokio::runtime::Handle::current();
    let steps = prop::collection::vec(step(), 1..16);
    let ran = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&steps, |steps| {
            here.block_on(follow(&*store, &steps));
            Ok(())
        })
    });
    ran.expect("store and reference agree");
}

async fn follow(store: &dyn Store, steps: &[Step]) {
    let mut models = [requested(), requested(), opened()];
    for model in &models {
        stored(store, model.clone()).await;
    }
    for step in steps {
        let model = &mut models[step.on];
        let asked = claim_of(step, model);
        let expected = expected(model, &asked);
        is(claim(store, &asked).await, &expected, &asked);
    }
    for model in &models {
        assert_eq!(row(store, model).await, *model);
    }
    let unfinished = store
        .unfinished(None, 500)
        .await
        .expect("the store answers")
        .rows;
    for model in &models {
        let listed = unfinished.iter().any(|row| row.id == model.id);
        assert_eq!(listed, model.state != State::Ended, "{model:?}");
    }
}

/// Deadlines are part of the condition: a claim wins up to a microsecond before, not at it.
pub async fn a_deadline_counts_to_the_microsecond(world: &dyn World) {
    let store = owner(world).await;
    let by = CLAIMERS[0];
    for (at, wins) in [(before, true), (|at| at, false), (after, false)] as [(Shift, bool); 3] {
        let check = async |given: Session, make: &dyn Fn(&Session) -> Claim| {
            let mut model = stored(&*store, given).await;
            let asked = make(&model);
            assert_eq!(asked.holds(&model), wins, "{asked:?}");
            agree(&*store, &mut model, &[asked]).await;
        };
        check(requested(), &|row| {
            approve(row, by, at(row.expires_at)).into()
        })
        .await;
        check(requested(), &|row| deny(row, by, at(row.expires_at)).into()).await;

        let mut model = stored(&*store, requested()).await;
        let approved = approve(&model, by, minute(5));
        agree(&*store, &mut model, &[approved.into()]).await;
        let late = start(&model, at(model.expires_at));
        agree(&*store, &mut model, &[late.into()]).await;
        assert_eq!(model.state == State::Active, wins);
    }
    // What is bound to the row's own deadline wins at it alone.
    for (at, wins) in [(before, false), (|at| at, true), (after, false)] as [(Shift, bool); 3] {
        let mut model = stored(&*store, opened()).await;
        let moved = extend(&model, at(model.expires_at), minute(1));
        agree(&*store, &mut model, &[moved.into()]).await;
        assert_eq!(model.extended_at.is_some(), wins);
        let mut model = stored(&*store, opened()).await;
        let over = end_at(&model, State::Active, at(model.expires_at));
        agree(&*store, &mut model, &[over.into()]).await;
        assert_eq!(model.state == State::Ended, wins);
    }
}

type Shift = fn(Timestamp) -> Timestamp;

/// A claim on what is not there says so.
pub async fn an_unknown_session_is_unknown_to_every_claim(world: &dyn World) {
    let store = owner(world).await;
    let nobodys = requested();
    for asked in one_of_each(&nobodys, minute(1)) {
        is(claim(&*store, &asked).await, &Claimed::Unknown, &asked);
    }
    assert!(
        store
            .get(&nobodys.id)
            .await
            .expect("the store answers")
            .is_none()
    );
}

/// Asks for all of them at once; how many won. The others must have lost.
async fn at_once(store: &Arc<dyn Store>, claims: Vec<Claim>) -> usize {
    let asking = claims.into_iter().map(|asked| {
        let store = Arc::clone(store);
        tokio::spawn(async move { claim(&*store, &asked).await })
    });
    let mut won = 0;
    for answer in join_all(asking).await {
        match answer.expect("no panic").expect("the store answers") {
            Claimed::Won(_) => won += 1,
            Claimed::Lost { .. } => {}
            Claimed::Unknown => panic!("the row is there"),
        }
    }
    won
}

/// Brings a new row to where this claim could win.
async fn ready_for(store: &dyn Store, kind: usize) -> Session {
    let by = CLAIMERS[0];
    let asked = match kind {
        2 | 5 => requested(),
        0 | 1 | 4 => return stored(store, requested()).await,
        _ => opened(),
    };
    let mut model = stored(store, asked).await;
    let next: Option<Claim> = match kind {
        2 | 5 => Some(approve(&model, by, minute(1)).into()),
        7 => Some(end(&model, State::Active, by, minute(1)).into()),
        _ => None,
    };
    agree(store, &mut model, next.as_slice()).await;
    model
}

/// Of 20 equal claims at once one wins, and the row is as that one left it.
pub async fn two_of_anything_never_both_win(world: &dyn World) {
    let store = owner(world).await;
    let kinds = one_of_each(&requested(), minute(2)).len();
    for kind in 0..kinds {
        let model = ready_for(&*store, kind).await;
        let asked = one_of_each(&model, minute(2)).swap_remove(kind);
        assert!(asked.holds(&model), "{asked:?} on {model:?}");
        assert_eq!(
            at_once(&store, vec![asked.clone(); 20]).await,
            1,
            "{asked:?}"
        );
        let mut won = model;
        assert!(asked.apply(&mut won));
        assert_eq!(row(&*store, &won).await, won);
    }
}

/// BD PR#2795: races in authorising a session.
pub async fn qa30_of_fifty_starts_of_one_approval_one_wins(world: &dyn World) {
    let store = owner(world).await;
    let mut model = stored(&*store, requested()).await;
    let approved = approve(&model, CLAIMERS[0], minute(1));
    agree(&*store, &mut model, &[approved.into()]).await;
    let starts = (0..50).map(|second| {
        let at = minute(2) + SignedDuration::from_secs(second);
        start(&model, at).into()
    });
    assert_eq!(at_once(&store, starts.collect()).await, 1);
    assert_eq!(row(&*store, &model).await.state, State::Active);
}

/// Approve, deny and withdraw at once: one of them happened, and the row holds that one alone.
pub async fn of_different_claims_on_one_state_one_wins(world: &dyn World) {
    let store = owner(world).await;
    for _ in 0..20 {
        let model = stored(&*store, requested()).await;
        let claims: Vec<Claim> = vec![
            approve(&model, CLAIMERS[0], minute(1)).into(),
            approve(&model, CLAIMERS[1], minute(1)).into(),
            deny(&model, CLAIMERS[2], minute(1)).into(),
            end(
                &model,
                State::Requested,
                model.requester.as_str(),
                minute(1),
            )
            .into(),
        ];
        assert_eq!(at_once(&store, claims.clone()).await, 1);
        let left = row(&*store, &model).await;
        let possible = claims.iter().any(|claim| {
            let mut alone = model.clone();
            claim.apply(&mut alone) && alone == left
        });
        assert!(possible, "{left:?}");
    }
}

/// The deadline that was extended does not end the session, and the one that ended is not extended.
pub async fn an_extension_and_the_deadline_that_it_moves_never_both_win(world: &dyn World) {
    let store = owner(world).await;
    for _ in 0..20 {
        let model = stored(&*store, opened()).await;
        let claims: Vec<Claim> = vec![
            extend(&model, model.expires_at, minute(14)).into(),
            end_at(&model, State::Active, model.expires_at).into(),
        ];
        assert_eq!(at_once(&store, claims).await, 1);
        let left = row(&*store, &model).await;
        let extended = left.extended_at.is_some();
        assert_eq!(extended, left.state == State::Active, "{left:?}");
    }
}

/// TK PR#855: clean-up with a stale list overwrote a newer state. Here every stale write of a
/// process that still believes the session open comes to an ended row, in any order.
pub async fn qa3_an_ended_row_is_never_overwritten(world: &dyn World) {
    let store = owner(world).await;
    let facts = OpenedFacts {
        role_binding: Some("late".to_owned()),
        sensitive: Some(true),
        ..OpenedFacts::default()
    };
    for _ in 0..100 {
        let stale = stored(
            &*store,
            Session {
                review_state: None,
                ..opened()
            },
        )
        .await;
        let ended = end(&stale, State::Active, CLAIMERS[0], minute(1));
        let asking = one_of_each(&stale, minute(2))
            .into_iter()
            .chain([ended.into()]);
        let noting = store.note_opened(&stale.id, &facts);
        let (won, noted) = tokio::join!(at_once(&store, asking.collect()), noting);
        noted.expect("the store answers");
        assert!((1..=2).contains(&won), "an end, and an extension before it");
        let left = row(&*store, &stale).await;
        assert_eq!(left.state, State::Ended);
        let late = store.note_opened(&stale.id, &facts).await;
        assert!(!late.expect("the store answers"), "it has ended");
        for late in one_of_each(&stale, minute(3)) {
            let lost = Claimed::Lost {
                now_in: State::Ended,
            };
            is(claim(&*store, &late).await, &lost, &late);
        }
        assert_eq!(row(&*store, &stale).await, left);
    }
}
