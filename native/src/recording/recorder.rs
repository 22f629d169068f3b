//! Where recordings start, are taken up again, and are settled.
//!
//! Invariants: a `LiveRecording` exists only after its header is in the spool and in the store;
//! what a former process left is saved whole or said to be cut.

use super::cast::{CastEncoder, Header};
use super::live::{Beginning, LiveRecording};
use super::spool::{self, Recovered, Spool, SpoolError};
use super::verified::verified;
use crate::ports::recordings::{Content, Location, Reading};
use crate::ports::store::SavedRecording;
use crate::ports::{Clock, RecordingError, Recordings};
use bytes::Bytes;
use futures_util::StreamExt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the store has to answer a put.
const PUT_WITHIN: Duration = Duration::from_secs(30);
/// Bytes a second that are waited for beside that: a large recording takes its time.
const SLOWEST: u64 = 1 << 20;

/// Starts, resumes and settles recordings: the store, the spool's folder, and the clock.
#[derive(Clone)]
pub struct Recorder {
    pub(super) recordings: Arc<dyn Recordings>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) may_checkpoint: Gate,
    spool_dir: PathBuf,
}

/// Whether a checkpoint may be saved at this moment.
pub type Gate = Arc<dyn Fn() -> bool + Send + Sync>;

/// A recording that was left in the spool, after a try to save it.
#[derive(Debug)]
pub struct Settled {
    /// What the row keeps of it; an error where the store did not take it, while the spool is
    /// fine: the sweep tries again.
    pub saved: Result<SavedRecording, RecordingError>,
    /// How many bytes of a torn last line were cut; the row's notes say so.
    pub cut: u64,
    /// Sealed; its spool is to be discarded once the row says so.
    pub live: LiveRecording,
}

/// A recording that a former process left, taken up.
#[derive(Debug)]
pub struct Resumed {
    /// It goes on from here.
    pub live: LiveRecording,
    /// How many bytes of a torn last line were cut.
    pub cut: u64,
}

impl Recorder {
    /// A recorder with its spools in `spool_dir`, which is made when it is first needed.
    pub fn new(recordings: Arc<dyn Recordings>, clock: Arc<dyn Clock>, spool_dir: PathBuf) -> Self {
        Self {
            recordings,
            clock,
            may_checkpoint: Arc::new(|| true),
            spool_dir,
        }
    }

    /// The same, asking before each checkpoint: where the answer is no, it is left to a later one
    /// and the spool goes on (D-5). What is sealed is saved in any case.
    #[must_use]
    pub fn with_gate(self, may_checkpoint: Gate) -> Self {
        Self {
            may_checkpoint,
            ..self
        }
    }

    /// Whether a recording could be started: a spool can be written and the store answers (C-6,
    ///
    ///
    /// # Errors
    /// Why no session may open.
    pub async fn check(&self) -> Result<(), RecordingError> {
        let dir = self.spool_dir.clone();
        let probed = blocking(move || spool::check(&dir)).await;
        probed
            .and_then(|done| done)
            .map_err(|source| RecordingError::Unavailable {
                why: format!("the spool's folder cannot be written: {source}"),
                source: Some(source),
            })?;
        self.recordings.check().await
    }

    /// Puts into the store within a bound: a store that hangs is one that is away, and neither an
    /// opening nor an end waits for it for good.
    pub(super) async fn put(
        &self,
        key: &str,
        content: Content,
        sha256: &str,
    ) -> Result<Location, RecordingError> {
        let bytes = match &content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File { len, .. } => *len,
        };
        let bound = PUT_WITHIN + Duration::from_secs(bytes / SLOWEST);
        let late = self.clock.sleep_until(self.clock.elapsed() + bound);
        tokio::select! {
            biased;
            put = self.recordings.put(key, content, sha256) => put,
            () = late => Err(RecordingError::Unavailable {
                why: format!("the store did not answer within {} s", bound.as_secs()),
                source: None,
            }),
        }
    }

    /// Opens a saved recording by its version, after hashing it whole: what is not what its row
    /// says is refused before a byte of it is given away. What changes between the two
    /// readings breaks off with `Damaged`.
    ///
    /// # Errors
    /// It is not there, is `Damaged`, or the store is away.
    pub async fn open(&self, at: &Location, sha256: &str) -> Result<Reading, RecordingError> {
        let mut checked = verified(self.recordings.get(at).await?.stream, sha256);
        while let Some(piece) = checked.next().await {
            piece?;
        }
        let Reading { bytes, stream } = self.recordings.get(at).await?;
        Ok(Reading {
            bytes,
            stream: verified(stream, sha256),
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
        let location = match self.put(key, content, &prefix.sha256).await {
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
        let (encoder, offset, saved) = (CastEncoder::new(), Duration::ZERO, Some(saved));
        Ok(LiveRecording::begin(
            self,
            key,
            Beginning {
                encoder,
                spool,
                offset,
                saved,
            },
        ))
    }

    /// Takes up the recording of a session that a former process left active, to go on (T-11) or to
    /// end it, with a marker for the gap.
    ///
    /// # Errors
    /// `Missing`, `Busy` or `Damaged`: the session cannot go on. `Write`: nothing can be added.
    pub async fn resume(&self, key: &str) -> Result<Resumed, SpoolError> {
        let recovered = self.recover(key).await?;
        let wall = self.clock.wall().as_microsecond();
        let since_start = wall.saturating_sub(recovered.header.timestamp.saturating_mul(1_000_000));
        // The wall clock may have been set back; the recording's times never go back.
        let at = u64::try_from(since_start)
            .unwrap_or(0)
            .max(recovered.last_micros);
        let encoder = CastEncoder::resumed(recovered.last_micros);
        let offset = Duration::from_micros(at);
        let from = Beginning {
            encoder,
            spool: recovered.spool,
            offset,
            saved: None,
        };
        let live = LiveRecording::begin(self, key, from);
        let cut = recovered.cut;
        let gap = match cut {
            0 => "gap: the backend restarted".to_owned(),
            cut => format!("gap: the backend restarted, {cut} bytes of a torn line were cut"),
        };
        live.marker(self.clock.elapsed(), &gap)?;
        Ok(Resumed { live, cut })
    }

    /// Saves what a former process, or a failed end, left in the spool. Repeating it
    /// is harmless; the spool stays until it is discarded.
    ///
    /// # Errors
    /// The spool is not there, is another's, or is damaged.
    pub async fn settle(&self, key: &str) -> Result<Settled, SpoolError> {
        let Recovered {
            spool,
            last_micros,
            cut,
            ..
        } = self.recover(key).await?;
        let encoder = CastEncoder::resumed(last_micros);
        let from = Beginning {
            encoder,
            spool,
            offset: Duration::ZERO,
            saved: None,
        };
        let live = LiveRecording::begin(self, key, from);
        let saved = live.seal().await;
        Ok(Settled { saved, cut, live })
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

    async fn recover(&self, key: &str) -> Result<Recovered, SpoolError> {
        let (dir, key) = (self.spool_dir.clone(), key.to_owned());
        blocking(move || Spool::recover(&dir, &key))
            .await
            .map_err(|source| SpoolError::Read { source })?
    }
}

/// Runs what blocks off the runtime's workers.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
