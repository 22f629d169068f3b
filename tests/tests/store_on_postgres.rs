//! The real adapter of the store port, on a real Postgres: the contract that it shares with the
//! fake, and what only a database can show (D-1 to D-5).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "store_on_postgres/age.rs"]
mod age;
#[path = "store_on_postgres/away.rs"]
mod away;
#[path = "store_on_postgres/fence.rs"]
mod fence;
#[path = "store_on_postgres/tls.rs"]
mod tls;

use async_trait::async_trait;
use breakglass::fakes::store_contract::{
    World, claim, end, minute, new_id, opened, owner, requested, row, stored,
};
use breakglass::ports::{Store, StoreError};
use breakglass::store::{DatabaseConfig, PgStore};
use breakglass_tests::log::Log;
use breakglass_tests::postgres::Postgres;
use decisions::session::State;
use futures_util::future::join_all;
use std::error::Error;
use std::sync::{Arc, Weak};
use tokio_postgres::Client;

/// A database of its own on the server that the tests share.
struct Database {
    server: Arc<Postgres>,
    name: String,
    admin: Client,
}

/// The server that runs; the last test that uses it stops it.
static SERVER: tokio::sync::Mutex<Weak<Postgres>> = tokio::sync::Mutex::const_new(Weak::new());

async fn server() -> Arc<Postgres> {
    let mut shared = SERVER.lock().await;
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let started = Arc::new(Postgres::start().await.expect("Postgres starts"));
    *shared = Arc::downgrade(&started);
    started
}

async fn database() -> Database {
    database_on(server().await).await
}

async fn database_on(server: Arc<Postgres>) -> Database {
    let name = format!("breakglass-{}", new_id());
    let admin = server.database(&name).await.expect("a database");
    Database {
        server,
        name,
        admin,
    }
}

impl Database {
    fn config(&self) -> DatabaseConfig {
        DatabaseConfig {
            host: Some("127.0.0.1".to_owned()),
            port: Some(self.server.port()),
            user: Some("postgres".to_owned()),
            database: self.name.clone(),
            ..DatabaseConfig::default()
        }
    }

    fn store(&self) -> Arc<PgStore> {
        Arc::new(store_of(&self.config()))
    }

    async fn run(&self, sql: &str) {
        self.admin.batch_execute(sql).await.expect(sql);
    }

    /// The first column of the first row.
    async fn text(&self, sql: &str) -> String {
        let rows = self.admin.simple_query(sql).await.expect(sql);
        let value = rows.iter().find_map(|message| {
            let tokio_postgres::SimpleQueryMessage::Row(row) = message else {
                return None;
            };
            row.get(0).map(str::to_owned)
        });
        value.unwrap_or_default()
    }

    async fn another_client(&self) -> Client {
        self.server.client(&self.name).await.expect("a connection")
    }
}

fn store_of(config: &DatabaseConfig) -> PgStore {
    PgStore::new(config, format!("process-{}", new_id())).expect("a good configuration")
}

#[async_trait]
impl World for Database {
    fn process(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn lapse(&self) {
        self.run("UPDATE breakglass_owner SET expires_at = now() - interval '1 microsecond'")
            .await;
    }
}

breakglass::store_contract!(database());

/// What it says, with every cause: as it is logged.
fn chain(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(": ");
        said.push_str(&error.to_string());
        cause = error.source();
    }
    said
}

#[tokio::test]
async fn the_operators_query_works_as_the_runbook_has_it() {
    let world = database().await;
    let store = owner(&world).await;
    let (first, second) = (requested(), opened());
    for given in [&first, &second] {
        stored(&*store, given.clone()).await;
    }
    let over = end(&second, State::Active, "user:default/bob", minute(1));
    claim(&*store, &over.into()).await.expect("an answer");
    let found = world
        .admin
        .query(
            "select id, app, env, state, tier, mode, requester, approver, glass_broken, \
             review_state, expires_at\nfrom breakglass_sessions where state <> 'ended' or \
             review_state = 'due' order by created_at desc",
            &[],
        )
        .await
        .expect("the query works");
    assert_eq!(
        found.len(),
        2,
        "one waits, and one ended with its review due"
    );
    let ended = found
        .iter()
        .find(|row| row.get::<_, &str>("id") == second.id.as_str());
    let ended = ended.expect("the glass-broken one");
    assert_eq!(ended.get::<_, &str>("state"), "ended");
    assert_eq!(ended.get::<_, &str>("tier"), "Flight");
    assert_eq!(ended.get::<_, &str>("mode"), "live");
    assert!(ended.get::<_, bool>("glass_broken"));
    assert_eq!(ended.get::<_, Option<&str>>("approver"), None);
    assert_eq!(ended.get::<_, Option<&str>>("review_state"), Some("due"));
    assert_eq!(
        ended.get::<_, jiff::Timestamp>("expires_at"),
        second.expires_at
    );
}

/// D-1: there is an index that begins with these columns, however it is called.
async fn has_index(world: &Database, columns: &str) -> bool {
    let found = format!(
        "SELECT count(*) > 0 FROM pg_indexes WHERE tablename = 'breakglass_sessions' \
         AND indexdef LIKE '%({columns})'"
    );
    world.text(&found).await == "t"
}

