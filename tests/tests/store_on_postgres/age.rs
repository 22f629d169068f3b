//! Tables of every age are taken over as they are, and an older reader still works (D-4).

use super::{Database, database, has_index};
use breakglass::fakes::store_contract::{
    World, claim, end, minute, opened, owner, requested, row, saved, stored, t0,
};
use breakglass::ports::Store;
use breakglass::ports::store::{OpenedFacts, Outcome};
use decisions::reason::EndReason;
use decisions::session::{MountedVolume, Session, SessionId, State, Tier};
use decisions::transition::end_by_system;

/// As knex made the first phase's table.
const OLDEST: &str = r#"
create table "breakglass_sessions" ("id" varchar(255), "app" varchar(255) not null,
  "env" varchar(255) not null, "cluster" varchar(255) not null,
  "namespace" varchar(255) not null, "pod" varchar(255) not null,
  "container" varchar(255) not null, "mode" varchar(255) not null, "reason" text not null,
  "requester" varchar(255) not null, "tier" varchar(255) not null,
  "duration_minutes" integer not null, "state" varchar(255) not null,
  "created_at" timestamptz not null, "started_at" timestamptz null, "expires_at" timestamptz null,
  "ended_at" timestamptz null, "end_reason" varchar(255) null, "role_binding" varchar(255) null,
  "debug_container" varchar(255) null);
alter table "breakglass_sessions" add constraint "breakglass_sessions_pkey" primary key ("id");
create index "breakglass_sessions_state_index" on "breakglass_sessions" ("state");
"#;

/// What the older version writes and reads: its own columns, by name.
const COLUMNS: &str = "id, app, env, cluster, namespace, pod, container, mode, reason, requester, \
    tier, duration_minutes, state, created_at, started_at, expires_at, ended_at, end_reason, \
    role_binding, debug_container";

fn older_insert(id: &str, state: &str, expires_at: &str) -> String {
    format!(
        "INSERT INTO breakglass_sessions ({COLUMNS}) VALUES ('{id}', 'shop', 'dev', 'ground', \
         'shop-dev', 'web-1', 'web', 'live', 'orders hang', 'user:default/alice', 'Ground', 30, \
         '{state}', '2027-01-15T08:00:00Z', '2027-01-15T08:00:00Z', {expires_at}, NULL, NULL, \
         'breakglass-{id}', 'debug-{id}')"
    )
}

const ACTIVE: &str = "000000active";
const ENDED: &str = "0000000ended";

async fn oldest() -> Database {
    let world = database().await;
    world.run(OLDEST).await;
    world
        .run(&older_insert(ACTIVE, "active", "'2027-01-15T08:30:00Z'"))
        .await;
    // A row that had ended kept no deadline there.
    world.run(&older_insert(ENDED, "ended", "NULL")).await;
    world
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).expect("an id")
}

async fn get(store: &dyn Store, text: &str) -> Session {
    store
        .get(&id(text))
        .await
        .expect("it can be read")
        .expect("the row is there")
}

#[tokio::test]
async fn the_oldest_table_is_taken_over_with_its_rows() {
    let world = oldest().await;
    let store = owner(&world).await;
    let active = get(&*store, ACTIVE).await;
    let expected = Session {
        id: id(ACTIVE),
        app: "shop".to_owned(),
        env: "dev".to_owned(),
        cluster: "ground".to_owned(),
        namespace: "shop-dev".to_owned(),
        pod: "web-1".to_owned(),
        requester: "user:default/alice".to_owned().into(),
        tier: Tier::Ground,
        duration_minutes: 30,
        state: State::Active,
        created_at: t0(),
        started_at: Some(t0()),
        expires_at: minute(30),
        role_binding: Some(format!("breakglass-{ACTIVE}")),
        debug_container: Some(format!("debug-{ACTIVE}")),
        ..requested()
    };
    assert_eq!(active, expected);
    assert_eq!(get(&*store, ENDED).await.state, State::Ended);
    assert_eq!(
        store
            .newest("shop", "dev", 50)
            .await
            .expect("an answer")
            .len(),
        2
    );
    assert_eq!(
        store.unfinished(None, 500).await.expect("an answer").rows,
        [expected]
    );
    assert!(has_index(&world, "state").await);
    assert!(has_index(&world, "app, env").await);

    // Its sessions end like any other, with a reason longer than the older column.
    let why = EndReason::FailedToStart("the kubelet says no ".repeat(30));
    let over = end_by_system(&active, why, minute(2)).expect("an end");
    claim(&*store, &over.into()).await.expect("an answer");
    let left = get(&*store, ACTIVE).await;
    assert_eq!(left.state, State::Ended);
    assert!(left.end_reason.is_some_and(|reason| reason.len() > 255));
}

#[tokio::test]
async fn an_older_version_still_reads_and_writes_its_own_columns() {
    let world = oldest().await;
    let store = owner(&world).await;
    let new = stored(&*store, requested()).await;
    let select = format!("SELECT {COLUMNS} FROM breakglass_sessions WHERE id = $1");
    let read = world
        .admin
        .query_one(&select, &[&new.id.as_str()])
        .await
        .expect("it reads");
    assert_eq!(read.get::<_, &str>("requester"), new.requester.as_str());
    assert_eq!(read.get::<_, i32>("duration_minutes"), 15);
    assert_eq!(read.get::<_, jiff::Timestamp>("expires_at"), new.expires_at);

    world
        .run(&older_insert("00000written", "active", "now()"))
        .await;
    let written = get(&*store, "00000written").await;
    assert!(!written.glass_broken && !written.sensitive && written.volumes.is_empty());
    world
        .run("UPDATE breakglass_sessions SET state = 'ended' WHERE id = '00000written'")
        .await;
    assert_eq!(get(&*store, "00000written").await.state, State::Ended);
}

