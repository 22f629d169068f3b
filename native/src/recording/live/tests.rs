use super::*;
use crate::fakes::clock::FakeClock;
use crate::fakes::recordings::FakeRecordings;
use crate::ports::{Clock, Recordings};
use crate::recording::{Header, read_event};
use bytes::Bytes;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const KEY: &str = "payments/prod/abcdefghijkl.cast";

struct World {
    clock: FakeClock,
    store: Arc<FakeRecordings>,
    recorder: Recorder,
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = FakeClock::new();
        let store = Arc::new(FakeRecordings::new());
        let recordings: Arc<dyn Recordings> = Arc::<FakeRecordings>::clone(&store);
        let recorder = Recorder::new(recordings, Arc::new(clock.clone()), dir.path().join("s"));
        Self {
            clock,
            store,
            recorder,
            dir,
        }
    }

    fn spool_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("s")
    }

    async fn started(&self) -> LiveRecording {
        self.recorder.start(KEY, &header()).await.unwrap()
    }

    /// Lets time pass in small steps, so that what waits for it runs in between.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.clock.advance(Duration::from_millis(100));
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits, with a bound, until the store holds `count` versions.
    async fn versions(&self, count: usize) -> Vec<Bytes> {
        for _ in 0..2000 {
            let versions = self.store.versions(KEY);
            if versions.len() >= count {
                return versions;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!(
            "the store holds {} versions",
            self.store.versions(KEY).len()
        );
    }
}

fn header() -> Header {
    Header {
        cols: 80,
        rows: 24,
        timestamp: 1_800_000_000,
        title: "a title".to_owned(),
        term: "xterm".to_owned(),
        shell: None,
    }
}

fn file(dir: &Path) -> Option<Vec<u8>> {
    let entry = std::fs::read_dir(dir).ok()?.next()?.ok()?;
    std::fs::read(entry.path()).ok()
}

fn last_event(bytes: &[u8]) -> crate::recording::Event {
    let text = std::str::from_utf8(bytes).unwrap();
    read_event(text.lines().last().unwrap().as_bytes()).unwrap()
}

#[tokio::test]
async fn the_header_is_in_spool_and_store_before_anything_else() {
    let world = World::new();
    let _live = world.started().await;
    assert_eq!(world.store.versions(KEY), [Bytes::from(header().line())]);
    assert_eq!(file(&world.spool_dir()), Some(header().line()));
}

#[tokio::test]
async fn no_recording_starts_while_the_store_is_away() {
    let world = World::new();
    world.store.set_away(true);
    assert!(world.recorder.check().await.is_err());
    assert!(world.recorder.start(KEY, &header()).await.is_err());
    assert_eq!(
        file(&world.spool_dir()),
        None,
        "a header that nobody has is not kept"
    );
    world.store.set_away(false);
    world.started().await;
}

#[tokio::test]
async fn an_event_is_in_the_file_when_it_counts_as_recorded() {
    let world = World::new();
    let live = world.started().await;
    live.output(world.clock.elapsed() + Duration::from_secs(2), b"hello")
        .unwrap();
    let event = last_event(&file(&world.spool_dir()).unwrap());
    assert_eq!((event.micros, event.data.as_str()), (2_000_000, "hello"));
}

#[tokio::test]
async fn sealing_saves_everything_and_discarding_deletes_the_spool() {
    let world = World::new();
    let live = world.started().await;
    live.input(world.clock.elapsed(), b"exit\xe3").unwrap();
    let saved = live.seal().await.unwrap();
    let last = world.store.versions(KEY).pop().unwrap();
    assert_eq!(saved.sha256, crate::fakes::recordings::hash(&last));
    assert_eq!(
        (saved.bytes, saved.version.as_str()),
        (last.len() as u64, "2")
    );
    assert_eq!(
        last_event(&last).data,
        "\u{fffd}",
        "what the decoder held is there"
    );
    assert!(file(&world.spool_dir()).is_some(), "the row may not know");
    assert_eq!(
        live.seal().await.unwrap(),
        saved,
        "repeating it changes nothing"
    );
    live.discard().await;
    assert_eq!(file(&world.spool_dir()), None);
    assert!(matches!(
        live.output(world.clock.elapsed(), b"late"),
        Err(SpoolError::Sealed)
    ));
}

#[tokio::test]
async fn a_recording_without_an_event_is_sealed_as_its_header() {
    let world = World::new();
    let saved = world.started().await.seal().await.unwrap();
    assert_eq!(
        (saved.version.as_str(), saved.bytes),
        ("1", header().line().len() as u64)
    );
}

#[tokio::test]
async fn a_store_that_is_away_at_the_end_leaves_the_spool() {
    let world = World::new();
    let live = world.started().await;
    live.output(world.clock.elapsed(), b"hello").unwrap();
    world.store.set_away(true);
    live.seal().await.unwrap_err();
    live.discard().await;
    let spooled = file(&world.spool_dir()).expect("what is not saved is kept");
    assert_eq!(world.recorder.spooled().await.unwrap(), [KEY]);
    drop(live);
    assert!(world.recorder.settle(KEY).await.unwrap().saved.is_err());
    world.store.set_away(false);
    let settled = world.recorder.settle(KEY).await.unwrap();
    settled.saved.unwrap();
    assert_eq!(settled.cut, 0);
    settled.live.discard().await;
    assert_eq!(world.store.versions(KEY).pop().unwrap(), spooled);
    assert!(matches!(
        world.recorder.settle(KEY).await,
        Err(SpoolError::Missing)
    ));
}

#[tokio::test]
async fn new_events_are_saved_within_ten_seconds_and_then_it_rests() {
    let world = World::new();
    let live = world.started().await;
    live.output(world.clock.elapsed(), b"hello").unwrap();
    world.pass(9).await;
    assert_eq!(
        live.unsaved_for(world.clock.elapsed()),
        Some(Duration::from_secs(9))
    );
    assert_eq!(world.store.puts(), 1);
    for _ in 0..100 {
        world.pass(1).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        if world.store.puts() == 2 {
            break;
        }
    }
    assert_eq!(last_event(&world.versions(2).await[1]).data, "hello");
    world.pass(100).await;
    assert_eq!(live.unsaved_for(world.clock.elapsed()), None);
    assert_eq!(world.store.puts(), 2, "nothing new is not saved");
}

#[tokio::test]
async fn recording_goes_on_while_the_store_is_away() {
    let world = World::new();
    let live = world.started().await;
    world.store.set_away(true);
    live.output(world.clock.elapsed(), b"one").unwrap();
    live.checkpoint().await.unwrap_err();
    live.output(world.clock.elapsed(), b"two").unwrap();
    world.store.set_away(false);
    live.checkpoint().await.unwrap();
    assert_eq!(last_event(&world.versions(2).await[1]).data, "two");
    assert_eq!(live.unsaved_for(world.clock.elapsed()), None);
}

#[tokio::test]
async fn no_checkpoint_is_saved_while_the_gate_is_shut_and_the_end_is_saved_all_the_same() {
    let mut world = World::new();
    let open = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&open);
    world.recorder = world
        .recorder
        .with_gate(Arc::new(move || asked.load(Ordering::SeqCst)));
    let live = world.started().await;
    open.store(false, Ordering::SeqCst);
    live.output(world.clock.elapsed(), b"meanwhile").unwrap();
    world.pass(61).await;
    live.checkpoint().await.unwrap();
    assert_eq!(world.store.puts(), 1, "the header alone");
    assert!(
        file(&world.spool_dir())
            .unwrap()
            .ends_with(b"meanwhile\"]\n")
    );
    assert!(live.unsaved_for(world.clock.elapsed()).is_some());

    open.store(true, Ordering::SeqCst);
    world.pass(11).await;
    assert!(world.versions(2).await[1].ends_with(b"meanwhile\"]\n"));
    open.store(false, Ordering::SeqCst);
    live.output(world.clock.elapsed(), b"the end").unwrap();
    live.seal().await.unwrap();
    assert!(world.versions(3).await[2].ends_with(b"the end\"]\n"));
}