#[tokio::test]
async fn state_and_environment_are_indexed() {
    let world = database().await;
    owner(&world).await;
    assert!(has_index(&world, "state").await);
    assert!(has_index(&world, "app, env").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_start_at_once_migrate_once() {
    let world = database().await;
    let stores: Vec<_> = (0..6).map(|_| world.store()).collect();
    let migrating = stores
        .into_iter()
        .map(|store| tokio::spawn(async move { store.migrate().await }));
    for migrated in join_all(migrating).await {
        migrated.expect("no panic").expect("it is migrated");
    }
    let applied = "SELECT string_agg(version || ' ' || applied_at, ',') FROM breakglass_schema";
    let before = world.text(applied).await;
    assert_eq!(before.matches(',').count(), 0, "{before}");
    world.store().migrate().await.expect("a second start");
    assert_eq!(
        world.text(applied).await,
        before,
        "a second start does nothing"
    );
    assert_eq!(
        world.text("SELECT count(*) FROM breakglass_owner").await,
        "1"
    );
}

#[tokio::test]
async fn a_step_that_differs_from_the_one_that_was_applied_is_refused() {
    let world = database().await;
    world.store().migrate().await.expect("it is migrated");
    world
        .run("UPDATE breakglass_schema SET checksum = 'another'")
        .await;
    let refused = world.store().migrate().await;
    let Err(StoreError::Unreadable { what }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        what.contains("breakglass_schema") && what.contains("step 1"),
        "{what}"
    );
    assert_eq!(
        world.text("SELECT checksum FROM breakglass_schema").await,
        "another"
    );
}

#[tokio::test]
async fn a_step_that_fails_leaves_nothing_behind() {
    let world = database().await;
    world
        .run("CREATE TABLE breakglass_owner (somebody_elses text)")
        .await;
    let failed = world.store().migrate().await;
    assert!(matches!(failed, Err(StoreError::Away(_))), "{failed:?}");
    let ours = "SELECT count(*) FROM pg_tables WHERE tablename IN \
                ('breakglass_sessions', 'breakglass_objects', 'breakglass_schema')";
    assert_eq!(world.text(ours).await, "0");
    world.run("DROP TABLE breakglass_owner").await;
    world.store().migrate().await.expect("it is migrated");
}

/// What cannot be understood, and in which column.
const UNREADABLE: [(&str, &str); 8] = [
    ("state = 'paused'", "state"),
    ("mode = 'sideways'", "mode"),
    ("tier = 'flight'", "tier"),
    ("review_state = 'perhaps'", "review_state"),
    ("duration_minutes = -1", "duration_minutes"),
    ("volumes = '{\"an\": \"object\"}'", "volumes"),
    ("created_at = 'infinity'", "created_at"),
    ("approved_at = '-infinity'", "approved_at"),
];

#[tokio::test]
async fn a_row_that_cannot_be_understood_is_logged_and_hides_no_other() {
    let world = database().await;
    let store = owner(&world).await;
    let good = stored(&*store, requested()).await;
    for (set, column) in UNREADABLE {
        let bad = requested();
        let bad = decisions::session::Session {
            app: good.app.clone(),
            ..bad
        };
        stored(&*store, bad.clone()).await;
        world
            .run(&format!(
                "UPDATE breakglass_sessions SET {set} WHERE id = '{}'",
                bad.id
            ))
            .await;

        let answer = store.get(&bad.id).await;
        let Err(StoreError::Unreadable { what }) = answer else {
            panic!("{set}: {answer:?}");
        };
        assert!(
            what.contains(bad.id.as_str()) && what.contains(column),
            "{set}: {what}"
        );

        let log = Log::default();
        let taking = log.take();
        let unfinished = store.unfinished(None, 500).await.expect("an answer").rows;
        let newest = store
            .newest(&good.app, &good.env, 50)
            .await
            .expect("an answer");
        drop(taking);
        assert_eq!(unfinished, std::slice::from_ref(&good), "{set}");
        assert_eq!(newest, std::slice::from_ref(&good), "{set}");
        let said = log.text();
        assert_eq!(said.matches("ERROR").count(), 2, "{set}: {said}");
        assert!(
            said.contains(bad.id.as_str()) && said.contains(column),
            "{set}: {said}"
        );
        world
            .run(&format!(
                "DELETE FROM breakglass_sessions WHERE id = '{}'",
                bad.id
            ))
            .await;
    }
}

#[tokio::test]
async fn a_name_that_reads_like_sql_is_a_name() {
    let world = database().await;
    let store = owner(&world).await;
    let name = "x'; DROP TABLE breakglass_sessions; --";
    let odd = decisions::session::Session {
        app: name.to_owned(),
        env: "%".to_owned(),
        ..requested()
    };
    let odd = stored(&*store, odd).await;
    assert_eq!(
        store.newest(name, "%", 50).await.expect("an answer"),
        std::slice::from_ref(&odd)
    );
    assert!(
        store
            .newest(name, "_", 50)
            .await
            .expect("an answer")
            .is_empty()
    );
    assert_eq!(row(&*store, &odd).await, odd);
}
