//! A recording while its session lives: new → live → sealed.
//!
//! Invariants: a `LiveRecording` exists only after its header is in the spool and in the store;
//! an event is in the spool when its method returns; the spool is synced within a second of the
//! first event that is not, and saved as `schedule` says, both off the caller's path; the file is
//! deleted only after the store has confirmed all of it.

use super::cast::{CastEncoder, Header};
use super::schedule::{SMALL_WITHIN, checkpoint_due_after};
use super::spool::{self, Prefix, Recovered, Spool, SpoolError};
use super::verified::verified;
use crate::ports::recordings::{Content, Location, Reading};
use crate::ports::store::SavedRecording;
use crate::ports::{Clock, Elapsed, RecordingError, Recordings};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use std::cell::RefCell;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use futures_util::StreamExt;
use std::time::Duration;

/// How long an event may be in the spool without being on the disk; the sync itself takes the
/// rest of R-4's second.
const SYNC_AFTER: Duration = Duration::from_millis(700);

/// Starts, resumes and settles recordings: the store, the spool's folder, and the clock.
#[derive(Clone)]
pub struct Recorder {
    recordings: Arc<dyn Recordings>,
    clock: Arc<dyn Clock>,
    spool_dir: PathBuf,
}

/// A recording that is in the store for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// What the row keeps of it.
    pub saved: SavedRecording,
    /// How many bytes of a torn last line were cut; the row's notes say so.
    pub cut: u64,
}

impl Recorder {
    /// A recorder with its spools in `spool_dir`, which is made when it is first needed.
    pub fn new(recordings: Arc<dyn Recordings>, clock: Arc<dyn Clock>, spool_dir: PathBuf) -> Self {
        Self {
            recordings,
            clock,
            spool_dir,
        }
    }

    /// Whether a recording could be started: the store answers (C-6, R-13).
    ///
    /// # Errors
    /// Why no session may open.
    pub async fn check(&self) -> Result<(), RecordingError> {
        self.recordings.check().await
    }

    /// Opens a saved recording by its version, after hashing it whole: not a byte of what is not
    /// what its row says is given away. What changes while it is read breaks off.
    ///
    /// # Errors
    /// It is not there, the store is away, or `Damaged`.
    pub async fn open(&self, at: &Location, sha256: &str) -> Result<Reading, RecordingError> {
        let mut checking = verified(self.recordings.get(at).await?.stream, sha256);
        while let Some(chunk) = checking.next().await {
            chunk?;
        }
        let reading = self.recordings.get(at).await?;
        Ok(Reading {
            bytes: reading.bytes,
            stream: verified(reading.stream, sha256),
        })
    }

    /// Starts a recording: its header is in the spool and in the store when this returns.
    /// What it returns is what a grant needs (C-6).
    ///
    /// # Errors
    /// The spool or the store could not take the header; no recording exists then.
    pub async fn start(&self, key: &str, header: &Header) -> Result<LiveRecording, RecordingError> {
        let line = header.line();
        let (dir, name, first) = (self.spool_dir.clone(), key.to_owned(), line.clone());
        let created = blocking(move || Spool::create(&dir, &name, &first)).await;
        let spool = created.and_then(|made| made.map_err(io::Error::other));
        let spool = spool.map_err(|source| RecordingError::Unavailable {
            why: "the spool cannot be created".to_owned(),
            source: Some(source),
        })?;
        let prefix = spool.prefix();
        let content = Content::Bytes(Bytes::from(line));
        let location = match self.recordings.put(key, content, &prefix.sha256).await {
            Ok(location) => location,
            Err(error) => {
                // There is nothing in it but a header that the store did not take.
                let _ = blocking(move || spool.remove()).await;
                return Err(error);
            }
        };
        let saved = SavedRecording {
            key: location.key,
            bucket: location.bucket,
            version: location.version,
            sha256: prefix.sha256,
            bytes: prefix.len,
        };
        Ok(self.live(key, CastEncoder::new(), spool, Duration::ZERO, Some(saved)))
    }