#[tokio::test]
async fn qr10_a_spool_that_cannot_be_written_refuses_and_says_so() {
    let world = World::new();
    let live = world.started().await;
    let now = world.clock.elapsed();
    live.output(now, b"one").unwrap();
    std::fs::remove_dir_all(world.spool_dir()).unwrap();
    assert!(matches!(
        live.output(now, b"two"),
        Err(SpoolError::Write { .. })
    ));
    assert!(matches!(live.input(now, b"three"), Err(SpoolError::Failed)));
    std::future::poll_fn(|cx| live.poll_failed(cx)).await;
    live.seal().await.unwrap_err();
}

#[tokio::test]
async fn a_session_is_taken_up_with_a_marker_for_the_gap() {
    let world = World::new();
    let live = world.started().await;
    let shift = Duration::from_secs(5);
    live.output(world.clock.elapsed() + shift, b"before")
        .unwrap();
    assert!(matches!(
        world.recorder.resume(KEY).await,
        Err(SpoolError::Busy)
    ));
    drop(live);
    world.clock.advance(Duration::from_secs(30));
    // The keeper of the first life holds the file until its sync is done.
    let resumed = loop {
        match world.recorder.resume(KEY).await {
            Err(SpoolError::Busy) => world.pass(1).await,
            resumed => break resumed.unwrap().live,
        }
    };
    let event = last_event(&file(&world.spool_dir()).unwrap());
    assert_eq!(
        (event.code.as_str(), event.data.as_str()),
        ("m", "gap: the backend restarted")
    );
    assert!(event.micros >= 30_000_000, "{event:?}");
    resumed.output(world.clock.elapsed(), b"after").unwrap();
    resumed.seal().await.unwrap();
    let last = world.store.versions(KEY).pop().unwrap();
    let text = String::from_utf8(last.to_vec()).unwrap();
    assert!(text.contains("before") && text.contains("after"), "{text}");
}

