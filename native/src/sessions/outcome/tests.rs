//! What an end saw, and a database, a store or a process that was away when it was to be written.

use super::*;
use crate::config;
use crate::fakes::clock::FakeClock;
use crate::fakes::cluster::{Effect, FakeCluster, Step};
use crate::fakes::recordings::FakeRecordings;
use crate::fakes::store::{Call, FakeStore, Fault};
use crate::http::caller::Caller;
use crate::ports::cluster::PodRef;
use crate::ports::{Clock, Cluster, Store};
use crate::sessions::World as Parts;
use crate::sweep::Sweep;
use decisions::names;
use decisions::session::State;
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

/// What outlives a process.
struct World {
    clock: FakeClock,
    cluster: FakeCluster,
    recordings: Arc<FakeRecordings>,
    pod: PodRef,
    dir: TempDir,
    spools: AtomicU32,
}

/// One process.
struct Process {
    store: Arc<FakeStore>,
    sessions: Arc<Sessions>,
    sweep: Sweep,
}

impl World {
    fn new() -> Self {
        let clock = FakeClock::new();
        let flows = clock.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                flows.advance(Duration::from_millis(10));
            }
        });
        let cluster = FakeCluster::new("ground", "tests");
        cluster.set_namespace("shop", &[(names::APP, "shop"), (names::ENV, "dev")]);
        let pod = cluster.add_pod("shop", "web-1", Some("web"));
        cluster.add_pod("shop", "web-2", Some("web"));
        Self {
            clock,
            cluster,
            recordings: Arc::default(),
            pod,
            dir: tempfile::tempdir().unwrap(),
            spools: AtomicU32::new(0),
        }
    }

    /// A process that owns the sessions from here on.
    async fn process(&self, store: FakeStore) -> Process {
        let file = self.dir.path().join("sidecar.yaml");
        let settings = json!({
            "installation": "tests", "socket": "/nowhere.sock", "spool": self.spool(),
            "recordings": {"folder": {"path": "/nowhere"}},
            "debugImages": [format!("ghcr.io/hangar/debug@sha256:{}", "a".repeat(64))],
        });
        fs::write(&file, settings.to_string()).unwrap();
        let mut config = config::read(&file, &|_| None).unwrap();
        config.ground_clusters = vec!["ground".to_owned()];
        let store = Arc::new(store);
        let cluster: Arc<dyn Cluster> = Arc::new(self.cluster.clone());
        let parts = Parts {
            clock: Arc::new(self.clock.clone()),
            store: store.clone(),
            clusters: [("ground".to_owned(), cluster)].into(),
            recordings: self.recordings.clone(),
        };
        let sessions = Sessions::new(&config, parts);
        store.take_or_renew_lease().await.unwrap();
        sessions.tenure.confirmed(self.clock.elapsed() + HOUR);
        let sweep = Sweep::new(Arc::clone(&sessions));
        Process {
            store,
            sessions,
            sweep,
        }
    }

    async fn first_process(&self) -> Process {
        self.process(FakeStore::new(Arc::new(self.clock.clone())))
            .await
    }

    /// The process is gone with all that it held, and another comes on the same database. It finds
    /// the spools as they are at this moment, without the locks that go with a process.
    async fn another_process(&self, before: Process) -> Process {
        let store = before.store.another_process();
        before.store.release_lease().await.unwrap();
        for runtime in before.sessions.runtimes().all() {
            runtime.abandoned.cancel();
        }
        let left = self.spools();
        self.spools.fetch_add(1, Ordering::SeqCst);
        fs::create_dir(self.spool()).unwrap();
        for spool in left {
            let name = spool.file_name().unwrap().to_owned();
            fs::copy(spool, self.spool().join(name)).unwrap();
        }
        self.process(store).await
    }

    fn spool(&self) -> PathBuf {
        let number = self.spools.load(Ordering::SeqCst);
        self.dir.path().join(format!("spool-{number}"))
    }

    fn spools(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.spool()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn deleted_pods(&self) -> usize {
        let is_delete = |effect: &Effect| effect.step == Step::DeletePod;
        self.cluster.effects().into_iter().filter(is_delete).count()
    }

    fn has_pod(&self) -> bool {
        self.cluster.pod("shop", &self.pod.name).is_some()
    }
}

fn alice() -> Caller {
    let actor = json!({"user": "user:default/alice", "app": "shop", "allowed": ["request"]});
    Caller {
        actor: serde_json::from_value(actor).unwrap(),
        declared_tier: None,
    }
}

impl Process {
    async fn open(&self) -> SessionId {
        let request = json!({
            "app": "shop", "env": "dev", "cluster": "ground", "namespace": "shop",
            "pod": "web-1", "container": "app", "mode": "live", "durationMinutes": 15,
            "reason": "to see why",
        });
        let opened = self.sessions.open(&alice(), &request, false).await;
        opened.expect("a session").id
    }