    /// Takes up the recording of a session that a former process left active (T-11), with a
    /// marker for the gap.
    ///
    /// # Errors
    /// `Missing`, `Busy` or `Damaged`: the session cannot go on.
    pub async fn resume(&self, key: &str) -> Result<LiveRecording, SpoolError> {
        let recovered = self.recover(key).await?;
        let wall = self.clock.wall().as_microsecond();
        let since_start = wall.saturating_sub(recovered.header.timestamp.saturating_mul(1_000_000));
        // The wall clock may have been set back; the recording's times never go back.
        let at = u64::try_from(since_start)
            .unwrap_or(0)
            .max(recovered.last_micros);
        let encoder = CastEncoder::resumed(recovered.last_micros);
        let offset = Duration::from_micros(at);
        let live = self.live(key, encoder, recovered.spool, offset, None);
        let gap = match recovered.cut {
            0 => "gap: the backend restarted".to_owned(),
            cut => format!("gap: the backend restarted, {cut} bytes of a torn line were cut"),
        };
        live.marker(self.clock.elapsed(), &gap)?;
        Ok(live)
    }

    /// Saves what a former process, or a failed end, left in the spool. Repeating it
    /// is harmless; after success there is no spool.
    ///
    /// # Errors
    /// `Ok(Err(_))` when the spool is fine and the store is not: the sweep tries again.
    pub async fn settle(&self, key: &str) -> Result<Result<Settled, RecordingError>, SpoolError> {
        let Recovered {
            spool,
            last_micros,
            cut,
            ..
        } = self.recover(key).await?;
        let encoder = CastEncoder::resumed(last_micros);
        let live = self.live(key, encoder, spool, Duration::ZERO, None);
        Ok(live.seal().await.map(|saved| Settled { saved, cut }))
    }

    /// The keys of recordings that have a spool: active ones, and those still to settle.
    ///
    /// # Errors
    /// The spool's folder could not be read.
    pub async fn spooled(&self) -> Result<Vec<String>, SpoolError> {
        let dir = self.spool_dir.clone();
        let keys = blocking(move || spool::keys(&dir))
            .await
            .and_then(|keys| keys);
        keys.map_err(|source| SpoolError::Read { source })
    }

    /// Moves a spool that `resume` or `settle` found damaged aside, so that it is tried once;
    /// returns where it is.
    ///
    /// # Errors
    /// It could not be moved.
    pub async fn move_aside(&self, key: &str) -> Result<PathBuf, SpoolError> {
        let (dir, key) = (self.spool_dir.clone(), key.to_owned());
        let moved = blocking(move || spool::move_aside(&dir, &key))
            .await
            .and_then(|moved| moved);
        moved.map_err(|source| SpoolError::Write { source })
    }

    pub(super) fn recordings(&self) -> &Arc<dyn Recordings> {
        &self.recordings
    }

    async fn recover(&self, key: &str) -> Result<Recovered, SpoolError> {
        let (dir, key) = (self.spool_dir.clone(), key.to_owned());
        blocking(move || Spool::recover(&dir, &key))
            .await
            .map_err(|source| SpoolError::Read { source })?
    }

    fn live(
        &self,
        key: &str,
        encoder: CastEncoder,
        spool: Spool,
        offset: Duration,
        saved: Option<SavedRecording>,
    ) -> LiveRecording {
        let now = self.clock.elapsed();
        let state = State {
            encoder,
            unsaved_since: saved.is_none().then_some(now),
            tried: now,
            refused: false,
            saved,
            spool,
            synced: true,
            keeping: false,
            sealed: false,
        };
        LiveRecording(Arc::new(Shared {
            recorder: self.clone(),
            key: key.to_owned(),
            started: now,
            offset,
            state: Mutex::new(state),
            failed: AtomicWaker::new(),
            saving: tokio::sync::Mutex::new(()),
        }))
    }
}

/// A recording that events can be added to. Cheap to clone; all clones are one recording.
#[derive(Clone)]
pub struct LiveRecording(Arc<Shared>);

struct Shared {
    recorder: Recorder,
    key: String,
    started: Elapsed,
    /// The recording's time at `started`: not zero where it was taken up again.
    offset: Duration,
    state: Mutex<State>,
    failed: AtomicWaker,
    /// One save at a time, in order: a later version never holds less than an earlier one.
    saving: tokio::sync::Mutex<()>,
}

struct State {
    encoder: CastEncoder,
    spool: Spool,
    saved: Option<SavedRecording>,
    /// Since when there are events that no version holds.
    unsaved_since: Option<Elapsed>,
    /// When a save was last tried.
    tried: Elapsed,
    /// Whether the store did not take it then.
    refused: bool,
    synced: bool,
    keeping: bool,
    sealed: bool,
}

