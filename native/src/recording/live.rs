//! A recording while its session lives: new → live → sealed.
//!
//! Invariants: a `LiveRecording` exists only after its header is in the spool and in the store;
//! an event is in the spool when its method returns; the spool is synced within a second of the
//! first event that is not, and saved as `schedule` says, both off the caller's path; the file is
//! deleted only after the store has confirmed all of it, and when it is told that the row knows.

use super::cast::CastEncoder;
use super::recorder::{Recorder, blocking};
use super::schedule::{SMALL_WITHIN, checkpoint_due_after};
use super::spool::{Prefix, Spool, SpoolError};
use crate::ports::recordings::Content;
use crate::ports::store::SavedRecording;
use crate::ports::{Elapsed, RecordingError};
use futures_util::task::AtomicWaker;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long an event may be in the spool without being on the disk; the sync itself takes the
/// rest of R-4's second.
const SYNC_AFTER: Duration = Duration::from_millis(700);

/// A recording that events can be added to. Cheap to clone; all clones are one recording.
#[derive(Clone)]
pub struct LiveRecording(Arc<Shared>);

impl fmt::Debug for LiveRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveRecording({})", self.0.key)
    }
}

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

/// What a recording goes on from: a new spool or a former one.
pub(super) struct Beginning {
    pub(super) encoder: CastEncoder,
    pub(super) spool: Spool,
    /// The recording's time at this moment.
    pub(super) offset: Duration,
    /// The newest version in the store, if it is known.
    pub(super) saved: Option<SavedRecording>,
}

thread_local! {
    /// Where a batch's lines are put together: one buffer per thread, not per session.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl LiveRecording {
    pub(super) fn begin(recorder: &Recorder, key: &str, from: Beginning) -> Self {
        let now = recorder.clock.elapsed();
        let Beginning {
            encoder,
            spool,
            offset,
            saved,
        } = from;
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
        Self(Arc::new(Shared {
            recorder: recorder.clone(),
            key: key.to_owned(),
            started: now,
            offset,
            state: Mutex::new(state),
            failed: AtomicWaker::new(),
            saving: tokio::sync::Mutex::new(()),
        }))
    }

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

    /// Records a change of the session's state: attached, extended, ended…
    ///
    /// # Errors
    /// As `output`.
    pub fn marker(&self, at: Elapsed, text: &str) -> Result<(), SpoolError> {
        self.add(at, |encoder, at, lines| encoder.marker(at, text, lines))
    }

    /// The newest version in the store.
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

    /// Saves what is recorded so far as a new version; nothing when nothing is new, or when no
    /// checkpoint may be saved at this moment (D-5).
    ///
    /// # Errors
    /// The store did not take it; recording goes on.
    pub async fn checkpoint(&self) -> Result<(), RecordingError> {
        let _one_at_a_time = self.0.saving.lock().await;
        if self.0.state().sealed {
            return Ok(());
        }
        if !(self.0.recorder.may_checkpoint)() {
            // As if tried: the next one is due as long after as ever.
            self.0.state().tried = self.0.recorder.clock.elapsed();
            return Ok(());
        }
        self.0.save().await.map(drop)
    }

    /// Ends the recording: nothing more is accepted, and everything is saved. The spool stays until
    /// `discard`. May be repeated until it succeeds, and after.
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
        shared.save().await
    }

    /// Deletes the spool of a sealed recording: only once the row names the saved version.
    pub async fn discard(&self) {
        let shared = &self.0;
        let _after_saving = shared.saving.lock().await;
        let this = Arc::clone(shared);
        let removed = blocking(move || {
            let state = this.state();
            match state.sealed && state.unsaved_since.is_none() {
                true => state.spool.remove(),
                false => Err(io::Error::other("not all of it is saved")),
            }
        });
        if let Err(error) = removed.await.and_then(|done| done) {
            tracing::warn!(key = shared.key, %error, "a saved recording's spool was not deleted");
        }
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
        let put = self.recorder.put(&self.key, content, &sha256).await;
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

#[cfg(test)]
mod tests;