    /// Its user ends it; what the answer is does not matter here.
    async fn end(&self, id: &SessionId) {
        let _ = self.sessions.end_for(&alice(), id).await;
        while self.sessions.runtimes().get(id).is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn pass(&self) {
        // A pass that the database does not answer is only late.
        let _ = self.sweep.pass().await;
        self.sweep.settle().await;
    }

    /// Passes until it is so: what held a spool may be a moment later than the end itself.
    async fn passes_until(&self, is: impl Fn() -> bool) {
        for _ in 0..1000 {
            self.pass().await;
            if is() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it did not come");
    }

    fn row(&self, id: &SessionId) -> Session {
        let mut rows = self.store.rows().into_iter();
        rows.find(|row| row.id == *id).expect("a row")
    }

    /// All that an undisturbed end leaves.
    #[track_caller]
    fn is_complete(&self, world: &World, id: &SessionId, what: &str) {
        let row = self.row(id);
        assert_eq!(row.state, State::Ended, "{what}");
        assert_eq!(row.recycled, Some(true), "{what}");
        assert_eq!(row.cleanup_notes, None, "{what}");
        assert!(row.recording_version.is_some(), "{what}");
        assert_eq!(self.store.held(), [], "{what}");
        assert_eq!(world.spools(), Vec::<PathBuf>::new(), "{what}");
        assert_eq!(world.deleted_pods(), 1, "{what}");
        assert!(!self.sessions.is_at(id), "{what}");
    }
}

#[tokio::test]
async fn what_an_end_saw_is_written_once_the_database_takes_it() {
    let faults = [
        (Call::NoteOutcome, Fault::Away, 1),
        (Call::NoteOutcome, Fault::Away, 3),
        (Call::NoteOutcome, Fault::ReplyLost, 1),
        (Call::ForgetObject, Fault::Away, 1),
        (Call::ForgetObject, Fault::ReplyLost, 2),
    ];
    for (call, fault, times) in faults {
        let what = format!("{call:?} {fault:?} {times}");
        let world = World::new();
        let process = world.first_process().await;
        let id = process.open().await;
        for _ in 0..times {
            process.store.fail_next(call, fault);
        }
        process.end(&id).await;
        assert!(!world.has_pod(), "{what}");
        assert!(process.sessions.is_at(&id), "{what}: it is owed");
        let puts = world.recordings.puts();
        for _ in 0..times {
            process.pass().await;
        }
        process.is_complete(&world, &id, &what);
        assert_eq!(world.recordings.puts(), puts, "{what}: saved once");
    }
}

#[tokio::test]
async fn why_a_pod_was_kept_is_on_record_once_the_database_takes_it() {
    let world = World::new();
    let process = world.first_process().await;
    let other = world.cluster.pod("shop", "web-2").expect("the other pod");
    let id = process.open().await;
    // The last ready one: it stays, and is watched.
    world.cluster.lose_pod(&PodRef {
        namespace: "shop".to_owned(),
        name: "web-2".to_owned(),
        uid: None,
    });
    for pod in world.cluster.pods("shop") {
        if pod != world.pod.name {
            let successor = PodRef {
                name: pod,
                ..world.pod.clone()
            };
            world.cluster.edit_pod(&successor, |pod| {
                pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
            });
        }
    }
    process.store.fail_next(Call::KeepObject, Fault::Away);
    process.end(&id).await;
    assert!(process.store.held().iter().all(|held| held.kept.is_none()));
    // Another one is ready by now: that does not change what was decided at the end.
    world.cluster.put_pod({
        let mut other = other;
        other["metadata"]["name"] = "web-3".into();
        other["metadata"]["uid"] = serde_json::Value::Null;
        other
    });
    process.pass().await;
    let held = process.store.held();
    assert_eq!(held.len(), 1);
    let why = held[0].kept.as_deref().unwrap_or_default();
    assert!(why.contains("the last ready pod"), "{why}");
    assert_eq!(process.row(&id).recycled, Some(false));
    assert!(world.has_pod());
}

#[tokio::test]
async fn what_a_sweep_saw_is_owed_as_well() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    let process = world.another_process(process).await;
    // It ends what it finds, without a runtime.
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    process.pass().await;
    assert!(!world.has_pod());
    assert_eq!(process.row(&id).recycled, None);
    process.pass().await;
    process.is_complete(&world, &id, "ended by the sweep");

    // A later try at what an end could not finish.
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    world.cluster.set_away(true);
    process.end(&id).await;
    world.cluster.set_away(false);
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    process.pass().await;
    assert!(!world.has_pod());
    process.pass().await;
    process.is_complete(&world, &id, "settled by the sweep");
}

#[tokio::test]
async fn a_deadline_whose_outcome_is_not_taken_either_is_owed_on() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    process.store.set_away(true);
    process
        .sessions
        .end_by_system(&id, decisions::reason::EndReason::Expired)
        .await;
    assert!(!world.has_pod(), "from memory");
    process.store.set_away(false);
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    process.pass().await;
    assert_eq!(process.row(&id).state, State::Ended);
    assert_eq!(process.row(&id).recycled, None);
    process.pass().await;
    process.is_complete(&world, &id, "a deadline");
}

