use super::*;
use crate::fakes::clock::FakeClock;
use crate::fakes::store_contract::{
    World, end, minute, new_id, opened, owner, requested, row, stored,
};
use crate::ports::Store;
use crate::ports::store::{Claimed, Lease};
use async_trait::async_trait;
use decisions::session::State;
use std::time::Duration;

struct FakeWorld {
    clock: FakeClock,
    first: FakeStore,
}

async fn world() -> FakeWorld {
    let clock = FakeClock::new();
    let first = FakeStore::new(Arc::new(clock.clone()));
    FakeWorld { clock, first }
}

#[async_trait]
impl World for FakeWorld {
    fn process(&self) -> Arc<dyn Store> {
        Arc::new(self.first.another_process())
    }

    async fn lapse(&self) {
        self.clock.advance(Duration::from_secs(21));
    }
}

crate::store_contract!(world());

#[track_caller]
fn is_away<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Away(_))), "{answer:?}");
}

#[tokio::test]
async fn a_lease_lasts_twenty_seconds_from_its_last_renewal() {
    let world = world().await;
    let store = owner(&world).await;
    world.clock.advance(Duration::from_secs(15));
    let renewed = store.take_or_renew_lease().await;
    assert!(matches!(renewed, Ok(Lease::Held { .. })));
    world.clock.advance(Duration::from_secs(20));
    let other = world.process();
    assert!(matches!(
        other.take_or_renew_lease().await,
        Ok(Lease::HeldByAnother)
    ));
    world.clock.advance(Duration::from_millis(1));
    assert!(matches!(
        other.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
}

#[tokio::test]
async fn a_call_that_is_told_to_fail_does_so_once_and_changes_nothing() {
    let world = world().await;
    let store = &world.first;
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
    let session = stored(store, opened()).await;
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    store.fail_next(Call::ClaimEnd, Fault::Away);
    is_away(store.claim_end(&over).await);
    assert_eq!(row(store, &session).await, session);
    assert!(matches!(store.claim_end(&over).await, Ok(Claimed::Won(_))));
}

#[tokio::test]
async fn a_lost_reply_is_away_although_it_happened() {
    let world = world().await;
    let store = &world.first;
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
    let session = stored(store, opened()).await;
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    store.fail_next(Call::ClaimEnd, Fault::ReplyLost);
    is_away(store.claim_end(&over).await);
    assert_eq!(row(store, &session).await.state, State::Ended);
    let again = store.claim_end(&over).await;
    assert!(
        matches!(
            again,
            Ok(Claimed::Lost {
                now_in: State::Ended
            })
        ),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_taking_whose_reply_was_lost_is_found_by_the_next_renewal() {
    let world = world().await;
    let store = &world.first;
    store.fail_next(Call::TakeOrRenewLease, Fault::ReplyLost);
    is_away(store.take_or_renew_lease().await);
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
    stored(store, requested()).await;
}

#[tokio::test]
async fn while_it_is_away_every_process_is_told_so() {
    let world = world().await;
    let store = owner(&world).await;
    world.first.set_away(true);
    is_away(store.ping().await);
    is_away(store.unfinished(None, 500).await);
    is_away(store.get(&new_id()).await);
    is_away(world.process().take_or_renew_lease().await);
    world.first.set_away(false);
    stored(&*store, requested()).await;
    let calls = world.first.calls();
    assert_eq!(
        calls
            .iter()
            .filter(|call| **call == Call::TakeOrRenewLease)
            .count(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_never_answers_and_changes_nothing() {
    let world = world().await;
    let store = &world.first;
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
    let session = stored(store, opened()).await;
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    store.fail_next(Call::ClaimEnd, Fault::Hangs);
    let asked = tokio::time::timeout(Duration::from_secs(3600), store.claim_end(&over)).await;
    assert!(asked.is_err());
    assert_eq!(row(store, &session).await, session);
}

#[tokio::test]
async fn a_row_that_cannot_be_understood_hides_no_other() {
    let world = world().await;
    let store = &world.first;
    let (good, bad) = (requested(), requested());
    store.put(good.clone());
    store.put(bad.clone());
    store.spoil(&bad.id);
    assert!(matches!(
        store.get(&bad.id).await,
        Err(StoreError::Unreadable { .. })
    ));
    let unfinished = store.unfinished(None, 500).await.expect("the others").rows;
    assert_eq!(unfinished, [good]);
    assert_eq!(store.rows().len(), 2);
    assert!(store.held().is_empty());
}
