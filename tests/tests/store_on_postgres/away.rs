//! The database away: said within a bound, ended by nothing, and over when it is back (D-3, W-3).

use super::{chain, database, database_on, store_of};
use breakglass::config::Secret;
use breakglass::fakes::store_contract::{
    NO_LIMITS, end, minute, object, one_of_each, opened, owner, requested, row, saved, stored,
};
use breakglass::ports::cluster::ObjectKind;
use breakglass::ports::store::{Claimed, Lease, OpenedFacts, Outcome};
use breakglass::ports::{Store, StoreError};
use breakglass_tests::postgres::Postgres;
use decisions::session::{Session, State};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any call may take.
const BOUND: Duration = Duration::from_secs(14);

async fn is_away<T: std::fmt::Debug>(call: impl Future<Output = Result<T, StoreError>>) {
    let answer = tokio::time::timeout(BOUND, call)
        .await
        .expect("an answer within the bound");
    assert!(matches!(answer, Err(StoreError::Away(_))), "{answer:?}");
}

/// Every question of the port.
async fn everything_is_away(store: &dyn Store, session: &Session) {
    let id = &session.id;
    let made = object(session, ObjectKind::LivePod, "uid");
    is_away(store.migrate()).await;
    is_away(store.take_or_renew_lease()).await;
    is_away(store.insert(&requested(), &NO_LIMITS)).await;
    is_away(store.get(id)).await;
    is_away(store.newest("shop", "dev", 50)).await;
    is_away(store.unfinished(None, 500)).await;
    is_away(store.unsettled(10)).await;
    for asked in one_of_each(session, minute(1)) {
        is_away(breakglass::fakes::store_contract::claim(store, &asked)).await;
    }
    is_away(store.note_opened(id, &OpenedFacts::default())).await;
    is_away(store.note_checkpoint(id, &saved(session, 1))).await;
    is_away(store.note_outcome(id, &Outcome::default())).await;
    is_away(store.note_object(&made)).await;
    is_away(store.forget_object(id, "uid")).await;
    is_away(store.keep_object(id, "uid", "why")).await;
    is_away(store.objects(id)).await;
    is_away(store.others_on_pod(session)).await;
    is_away(store.ping()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_is_away_and_comes_back_with_its_owner() {
    let mut world = database_on(Arc::new(Postgres::start().await.expect("Postgres starts"))).await;
    let store = owner(&world).await;
    let before = store.take_or_renew_lease().await.expect("an answer");
    let session = stored(&*store, opened()).await;

    let server = Arc::get_mut(&mut world.server).expect("its own server");
    server.stop().await.expect("it stops");
    everything_is_away(&*store, &session).await;

    server.start_again().await.expect("it starts");
    assert_eq!(
        store.take_or_renew_lease().await.expect("an answer"),
        before
    );
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    let ended = store.claim_end(&over).await;
    assert!(matches!(ended, Ok(Claimed::Won(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_begins_before_its_database_needs_no_new_start() {
    let mut world = database_on(Arc::new(Postgres::start().await.expect("Postgres starts"))).await;
    let server = Arc::get_mut(&mut world.server).expect("its own server");
    server.stop().await.expect("it stops");
    let store = store_of(&world.config());
    is_away(store.migrate()).await;
    let server = Arc::get_mut(&mut world.server).expect("its own server");
    server.start_again().await.expect("it starts");
    store.migrate().await.expect("it is migrated");
    assert!(matches!(
        store.take_or_renew_lease().await,
        Ok(Lease::Held { .. })
    ));
}

/// Stops or wakes every connection that the store has.
async fn signal_connections(world: &super::Database, signal: Signal) {
    let pids = world
        .admin
        .query(
            "SELECT pid FROM pg_stat_activity \
             WHERE application_name = 'breakglass' AND datname = current_database()",
            &[],
        )
        .await
        .expect("the connections");
    assert!(!pids.is_empty());
    for row in pids {
        let pid = Pid::from_raw(row.get::<_, i32>(0)).expect("a process");
        kill_process(pid, signal).expect("it is ours");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_hang_are_replaced() {
    let world = database().await;
    let store = owner(&world).await;
    let session = stored(&*store, opened()).await;
    signal_connections(&world, Signal::STOP).await;
    let found = tokio::time::timeout(BOUND, store.get(&session.id)).await;
    let found = found
        .expect("an answer within the bound")
        .expect("by another connection");
    assert_eq!(found, Some(session));
    signal_connections(&world, Signal::CONT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_too_long_is_given_up() {
    let world = database().await;
    let store = owner(&world).await;
    let session = stored(&*store, opened()).await;
    let mut other = world.another_client().await;
    let holding = other.transaction().await.expect("a transaction");
    let lock = "LOCK TABLE breakglass_sessions";
    holding
        .batch_execute(lock)
        .await
        .expect("the table is held");
    let over = end(&session, State::Active, "user:default/bob", minute(1));
    tokio::join!(
        is_away(store.get(&session.id)),
        is_away(store.claim_end(&over)),
        is_away(store.insert(&session, &NO_LIMITS)),
    );
    // Whoever waits for a row does not stand in the way of the lease.
    let renewed = store.take_or_renew_lease().await;
    assert!(matches!(renewed, Ok(Lease::Held { .. })), "{renewed:?}");
    holding.rollback().await.expect("the table is free");
    assert_eq!(row(&*store, &session).await, session);
}

/// Makes the server ask this user for a password on this database.
async fn ask_for_a_password(world: &super::Database, user: &str, password: &str) {
    world
        .run(&format!(
            "CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'"
        ))
        .await;
    let path = world.text("SHOW hba_file").await;
    let rules = std::fs::read_to_string(&path).expect("the server's rules");
    let rule = format!(
        "host \"{}\" \"{user}\" 127.0.0.1/32 scram-sha-256\n",
        world.name
    );
    std::fs::write(&path, rule + &rules).expect("the server's rules");
    world.run("SELECT pg_reload_conf()").await;
    let loaded = format!(
        "SELECT count(*) FROM pg_hba_file_rules WHERE '{user}' = ANY(user_name) AND error IS NULL"
    );
    assert_eq!(world.text(&loaded).await, "1");
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_never_printed() {
    let world = database_on(Arc::new(Postgres::start().await.expect("Postgres starts"))).await;
    ask_for_a_password(&world, "sidecar", "right horse").await;
    let with = |password: &str| breakglass::store::DatabaseConfig {
        user: Some("sidecar".to_owned()),
        password: Some(Secret::new(password)),
        ..world.config()
    };
    // The server takes up its new rules in its own time; the right password works throughout.
    let refused = breakglass_tests::processes::until("a refusal", BOUND, || async {
        store_of(&with("wrong horse")).ping().await.err()
    });
    let refused = refused.await.expect("it is refused");
    let said = chain(&refused);
    assert!(said.contains("password authentication failed"), "{said}");
    let printed = format!("{refused:?} {said} {:?}", with("wrong horse"));
    assert!(!printed.contains("horse"), "{printed}");
    store_of(&with("right horse"))
        .ping()
        .await
        .expect("the right one");
    // A password file's last line break is not part of it.
    store_of(&with("right horse\n"))
        .ping()
        .await
        .expect("the right one");
}
