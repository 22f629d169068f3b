//! What this process holds of a session while it is open (C-3).
//!
//! Invariant: a session that has touched a cluster from this process has a runtime here until its
//! end is complete; its deadline is kept on the clock that never jumps (W-4).

use super::outcome::Taken;
use crate::ports::Elapsed;
use crate::ports::cluster::{ClusterError, MadeObject};
use crate::ports::store::SavedRecording;
use crate::recording::LiveRecording;
use crate::terminal::TerminalHandle;
use decisions::reason::EndReason;
use decisions::session::{Session, SessionId};
use decisions::sweep::RuntimeAges;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How far a session's opening is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Steps of the opening are under way.
    Opening,
    /// The shell runs.
    Open,
    /// Nothing more will be made in the cluster.
    Settled,
}

/// One open session.
pub struct Runtime {
    session: Session,
    asked_uid: Option<String>,
    started: Elapsed,
    deadline: Mutex<Elapsed>,
    /// Set by an end that arrives during opening (C-10a).
    pub(crate) cancelled: CancellationToken,
    /// Set when another process took the session over (D-5): nothing more is done for it here.
    pub(crate) abandoned: CancellationToken,
    phase: watch::Sender<Phase>,
    pub(crate) recording: OnceLock<LiveRecording>,
    pub(crate) terminal: OnceLock<TerminalHandle>,
    objects: Mutex<Vec<MadeObject>>,
    /// Something was asked for, and whether the cluster did it is unknown (C-10a).
    in_doubt: AtomicBool,
    /// An end that struck while the database was away: claimed when it is back (D-3).
    pub(crate) owed_end: Mutex<Option<EndReason>>,
    /// What that end achieved already.
    pub(crate) owed_outcome: Mutex<Option<Taken>>,
    /// The recording's version that the row points at.
    noted_version: Mutex<Option<String>>,
    /// Whether its end is complete.
    pub(crate) closed: AtomicBool,
    /// One end at a time does the work.
    pub(crate) ending: tokio::sync::Mutex<()>,
}

impl Runtime {
    /// `asked_uid` is the pod's UID when the session was asked for.
    pub(crate) fn new(session: Session, now: Elapsed, asked_uid: Option<String>) -> Arc<Self> {
        let granted = u64::from(session.duration_minutes).saturating_mul(60);
        Arc::new(Self {
            session,
            asked_uid,
            started: now,
            deadline: Mutex::new(now + std::time::Duration::from_secs(granted)),
            cancelled: CancellationToken::new(),
            abandoned: CancellationToken::new(),
            phase: watch::Sender::new(Phase::Opening),
            recording: OnceLock::new(),
            terminal: OnceLock::new(),
            objects: Mutex::new(Vec::new()),
            in_doubt: AtomicBool::new(false),
            owed_end: Mutex::new(None),
            owed_outcome: Mutex::new(None),
            noted_version: Mutex::new(None),
            closed: AtomicBool::new(false),
            ending: tokio::sync::Mutex::new(()),
        })
    }

    /// The row as it was when it became active.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The pod's UID when the session was asked for.
    pub(crate) fn asked_uid(&self) -> Option<&str> {
        self.asked_uid.as_deref()
    }

    /// When it is over.
    pub fn deadline(&self) -> Elapsed {
        *lock(&self.deadline)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// How far the opening is.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits until nothing more will be made in the cluster by the opening.
    pub(crate) async fn opening_is_over(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Opening).await;
    }

    pub(crate) fn made(&self, object: MadeObject) {
        let mut objects = lock(&self.objects);
        if !objects.contains(&object) {
            objects.push(object);
        }
    }

    pub(crate) fn objects(&self) -> Vec<MadeObject> {
        lock(&self.objects).clone()
    }

    /// Notes where a step left it open whether the cluster did what it was asked for.
    pub(crate) fn note_doubt<T>(&self, outcome: &Result<T, ClusterError>) {
        if matches!(
            outcome,
            Err(ClusterError::Away { .. } | ClusterError::Unexpected { .. })
        ) {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
    }

    /// Whether something may still land in the cluster.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// The ages that the sweep judges (spec 05).
    pub fn ages(&self, now: Elapsed) -> RuntimeAges {
        let past_deadline = now >= self.deadline();
        let unsaved_for = self
            .recording
            .get()
            .and_then(|recording| recording.unsaved_for(now));
        match self.terminal.get() {
            Some(terminal) => {
                let ages = terminal.ages(now);
                RuntimeAges {
                    detached_for: ages.detached_for,
                    idle_for: ages.idle_for,
                    unsaved_for,
                    past_deadline,
                }
            }
            // Opening: nobody can have attached yet, and the opening has bounds of its own.
            None => RuntimeAges {
                detached_for: None,
                idle_for: std::time::Duration::ZERO,
                unsaved_for,
                past_deadline,
            },
        }
    }

    /// Whether an end struck here that the row does not know of (D-3).
    pub(crate) fn owes_an_end(&self) -> bool {
        lock(&self.owed_end).is_some()
    }

    /// The newest saved version of the recording, if the row does not have it yet.
    pub(crate) fn newly_saved(&self) -> Option<SavedRecording> {
        let saved = self.recording.get()?.saved()?;
        let mut noted = lock(&self.noted_version);
        if noted.as_ref() == Some(&saved.version) {
            return None;
        }
        *noted = Some(saved.version.clone());
        Some(saved)
    }

    /// The row did not take what `newly_saved` gave.
    pub(crate) fn not_noted(&self) {
        *lock(&self.noted_version) = None;
    }

    /// How long it has been open.
    pub fn age(&self, now: Elapsed) -> std::time::Duration {
        now.since(self.started)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sessions of this process.
#[derive(Default)]
pub struct Runtimes(Mutex<BTreeMap<SessionId, Arc<Runtime>>>);

impl Runtimes {
    pub(crate) fn register(&self, runtime: Arc<Runtime>) {
        lock(&self.0).insert(runtime.session.id.clone(), runtime);
    }

    pub(crate) fn remove(&self, id: &SessionId) {
        lock(&self.0).remove(id);
    }

    /// One session, if it runs here.
    pub fn get(&self, id: &SessionId) -> Option<Arc<Runtime>> {
        lock(&self.0).get(id).cloned()
    }

    /// Every session that runs here.
    pub fn all(&self) -> Vec<Arc<Runtime>> {
        lock(&self.0).values().cloned().collect()
    }
}