/// Later phases' columns, in every type that knex may have given them.
fn later_columns(volumes: &str) -> String {
    format!(
        r#"
alter table "breakglass_sessions" add column "process_access" boolean,
  add column "volume_access" boolean default false, add column "volumes" {volumes},
  add column "recycle_last_pod" boolean, add column "recycled" boolean,
  add column "ticket_url" varchar(500), add column "approver" varchar(255),
  add column "approved_at" timestamptz, add column "decision_note" varchar(255),
  add column "glass_broken" boolean default false, add column "review_state" varchar(255),
  add column "reviewed_by" varchar(255), add column "reviewed_at" timestamptz,
  add column "review_note" varchar(255), add column "recording_key" varchar(255),
  add column "recording_sha256" varchar(64), add column "recording_bytes" integer;
update "breakglass_sessions" set "process_access" = null, "glass_broken" = null;
"#
    )
}

fn volume() -> MountedVolume {
    MountedVolume {
        name: "data".to_owned(),
        mount_path: "/volumes/data".to_owned(),
        app_path: "/data".to_owned(),
        note: None,
    }
}

#[tokio::test]
async fn a_table_between_the_ages_keeps_its_types() {
    for volumes in ["text", "json", "jsonb"] {
        let world = oldest().await;
        world.run(&later_columns(volumes)).await;
        let older = r#"[{"name": "cache", "mountPath": "/volumes/cache"}]"#;
        world
            .run(&format!(
                "UPDATE breakglass_sessions SET volumes = '{older}'"
            ))
            .await;
        let store = owner(&world).await;
        let active = get(&*store, ACTIVE).await;
        assert!(!active.process_access && !active.glass_broken, "{volumes}");
        assert_eq!(active.volumes[0].name, "cache", "{volumes}");
        assert_eq!(active.volumes[0].mount_path, "/volumes/cache", "{volumes}");

        let given = Session {
            volumes: vec![volume()],
            ..opened()
        };
        let given = stored(&*store, given).await;
        assert_eq!(row(&*store, &given).await, given, "{volumes}");
        let facts = OpenedFacts {
            volumes: Some(vec![volume()]),
            ..OpenedFacts::default()
        };
        for facts in [facts, OpenedFacts::default()] {
            store.note_opened(&active.id, &facts).await.expect(volumes);
            assert_eq!(get(&*store, ACTIVE).await.volumes, [volume()], "{volumes}");
        }

        store
            .note_checkpoint(&active.id, &saved(&active, 1000))
            .await
            .expect(volumes);
        assert_eq!(get(&*store, ACTIVE).await.recording_bytes, Some(1000));
        // More than the older column holds: the recording is named all the same.
        store
            .note_checkpoint(&active.id, &saved(&active, 3 << 30))
            .await
            .expect(volumes);
        let left = get(&*store, ACTIVE).await;
        assert_eq!(left.recording_bytes, Some(i64::from(i32::MAX)));
        assert_eq!(
            left.recording_version,
            Some(format!("version-{}", 3_u64 << 30))
        );
        let over = end(&active, State::Active, "user:default/bob", minute(1));
        claim(&*store, &over.into()).await.expect(volumes);
        let outcome = Outcome {
            recording: Some(saved(&active, 4 << 30)),
            notes: Some("RoleBinding not deleted: ".repeat(40)),
            ..Outcome::default()
        };
        store
            .note_outcome(&active.id, &outcome)
            .await
            .expect(volumes);
        assert_eq!(
            get(&*store, ACTIVE).await.recording_bytes,
            Some(i64::from(i32::MAX))
        );
        assert_eq!(
            world
                .text(
                    "SELECT data_type FROM information_schema.columns WHERE \
            column_name = 'recording_bytes'"
                )
                .await,
            "integer",
            "an older reader's type"
        );
    }
}

#[tokio::test]
async fn an_ended_row_without_a_deadline_reads_as_if_it_ended_at_it() {
    let world = oldest().await;
    let store = owner(&world).await;
    assert_eq!(
        get(&*store, ENDED).await.expires_at,
        t0(),
        "when it was made, for want of better"
    );
    world
        .run(&format!(
            "UPDATE breakglass_sessions SET ended_at = '2027-01-15T08:10:00Z' \
        WHERE id = '{ENDED}'"
        ))
        .await;
    assert_eq!(get(&*store, ENDED).await.expires_at, minute(10));
    // One that is open must have its deadline: there is nothing to guess it from.
    world
        .run(&format!(
            "UPDATE breakglass_sessions SET expires_at = NULL \
        WHERE id = '{ACTIVE}'"
        ))
        .await;
    assert!(store.get(&id(ACTIVE)).await.is_err());
}

#[tokio::test]
async fn a_schema_of_its_own_is_used_where_backstage_divides_by_schema() {
    let world = database().await;
    world.run("CREATE SCHEMA \"glide path\"").await;
    let config = breakglass::store::DatabaseConfig {
        schema: Some("glide path".to_owned()),
        ..world.config()
    };
    let store = super::store_of(&config);
    store.migrate().await.expect("it is migrated");
    let place = "SELECT string_agg(DISTINCT schemaname, ',') FROM pg_tables \
                 WHERE tablename LIKE 'breakglass%'";
    assert_eq!(world.text(place).await, "glide path");
    let elsewhere = world.process();
    assert!(
        elsewhere.unfinished(None, 500).await.is_err(),
        "the default schema has no table"
    );
}