#[tokio::test]
async fn times_stay_in_order_when_the_wall_clock_was_set_back_before_a_resume() {
    let world = World::new();
    let live = world.started().await;
    live.marker(world.clock.elapsed() + Duration::from_secs(9), "late")
        .unwrap();
    world.pass(12).await;
    drop(live);
    world.clock.jump_wall(jiff::SignedDuration::from_hours(-3));
    let resumed = loop {
        match world.recorder.resume(KEY).await {
            Err(SpoolError::Busy) => world.pass(1).await,
            resumed => break resumed.unwrap(),
        }
    };
    assert_eq!(
        last_event(&file(&world.spool_dir()).unwrap()).micros,
        9_000_000
    );
    drop(resumed);
}

#[tokio::test]
async fn a_spool_that_is_missing_is_said_to_be() {
    let world = World::new();
    assert!(matches!(
        world.recorder.resume(KEY).await,
        Err(SpoolError::Missing)
    ));
    assert!(matches!(
        world.recorder.settle(KEY).await,
        Err(SpoolError::Missing)
    ));
}

#[tokio::test]
async fn a_saved_recording_is_opened_only_if_it_is_what_its_row_says() {
    use futures_util::StreamExt;
    let world = World::new();
    let saved = world.started().await.seal().await.unwrap();
    let SavedRecording {
        key,
        bucket,
        version,
        sha256,
        ..
    } = saved;
    let at = crate::ports::recordings::Location {
        key,
        bucket,
        version,
    };
    let reading = world.recorder.open(&at, &sha256).await.unwrap();
    let pieces: Vec<_> = reading.stream.collect().await;
    assert_eq!(pieces[0].as_ref().unwrap(), &header().line());
    let other = crate::fakes::recordings::hash(b"another");
    assert!(matches!(
        world.recorder.open(&at, &other).await,
        Err(RecordingError::Damaged)
    ));
}