thread_local! {
    /// Where a batch's lines are put together: one buffer per thread, not per session.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl LiveRecording {
    /// Records what the shell wrote (T-17: before the browser gets it). At most 64 KiB a call.
    ///
    /// # Errors
    /// It was not recorded, and the session must end.
    pub fn output(&self, at: Elapsed, bytes: &[u8]) -> Result<(), SpoolError> {
        self.add(at, |encoder, at, lines| encoder.output(at, bytes, lines))
    }

    /// Records what was typed (T-17: before the pod gets it). At most 64 KiB a call.
    ///
    /// # Errors
    /// As `output`.
    pub fn input(&self, at: Elapsed, bytes: &[u8]) -> Result<(), SpoolError> {
        self.add(at, |encoder, at, lines| encoder.input(at, bytes, lines))
    }

    /// Records a new terminal size.
    ///
    /// # Errors
    /// As `output`.
    pub fn resize(&self, at: Elapsed, cols: u16, rows: u16) -> Result<(), SpoolError> {
        self.add(at, |encoder, at, lines| {
            encoder.resize(at, cols, rows, lines)
        })
    }

    /// Records a change of the session's state: approved, attached, extended, ended…
    ///
    /// # Errors
    /// As `output`.
    pub fn marker(&self, at: Elapsed, text: &str) -> Result<(), SpoolError> {
        self.add(at, |encoder, at, lines| encoder.marker(at, text, lines))
    }

    /// The newest saved version, from the header on; what the row should point at.
    pub fn saved(&self) -> Option<SavedRecording> {
        self.0.state().saved.clone()
    }

    /// The recording's key.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// How long the oldest event that no saved version holds has been waiting; the sweep saves
    /// after 60 s. `None` when everything is saved.
    pub fn unsaved_for(&self, now: Elapsed) -> Option<Duration> {
        self.0.state().unsaved_since.map(|since| now.since(since))
    }

    /// Ready once the spool has failed, also where a sync in the background found it. One task
    /// at a time may wait.
    pub fn poll_failed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.failed.register(cx.waker());
        if self.0.state().spool.has_failed() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Saves what is recorded so far as a new version; nothing when nothing is new.
    ///
    /// # Errors
    /// The store did not take it; recording goes on.
    pub async fn checkpoint(&self) -> Result<(), RecordingError> {
        let _one_at_a_time = self.0.saving.lock().await;
        if self.0.state().sealed {
            return Ok(());
        }
        self.0.save().await.map(drop)
    }

    /// Ends the recording: nothing more is accepted, everything is saved, the spool is deleted.
    /// May be repeated until it succeeds, and after.
    ///
    /// # Errors
    /// The store did not take it; the spool is kept.
    pub async fn seal(&self) -> Result<SavedRecording, RecordingError> {
        let shared = &self.0;
        let _one_at_a_time = shared.saving.lock().await;
        shared.finish();
        if let Err(error) = shared.sync().await {
            // The store has its own copy soon; without it, the spool is all there is.
            tracing::warn!(key = shared.key, %error, "the recording's spool was not synced");
        }
        let saved = shared.save().await?;
        let this = Arc::clone(shared);
        let removed = blocking(move || this.state().spool.remove())
            .await
            .and_then(|done| done);
        if let Err(error) = removed {
            tracing::warn!(key = shared.key, %error, "a saved recording's spool was not deleted");
        }
        Ok(saved)
    }

    fn add(
        &self,
        at: Elapsed,
        encode: impl FnOnce(&mut CastEncoder, Duration, &mut Vec<u8>),
    ) -> Result<(), SpoolError> {
        let shared = &self.0;
        let mut state = shared.state();
        if state.sealed {
            return Err(SpoolError::Sealed);
        }
        shared.append(&mut state, at, encode)?;
        if !state.keeping {
            state.keeping = true;
            drop(state);
            tokio::spawn(keep(Arc::clone(shared)));
        }
        Ok(())
    }
}