#[tokio::test]
async fn a_process_that_did_not_see_who_deleted_a_pod_says_so() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    process.end(&id).await;
    assert!(!world.has_pod());
    let process = world.another_process(process).await;
    process.pass().await;
    let row = process.row(&id);
    assert_eq!(row.recycled, None, "neither true nor false is known");
    assert_eq!(row.cleanup_notes.as_deref(), Some(GONE_UNSEEN_NOTE));
    assert_eq!(process.store.held(), []);
    process.passes_until(|| world.spools().is_empty()).await;
    let recording = world
        .recordings
        .versions(row.recording_key.as_deref().unwrap());
    let last = String::from_utf8(recording.last().unwrap().to_vec()).unwrap();
    assert!(last.contains("ended: ended by user"), "{last}");
}

#[tokio::test]
async fn what_another_owner_completed_is_not_written_over() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    process.end(&id).await;
    let other = process.store.another_process();
    process.store.release_lease().await.unwrap();
    other.take_or_renew_lease().await.unwrap();
    let noted = Outcome {
        notes: Some("the other owner's".to_owned()),
        ..Outcome::default()
    };
    other.note_outcome(&id, &noted).await.unwrap();
    process.pass().await;
    assert!(!process.sessions.is_at(&id), "it is nobody's debt any more");
    other.release_lease().await.unwrap();
    process.store.take_or_renew_lease().await.unwrap();
    process.sessions.pay_owed_outcome(&id).await;
    let notes = process.row(&id).cleanup_notes;
    assert_eq!(notes.as_deref(), Some("the other owner's"));
}

#[tokio::test]
async fn a_damaged_spool_is_aside_only_once_its_row_says_so() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    world.recordings.set_away(true);
    process.end(&id).await;
    let [spool] = &world.spools()[..] else {
        panic!("one spool")
    };
    fs::write(spool, "not a recording\n").unwrap();
    process.store.fail_next(Call::NoteOutcome, Fault::Away);
    let noted = || {
        process
            .store
            .calls()
            .iter()
            .filter(|call| **call == Call::NoteOutcome)
            .count()
    };
    process.passes_until(|| noted() == 2).await;
    assert!(spool.exists(), "not before the row says so");
    process.passes_until(|| !spool.exists()).await;
    let notes = process.row(&id).cleanup_notes.unwrap_or_default();
    assert!(notes.starts_with("recording damaged"), "{notes}");
}

#[tokio::test]
async fn a_torn_line_is_told_of_also_where_the_store_takes_the_rest_later() {
    let world = World::new();
    let process = world.first_process().await;
    let id = process.open().await;
    world.recordings.set_away(true);
    process.end(&id).await;
    let [spool] = &world.spools()[..] else {
        panic!("one spool")
    };
    let mut torn = OpenOptions::new().append(true).open(spool).unwrap();
    torn.write_all(b"[1.0,\"o\",\"to").unwrap();
    let notes = || process.row(&id).cleanup_notes.unwrap_or_default();
    let puts = world.recordings.puts();
    process
        .passes_until(|| world.recordings.puts() > puts)
        .await;
    assert!(notes().starts_with("recording not saved"), "{}", notes());
    world.recordings.set_away(false);
    process.passes_until(|| world.spools().is_empty()).await;
    assert_eq!(notes(), "recording cut by a torn last line of 12 bytes");
}

#[test]
fn whether_a_pod_that_is_gone_was_recycled_is_known_or_is_not_said() {
    let row = |recycled, notes: Option<&str>| Session {
        recycled,
        cleanup_notes: notes.map(str::to_owned),
        ..crate::fakes::store_contract::opened()
    };
    let tried = Some("RoleBinding not deleted: away; pod not recycled: away");
    let terminating = Some("pod is still terminating");
    let rows = [
        (Some(true), None, Past::OnRow, Some(true)),
        (Some(false), None, Past::OnRow, Some(false)),
        (None, tried, Past::OnRow, Some(true)),
        (None, terminating, Past::OnRow, Some(true)),
        (None, None, Past::Seen, Some(false)),
        (None, None, Past::OnRow, None),
        (None, Some("recording not saved"), Past::OnRow, None),
    ];
    for (number, (recycled, notes, past, expected)) in rows.into_iter().enumerate() {
        let found = recycled_before(&row(recycled, notes), past);
        assert_eq!(found, expected, "row {number}");
    }
}
