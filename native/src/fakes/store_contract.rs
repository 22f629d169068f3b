//! What every adapter of the [`Store`] port does, whatever is behind it: run on the fake and on a
//! real Postgres by [`store_contract!`](crate::store_contract).
//!
//! Each case gets a world of its own, and asks for nothing but what the world's trait offers. A
//! case draws its own ids, apps and users, so that several can share a database.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a contract is a test's body: it panics to fail"
)]

use crate::ports::Store;
use crate::ports::store::{Inserted, Lease};
use async_trait::async_trait;
use decisions::limits::Limits;
use decisions::session::Session;
use std::sync::Arc;

mod claims;
mod given;
mod lease;
mod notes;
mod rows;
pub use claims::*;
pub use given::*;
pub use lease::*;
pub use notes::*;
pub use rows::*;

/// What a contract case needs of the other side of the port.
#[async_trait]
pub trait World: Send + Sync {
    /// The store of one more process on the same rows, which owns nothing yet.
    fn process(&self) -> Arc<dyn Store>;
    /// The lease lapses, as when nobody renewed it for longer than it lasts.
    async fn lapse(&self);
}

/// The store of a process that owns the sessions.
///
/// # Panics
/// Where it cannot own them.
pub async fn owner(world: &dyn World) -> Arc<dyn Store> {
    let store = world.process();
    store.migrate().await.expect("the tables are made");
    let lease = store.take_or_renew_lease().await;
    assert!(matches!(lease, Ok(Lease::Held { .. })), "{lease:?}");
    store
}

/// Limits that no case reaches by accident.
pub const NO_LIMITS: Limits = Limits {
    per_user: u32::MAX,
    per_app: u32::MAX,
    per_cluster: u32::MAX,
};

/// Stores a new row, and gives it back.
///
/// # Panics
/// Where it is not stored.
pub async fn stored(store: &dyn Store, session: Session) -> Session {
    let inserted = store.insert(&session, &NO_LIMITS).await;
    assert!(matches!(inserted, Ok(Inserted::Stored)), "{inserted:?}");
    session
}

/// The row as the store has it.
///
/// # Panics
/// Where it is not there or cannot be read.
pub async fn row(store: &dyn Store, session: &Session) -> Session {
    let found = store.get(&session.id).await.expect("the store answers");
    found.expect("the row is there")
}

/// Makes a `#[tokio::test]` of every case of the contract, each in a world of its own.
/// `$world` is an expression of a future that gives a `World`.
#[macro_export]
macro_rules! store_contract {
    ($world:expr) => {
        $crate::store_contract!(@cases $world,
            claims_agree_with_the_reference
            a_deadline_counts_to_the_microsecond
            an_unknown_session_is_unknown_to_every_claim
            two_of_anything_never_both_win
            qa30_of_fifty_starts_of_one_approval_one_wins
            of_different_claims_on_one_state_one_wins
            an_extension_and_the_deadline_that_it_moves_never_both_win
            qa3_an_ended_row_is_never_overwritten
            a_stored_row_reads_back_as_it_was
            a_taken_id_is_said_and_changes_nothing
            each_limit_is_counted_and_named
            what_is_not_open_does_not_count
            limits_hold_when_everybody_asks_at_once
            process_access_to_a_pod_is_one_sessions
            the_newest_come_first_and_only_of_their_environment
            the_unfinished_come_by_their_deadline
            the_unfinished_come_in_pages_that_leave_none_out
            only_active_sessions_count_as_others_on_a_pod
            what_opening_learned_is_added_while_the_row_is_active
            a_smaller_checkpoint_never_replaces_a_larger_one
            what_the_end_leaves_goes_on_an_ended_row_alone
            objects_are_held_until_they_are_forgotten
            a_kept_object_stays_held_and_says_why
            unsettled_rows_take_turns
            qr14_one_process_owns_the_sessions
            of_many_that_take_a_free_lease_one_has_it
            a_lapsed_lease_is_taken_under_a_higher_epoch
            a_lapsed_lease_that_nobody_took_is_renewed
            a_released_lease_is_free_at_once
            qa9_what_a_former_owner_writes_changes_nothing
        );
    };
    (@cases $world:expr, $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let world = $world.await;
                $crate::fakes::store_contract::$case(&world).await;
            }
        )+
    };
}