impl State {
    /// After how long since the last try a checkpoint is due; a store that refused is not asked
    /// each second.
    fn save_after(&self) -> Option<Duration> {
        let saved = self.saved.as_ref().map_or(0, |saved| saved.bytes);
        let after = checkpoint_due_after(self.spool.len(), saved)?;
        Some(if self.refused {
            after.max(SMALL_WITHIN)
        } else {
            after
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not stop the recording of what goes on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(
        &self,
        state: &mut State,
        at: Elapsed,
        encode: impl FnOnce(&mut CastEncoder, Duration, &mut Vec<u8>),
    ) -> Result<(), SpoolError> {
        let time = self.offset + at.since(self.started);
        LINES.with_borrow_mut(|lines| {
            lines.clear();
            encode(&mut state.encoder, time, lines);
            if !lines.is_empty() {
                state
                    .spool
                    .append(lines)
                    .inspect_err(|_| self.failed.wake())?;
                state.synced = false;
                state.unsaved_since.get_or_insert(at);
            }
            Ok(())
        })
    }

    /// Writes what the decoders hold; nothing is accepted after it.
    fn finish(&self) {
        let mut state = self.state();
        if state.sealed {
            return;
        }
        state.sealed = true;
        let now = self.recorder.clock.elapsed();
        let flushed = self.append(&mut state, now, |encoder, at, lines| {
            encoder.finish(at, lines)
        });
        if let Err(error) = flushed {
            tracing::warn!(key = self.key, %error, "the recording's last bytes were not written");
        }
    }

    /// Puts what is not saved yet. The caller holds `saving`.
    async fn save(&self) -> Result<SavedRecording, RecordingError> {
        let now = self.recorder.clock.elapsed();
        let (path, prefix) = {
            let mut state = self.state();
            if let Some(saved) = state
                .saved
                .as_ref()
                .filter(|it| it.bytes == state.spool.len())
            {
                return Ok(saved.clone());
            }
            state.tried = now;
            (state.spool.path().to_owned(), state.spool.prefix())
        };
        let Prefix { len, sha256 } = prefix;
        let content = Content::File { path, len };
        let put = self
            .recorder
            .recordings
            .put(&self.key, content, &sha256)
            .await;
        self.state().refused = put.is_err();
        let location = put?;
        let saved = SavedRecording {
            key: location.key,
            bucket: location.bucket,
            version: location.version,
            sha256,
            bytes: len,
        };
        let mut state = self.state();
        state.unsaved_since = (state.spool.len() > len).then_some(now);
        state.saved = Some(saved.clone());
        Ok(saved)
    }

    async fn sync(&self) -> io::Result<()> {
        let file = {
            let mut state = self.state();
            if std::mem::replace(&mut state.synced, true) {
                return Ok(());
            }
            state.spool.file()
        };
        let synced = blocking(move || file.sync_data())
            .await
            .and_then(|done| done);
        if synced.is_err() {
            self.state().spool.fail();
            self.failed.wake();
        }
        synced
    }

    /// How long the keeper may sleep; `None` when there is nothing to wait for.
    fn rest(&self, now: Elapsed) -> Option<Duration> {
        let mut state = self.state();
        let save = state.save_after();
        let save = save.map(|after| after.saturating_sub(now.since(state.tried)).max(SYNC_AFTER));
        let rest = if state.synced { save } else { Some(SYNC_AFTER) };
        let rest = rest.filter(|_| !state.sealed && !state.spool.has_failed());
        state.keeping = rest.is_some();
        rest
    }

    fn save_due(&self, now: Elapsed) -> bool {
        let state = self.state();
        !state.sealed
            && state
                .save_after()
                .is_some_and(|after| now.since(state.tried) >= after)
    }
}

/// Syncs and saves while there is something to; ends with it, so that an idle recording costs
/// no task.
async fn keep(shared: Arc<Shared>) {
    let clock = Arc::clone(&shared.recorder.clock);
    while let Some(rest) = shared.rest(clock.elapsed()) {
        clock.sleep_until(clock.elapsed() + rest).await;
        if let Err(error) = shared.sync().await {
            tracing::error!(key = shared.key, %error, "the recording's spool cannot be synced");
        }
        if shared.save_due(clock.elapsed()) {
            let live = LiveRecording(Arc::clone(&shared));
            // A slow store must not delay the next sync; a save under way makes this one wait.
            if live.0.saving.try_lock().is_ok() {
                tokio::spawn(async move {
                    if let Err(error) = live.checkpoint().await {
                        tracing::warn!(key = live.key(), %error, "a checkpoint was not saved");
                    }
                });
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
