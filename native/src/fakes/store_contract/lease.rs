//! The lease: one owner, and a fence that a former one cannot pass (D-5).

use super::{
    NO_LIMITS, World, approve, claim, end, minute, object, one_of_each, opened, owner, requested,
    review, row, saved, stored,
};
use crate::ports::cluster::ObjectKind;
use crate::ports::store::{Claimed, Lease, OpenedFacts, Outcome};
use crate::ports::{Store, StoreError};
use decisions::session::{Session, State};
use futures_util::future::join_all;

async fn lease(store: &dyn Store) -> Lease {
    store
        .take_or_renew_lease()
        .await
        .expect("the store answers")
}

async fn epoch(store: &dyn Store) -> i64 {
    match lease(store).await {
        Lease::Held { epoch } => epoch,
        Lease::HeldByAnother => panic!("another process has the lease"),
    }
}

/// Gateways that raced for one session both recorded it (TP PR#48738): here one has the lease.
pub async fn qr14_one_process_owns_the_sessions(world: &dyn World) {
    let first = owner(world).await;
    let second = world.process();
    let held = epoch(&*first).await;
    for _ in 0..3 {
        assert_eq!(lease(&*second).await, Lease::HeldByAnother);
        assert_eq!(epoch(&*first).await, held, "a renewal keeps the epoch");
    }
    refused(&*second, &stored(&*first, opened()).await).await;
}

/// Of ten that take the free lease at once, one has it.
pub async fn of_many_that_take_a_free_lease_one_has_it(world: &dyn World) {
    owner(world)
        .await
        .release_lease()
        .await
        .expect("the store answers");
    for _ in 0..5 {
        let processes: Vec<_> = (0..10).map(|_| world.process()).collect();
        let asking = processes.iter().map(|store| {
            let store = store.clone();
            tokio::spawn(async move { lease(&*store).await })
        });
        let answers = join_all(asking).await.into_iter();
        let answers: Vec<Lease> = answers.map(|answer| answer.expect("no panic")).collect();
        let held = answers
            .iter()
            .filter(|answer| **answer != Lease::HeldByAnother)
            .count();
        assert_eq!(held, 1, "{answers:?}");
        world.lapse().await;
    }
}

/// Who takes over has a higher epoch than everybody before.
pub async fn a_lapsed_lease_is_taken_under_a_higher_epoch(world: &dyn World) {
    let mut before = epoch(&*owner(world).await).await;
    for _ in 0..3 {
        world.lapse().await;
        let next = world.process();
        let taken = epoch(&*next).await;
        assert!(taken > before, "{taken} after {before}");
        before = taken;
    }
}

/// Nobody took it, so the owner goes on under its epoch, and could write all the time.
pub async fn a_lapsed_lease_that_nobody_took_is_renewed(world: &dyn World) {
    let store = owner(world).await;
    let held = epoch(&*store).await;
    world.lapse().await;
    stored(&*store, requested()).await;
    assert_eq!(epoch(&*store).await, held);
    assert_eq!(lease(&*world.process()).await, Lease::HeldByAnother);
}

/// A process that stops gives the lease back, writes nothing more, and can take it again.
pub async fn a_released_lease_is_free_at_once(world: &dyn World) {
    let first = owner(world).await;
    let session = stored(&*first, opened()).await;
    let before = epoch(&*first).await;
    first.release_lease().await.expect("the store answers");
    refused(&*first, &session).await;
    let second = world.process();
    assert!(epoch(&*second).await > before);
    // What is not one's own is not given back.
    first.release_lease().await.expect("the store answers");
    world
        .process()
        .release_lease()
        .await
        .expect("the store answers");
    assert_eq!(lease(&*first).await, Lease::HeldByAnother);
    second.release_lease().await.expect("the store answers");
    let held = epoch(&*first).await;
    assert!(held > before + 1);
    // Taking back one's own is a taking over too: what was sent before it is fenced off.
    first.release_lease().await.expect("the store answers");
    assert!(epoch(&*first).await > held);
    stored(&*first, requested()).await;
}

/// Every write of a process without the lease is `NotOwner`, and nothing changes.
async fn refused(former: &dyn Store, session: &Session) {
    let before = row(former, session).await;
    let objects = former
        .objects(&session.id)
        .await
        .expect("the store answers");
    #[track_caller]
    fn not_owner<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
        assert!(matches!(answer, Err(StoreError::NotOwner)), "{answer:?}");
    }
    let new = requested();
    not_owner(former.insert(&new, &NO_LIMITS).await);
    for asked in one_of_each(session, minute(2)) {
        not_owner(claim(former, &asked).await);
        not_owner(claim(former, &one_of_each(&new, minute(2))[0]).await);
    }
    let facts = OpenedFacts {
        role_binding: Some("late".to_owned()),
        ..OpenedFacts::default()
    };
    not_owner(former.note_opened(&session.id, &facts).await);
    not_owner(
        former
            .note_checkpoint(&session.id, &saved(session, 1 << 40))
            .await,
    );
    let outcome = Outcome {
        recycled: Some(true),
        recording: Some(saved(session, 1 << 40)),
        notes: Some("late".to_owned()),
    };
    not_owner(former.note_outcome(&session.id, &outcome).await);
    let made = object(session, ObjectKind::LivePod, "uid-late");
    not_owner(former.note_object(&made).await);
    for it in &objects {
        not_owner(former.forget_object(&session.id, &it.object.uid).await);
        not_owner(
            former
                .keep_object(&session.id, &it.object.uid, "late")
                .await,
        );
    }
    not_owner(former.forget_object(&session.id, "uid-late").await);
    not_owner(former.keep_object(&session.id, "uid-late", "late").await);
    not_owner(former.unsettled(10).await);

    assert_eq!(row(former, session).await, before);
    assert_eq!(
        former
            .objects(&session.id)
            .await
            .expect("the store answers"),
        objects
    );
    assert!(
        former
            .get(&new.id)
            .await
            .expect("the store answers")
            .is_none()
    );
    former.ping().await.expect("it may still ask");
}

/// Reconcilers ran on every replica (TK#464): here a former owner's writes are refused whatever
/// the state of the row, and the new owner's are not.
pub async fn qa9_what_a_former_owner_writes_changes_nothing(world: &dyn World) {
    let former = owner(world).await;
    let by = "user:default/bob";
    let waiting = stored(&*former, requested()).await;
    let approved = stored(&*former, requested()).await;
    let yes = approve(&approved, by, minute(1));
    claim(&*former, &yes.into())
        .await
        .expect("the store answers");
    let active = stored(&*former, opened()).await;
    let made = object(
        &active,
        ObjectKind::RoleBinding,
        &format!("uid-{}", active.id),
    );
    former.note_object(&made).await.expect("the store answers");
    let over = stored(&*former, opened()).await;
    let ended = end(&over, State::Active, by, minute(1));
    claim(&*former, &ended.into())
        .await
        .expect("the store answers");

    world.lapse().await;
    let new = world.process();
    epoch(&*new).await;
    for session in [&waiting, &approved, &active, &over] {
        refused(&*former, session).await;
    }
    assert_eq!(lease(&*former).await, Lease::HeldByAnother);
    refused(&*former, &active).await;

    let reviewed = claim(&*new, &review(&over, by, minute(2)).into()).await;
    assert!(matches!(reviewed, Ok(Claimed::Won(_))), "{reviewed:?}");
    stored(&*new, requested()).await;
}
