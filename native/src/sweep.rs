//! The loop around `decisions::sweep` (spec 05).
//!
//! Invariants: one row's failure is one row's (W-3); an end runs on its own task, so that a hung
//! cluster or store never delays another session's; only the owner of the database sweeps (W-4a).

use crate::http::error::chain;
use crate::ports::StoreError;
use crate::ports::store::{Page, Place};
use crate::sessions::{Runtime, Sessions};
use decisions::reason::EndReason;
use decisions::session::{Session, SessionId};
use decisions::sweep::{SweepAction, SweepSettings, sweep_action};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Between two sweeps.
pub const EVERY: Duration = Duration::from_secs(15);
/// Rows with leftovers that one pass takes up.
const UNSETTLED_A_PASS: u32 = 16;

/// Unfinished rows that one pass judges; the next goes on behind them (W-3).
const UNFINISHED_A_PASS: u32 = 500;

/// The sweep and what it has under way.
pub struct Sweep {
    sessions: Arc<Sessions>,
    busy: Arc<Mutex<BTreeSet<SessionId>>>,
    /// Where the next pass goes on among the unfinished rows.
    place: Mutex<Option<Place>>,
    tasks: TaskTracker,
}

impl Sweep {
    /// A sweep over these sessions.
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Self {
            sessions,
            busy: Arc::default(),
            place: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// One pass: judges the unfinished rows, as many as a pass may take, and starts what is due.
    /// Ends, checkpoints and leftovers go on in tasks of their own.
    pub async fn pass(&self) -> Result<(), StoreError> {
        self.owed();
        let place = lock(&self.place).clone();
        let unfinished = self
            .sessions
            .store
            .unfinished(place.as_ref(), UNFINISHED_A_PASS);
        let Page { rows, next } = unfinished.await?;
        *lock(&self.place) = next;
        self.ended_elsewhere(&rows);
        let settings = SweepSettings {
            resume: self.sessions.settings.resume_sessions,
        };
        for row in rows {
            let runtime = self.sessions.runtimes().get(&row.id);
            let ages = runtime
                .as_ref()
                .map(|r| r.ages(self.sessions.clock.elapsed()));
            let action = sweep_action(&row, ages, self.sessions.clock.wall(), settings);
            self.perform(row, runtime, action);
        }
        for runtime in self.sessions.doubted() {
            let sessions = Arc::clone(&self.sessions);
            self.spawn(runtime.session().id.clone(), async move {
                sessions.look_for_latecomers(&runtime).await;
            });
        }
        for row in self.sessions.store.unsettled(UNSETTLED_A_PASS).await? {
            let sessions = Arc::clone(&self.sessions);
            self.spawn(row.id.clone(), async move {
                if let Err(error) = sessions.settle_objects(&row).await {
                    tracing::warn!(session = %row.id, error = %chain(&error), "leftovers wait");
                }
            });
        }
        for cluster in self.sessions.due_for_a_look() {
            let sessions = Arc::clone(&self.sessions);
            let look = async move { sessions.look_for_leftovers(&cluster).await };
            self.tasks.spawn(look);
        }
        // Behind an end of the same session, never beside it.
        for (id, key) in self.sessions.spooled_recordings().await {
            let sessions = Arc::clone(&self.sessions);
            self.spawn(id.clone(), async move {
                sessions.settle_spooled(&id, &key).await
            });
        }
        Ok(())
    }

    /// Waits for what earlier passes started; for start-up (W-5) and tests.
    pub async fn settle(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// Sweeps until told to stop; a pass that fails is only late.
    pub async fn run(&self, stop: CancellationToken) {
        let clock = Arc::clone(&self.sessions.clock);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = clock.sleep_until(clock.elapsed() + EVERY) => {}
            }
            if let Err(error) = self.pass().await {
                tracing::warn!(error = %chain(&error), "this sweep was not done");
            }
        }
    }

