//! The fence against a former owner in the middle of a write (D-5, qR14, qA9): taking over waits
//! for the write, or the write finds that it is too late; never both.

use super::{Database, database};
use breakglass::fakes::store_contract::{
    NO_LIMITS, World, end, minute, opened, owner, requested, row, stored,
};
use breakglass::ports::store::{Claimed, Inserted, Lease};
use breakglass::ports::{Store, StoreError};
use breakglass_tests::processes::until;
use decisions::session::State;
use std::sync::Arc;
use std::time::Duration;

/// Waits until so many of the stores' connections wait for a lock.
async fn blocked(world: &Database, many: usize) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND application_name = 'breakglass' AND wait_event_type = 'Lock'";
    until("a blocked statement", Duration::from_secs(5), || async {
        (world.text(waiting).await == many.to_string()).then_some(())
    })
    .await
    .expect("it waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_over_waits_for_a_claim_that_runs() {
    let world = database().await;
    let former = owner(&world).await;
    let session = stored(&*former, opened()).await;
    let mut other = world.another_client().await;
    let holding = other.transaction().await.expect("a transaction");
    let lock = "SELECT 1 FROM breakglass_sessions FOR UPDATE";
    holding.batch_execute(lock).await.expect("the row is held");

    let over = end(&session, State::Active, "user:default/bob", minute(1));
    let writing = tokio::spawn({
        let former = Arc::clone(&former);
        async move { former.claim_end(&over).await }
    });
    blocked(&world, 1).await;
    world.lapse().await;
    let new = world.process();
    let taking = tokio::spawn({
        let new = Arc::clone(&new);
        async move { new.take_or_renew_lease().await }
    });
    blocked(&world, 2).await;
    assert!(!taking.is_finished(), "the write holds the fence");

    holding.rollback().await.expect("the row is free");
    let written = writing.await.expect("no panic");
    assert!(matches!(written, Ok(Claimed::Won(_))), "{written:?}");
    let taken = taking.await.expect("no panic");
    assert!(matches!(taken, Ok(Lease::Held { .. })), "{taken:?}");
    assert_eq!(row(&*new, &session).await.state, State::Ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_over_waits_for_an_insert_that_runs() {
    let world = database().await;
    let former = owner(&world).await;
    let mut other = world.another_client().await;
    let holding = other.transaction().await.expect("a transaction");
    let lock = "LOCK TABLE breakglass_sessions IN SHARE ROW EXCLUSIVE MODE";
    holding.batch_execute(lock).await.expect("inserts wait");

    let new_row = requested();
    let writing = tokio::spawn({
        let (former, new_row) = (Arc::clone(&former), new_row.clone());
        async move { former.insert(&new_row, &NO_LIMITS).await }
    });
    blocked(&world, 1).await;
    world.lapse().await;
    let new = world.process();
    let taking = tokio::spawn({
        let new = Arc::clone(&new);
        async move { new.take_or_renew_lease().await }
    });
    blocked(&world, 2).await;
    holding.rollback().await.expect("inserts go on");
    let written = writing.await.expect("no panic");
    assert!(matches!(written, Ok(Inserted::Stored)), "{written:?}");
    let taken = taking.await.expect("no panic");
    assert!(matches!(taken, Ok(Lease::Held { .. })), "{taken:?}");
    assert_eq!(row(&*new, &new_row).await, new_row, "the new owner sees it");
}

/// Another process takes over while this one's write waits for the fence.
async fn overtaken(commits: bool) -> Result<Claimed, StoreError> {
    let world = database().await;
    let former = owner(&world).await;
    let session = stored(&*former, opened()).await;
    let mut other = world.another_client().await;
    let taking = other.transaction().await.expect("a transaction");
    let take = "UPDATE breakglass_owner SET epoch = epoch + 1, owner = 'another', \
                expires_at = now() + interval '20 seconds'";
    taking.batch_execute(take).await.expect("it is taken");

    let over = end(&session, State::Active, "user:default/bob", minute(1));
    let writing = tokio::spawn({
        let former = Arc::clone(&former);
        async move { former.claim_end(&over).await }
    });
    blocked(&world, 1).await;
    let state = if commits {
        taking.commit().await.expect("the lease is taken");
        State::Active
    } else {
        taking.rollback().await.expect("it is not taken after all");
        State::Ended
    };
    let written = writing.await.expect("no panic");
    assert_eq!(row(&*former, &session).await.state, state);
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_meets_a_taking_over_fails_and_changes_nothing() {
    let written = overtaken(true).await;
    assert!(matches!(written, Err(StoreError::NotOwner)), "{written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_meets_a_taking_over_that_fails_is_done() {
    let written = overtaken(false).await;
    assert!(matches!(written, Ok(Claimed::Won(_))), "{written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_wait_for_a_write_that_runs() {
    let world = database().await;
    let store = owner(&world).await;
    let session = stored(&*store, opened()).await;
    let mut other = world.another_client().await;
    let holding = other.transaction().await.expect("a transaction");
    let lock = "SELECT 1 FROM breakglass_sessions FOR UPDATE";
    holding.batch_execute(lock).await.expect("the row is held");
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.claim_end(&over).await }
    });
    blocked(&world, 1).await;
    let renewed = store.take_or_renew_lease().await;
    assert!(matches!(renewed, Ok(Lease::Held { .. })), "{renewed:?}");
    assert!(!writing.is_finished());
    holding.rollback().await.expect("the row is free");
    writing.await.expect("no panic").expect("an answer");
}

#[tokio::test]
async fn a_lease_lasts_twenty_seconds_of_the_databases_time() {
    let world = database().await;
    owner(&world).await;
    let left = "SELECT expires_at - now() BETWEEN interval '15 s' AND interval '20 s' \
                FROM breakglass_owner";
    assert_eq!(world.text(left).await, "t");
}

#[tokio::test]
async fn a_taking_whose_answer_was_lost_is_found_by_the_next_renewal() {
    let world = database().await;
    let store = super::store_of(&world.config());
    store.migrate().await.expect("it is migrated");
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { epoch: 1 })
    ));
    // Its own taking, of which it does not know: what it holds is an older epoch.
    world.run("UPDATE breakglass_owner SET epoch = 2").await;
    let found = store.take_or_renew_lease().await;
    assert!(matches!(found, Ok(Lease::Held { epoch: 2 })), "{found:?}");
    stored(&store, requested()).await;
}