    /// Sessions that run here and are not among these unfinished rows: they are another pass's, or
    /// an end was won and its answer got lost.
    fn ended_elsewhere(&self, unfinished: &[Session]) {
        for runtime in self.sessions.runtimes().all() {
            let id = runtime.session().id.clone();
            if unfinished.iter().any(|row| row.id == id) {
                continue;
            }
            let sessions = Arc::clone(&self.sessions);
            self.spawn(id, async move { sessions.close_if_ended(&runtime).await });
        }
    }

    /// Ends that struck while the database was away (D-3), and outcomes that it did not take.
    fn owed(&self) {
        for runtime in self.sessions.runtimes().all() {
            let sessions = Arc::clone(&self.sessions);
            if runtime.owes_an_end() {
                self.spawn(runtime.session().id.clone(), async move {
                    sessions.pay_owed_end(&runtime).await;
                });
            }
        }
        for id in self.sessions.owed_outcomes() {
            let sessions = Arc::clone(&self.sessions);
            self.spawn(id.clone(), async move {
                sessions.pay_owed_outcome(&id).await;
            });
        }
    }

    fn perform(&self, row: Session, runtime: Option<Arc<Runtime>>, action: SweepAction) {
        let sessions = Arc::clone(&self.sessions);
        let id = row.id;
        match action {
            SweepAction::Keep => {
                if let Some(runtime) = runtime {
                    self.spawn(id, async move { sessions.look_after(&runtime).await });
                }
            }
            SweepAction::End(reason) => {
                self.spawn(id.clone(), async move {
                    sessions.end_by_system(&id, reason).await
                });
            }
            // Taking a session up again comes later (T-11); until then it ends.
            SweepAction::ResumeOrEnd => self.spawn(id.clone(), async move {
                sessions
                    .end_by_system(&id, EndReason::BackendRestarted)
                    .await;
            }),
            SweepAction::Checkpoint => {
                if let Some(runtime) = runtime {
                    self.spawn(id, async move {
                        sessions.look_after(&runtime).await;
                        sessions.checkpoint(&runtime).await;
                    });
                }
            }
        }
    }

    /// Starts work on a session unless earlier work on it is still under way.
    fn spawn(&self, id: SessionId, work: impl Future<Output = ()> + Send + 'static) {
        if !lock(&self.busy).insert(id.clone()) {
            return;
        }
        // Also where the work panics, the next pass must find the session free.
        let busy = Busy(Arc::clone(&self.busy), id);
        self.tasks.spawn(async move {
            work.await;
            drop(busy);
        });
    }
}

struct Busy(Arc<Mutex<BTreeSet<SessionId>>>, SessionId);

impl Drop for Busy {
    fn drop(&mut self) {
        lock(&self.0).remove(&self.1);
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// What the sweep does for a session that goes on: sees that its pod is there, and keeps the
    /// row's pointer at the newest saved version of the recording.
    async fn look_after(&self, runtime: &Runtime) {
        use crate::sessions::ShellState;
        match self.look_at_shell(runtime).await {
            Ok(ShellState::PodGone) => {
                self.end_by_system(&runtime.session().id, EndReason::PodGone)
                    .await;
            }
            // The stream to it is silent, or this would be known already.
            Ok(ShellState::Exited) => {
                self.end_by_system(&runtime.session().id, EndReason::ShellExited)
                    .await;
            }
            Ok(ShellState::Running) => {}
            Err(error) => {
                tracing::debug!(session = %runtime.session().id, %error, "pod not seen");
            }
        }
        self.note_saved(runtime).await;
    }

    /// The backstop of R-4: saves what has waited for a minute.
    async fn checkpoint(&self, runtime: &Runtime) {
        let Some(recording) = runtime.recording.get() else {
            return;
        };
        if let Err(error) = recording.checkpoint().await {
            tracing::warn!(session = %runtime.session().id, error = %chain(&error),
                "a checkpoint was not saved");
        }
        self.note_saved(runtime).await;
    }

    async fn note_saved(&self, runtime: &Runtime) {
        let Some(saved) = runtime.newly_saved() else {
            return;
        };
        let id = &runtime.session().id;
        if let Err(error) = self.store.note_checkpoint(id, &saved).await {
            runtime.not_noted();
            tracing::warn!(session = %id, error = %chain(&error), "a checkpoint is not on the row");
        }
    }
}
