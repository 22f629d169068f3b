//! Ending a session (spec 02, "Ending").
//!
//! Invariants: only the caller whose claim moved the row to ended cleans up; an end that arrives
//! during opening cancels it and waits for it (C-10a); a deadline strikes even while the database
//! is away, and its row is completed when it is back (D-3).

use super::Sessions;
use super::runtime::{Runtime, lock};
use super::takedown::Taken;
use crate::http::caller::Caller;
use crate::http::error::{ApiError, chain};
use crate::ports::StoreError;
use crate::ports::store::{Claimed, Outcome};
use decisions::reason::EndReason;
use decisions::session::{Session, SessionId};
use decisions::transition::{End, end_by_system, end_by_user};
use std::sync::Arc;
use std::time::Duration;

/// How long the route waits for the clean-up before it answers; the clean-up goes on.
const ANSWER_WITHIN: Duration = Duration::from_secs(25);

impl Sessions {
    /// `POST /sessions/:id/end`: withdrawn, cancelled, ended by user or terminated.
    pub async fn end_for(
        self: &Arc<Self>,
        caller: &Caller,
        id: &SessionId,
    ) -> Result<Session, ApiError> {
        let session = self.load(id).await?;
        let claim = end_by_user(&session, &caller.actor, self.clock.wall())?;
        let ended = match self.store.claim_end(&claim).await? {
            Claimed::Won(ended) => *ended,
            Claimed::Lost { now_in } => return Err(ApiError::Lost { now_in }),
            Claimed::Unknown => {
                return Err(ApiError::NotFound(
                    "there is no session of this id".to_owned(),
                ));
            }
        };
        if claim.was_opened() {
            let this = Arc::clone(self);
            let closing = tokio::spawn(async move { this.close(ended).await });
            // Slow clean-up must not look like a failed end: the row says ended either way.
            let _ = tokio::time::timeout(ANSWER_WITHIN, closing).await;
        }
        self.load(id).await
    }

    /// Ends a session for a reason of the system's. Losing the claim is fine: somebody else ended
    /// it. A database that is away leaves the end owed (D-3).
    pub(crate) async fn end_by_system(&self, id: &SessionId, reason: EndReason) {
        let runtime = self.runtimes.get(id);
        match self.claim_for_system(id, &reason).await {
            Ok(Some(ended)) => self.close(ended).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(session = %id, %reason, error = %chain(&error),
                    "the end could not be claimed yet");
                if let Some(runtime) = runtime {
                    self.end_without_database(&runtime, reason).await;
                }
            }
        }
    }

    async fn claim_for_system(
        &self,
        id: &SessionId,
        reason: &EndReason,
    ) -> Result<Option<Session>, StoreError> {
        let Some(session) = self.store.get(id).await? else {
            return Ok(None);
        };
        let claim: End = match end_by_system(&session, reason.clone(), self.clock.wall()) {
            Ok(claim) => claim,
            Err(refusal) => {
                tracing::debug!(session = %id, %reason, %refusal, "nothing to end");
                return Ok(None);
            }
        };
        Ok(match self.store.claim_end(&claim).await? {
            Claimed::Won(ended) => Some(*ended),
            Claimed::Lost { .. } | Claimed::Unknown => None,
        })
    }

    /// Cleans up after a won claim, and stores the outcome.
    pub(super) async fn close(&self, ended: Session) {
        let id = ended.id.clone();
        let reason = ended.end_reason.clone().unwrap_or_default();
        tracing::info!(session = %id, reason, "session ended");
        let runtime = self.runtimes.get(&id);
        if let Some(runtime) = &runtime {
            let _one_at_a_time = runtime.ending.lock().await;
            runtime.cancelled.cancel();
            runtime.opening_is_over().await;
            let taken = self.take_down(&ended, Some(runtime), &reason).await;
            self.complete(&ended, &taken).await;
        } else {
            let taken = self.take_down(&ended, None, &reason).await;
            self.complete(&ended, &taken).await;
        }
        self.runtimes.remove(&id);
    }

    /// C-20: the outcome on the row. Where the database is away, objects stay on record and the
    /// sweep completes the row.
    pub(super) async fn complete(&self, ended: &Session, taken: &Taken) {
        let id = &ended.id;
        for uid in &taken.gone {
            if let Err(error) = self.store.forget_object(id, uid).await {
                tracing::warn!(session = %id, error = %chain(&error), "an object stays on record");
            }
        }
        for (uid, why) in &taken.kept {
            if let Err(error) = self.store.keep_object(id, uid, why).await {
                tracing::warn!(session = %id, error = %chain(&error), "an object stays on record");
            }
        }
        let notes = (!taken.notes.is_empty()).then(|| taken.notes.join("; "));
        let outcome = Outcome {
            recycled: taken.recycled,
            recording: taken.recording.clone(),
            notes,
        };
        match self.store.note_outcome(id, &outcome).await {
            Ok(()) => {
                tracing::info!(session = %id, recycled = ?taken.recycled, notes = taken.notes.len(),
                    recorded = taken.recording.is_some(), "session cleaned up");
            }
            Err(error) => {
                tracing::error!(session = %id, error = %chain(&error),
                    "the outcome is not on the row yet");
            }
        }
    }

    /// D-3: the terminal, the grant and the objects go first, from memory.
    async fn end_without_database(&self, runtime: &Arc<Runtime>, reason: EndReason) {
        let _one_at_a_time = runtime.ending.lock().await;
        if lock(&runtime.owed_end).is_some() {
            return;
        }
        runtime.cancelled.cancel();
        runtime.opening_is_over().await;
        let taken = self
            .take_down(runtime.session(), Some(runtime), &reason.to_string())
            .await;
        tracing::warn!(session = %runtime.session().id, notes = taken.notes.len(),
            "taken down while the database is away");
        *lock(&runtime.owed_end) = Some(reason);
        *lock(&runtime.owed_outcome) = Some(taken);
    }

    /// Completes an end that struck while the database was away; the sweep calls it.
    pub(crate) async fn pay_owed_end(&self, runtime: &Arc<Runtime>) {
        let Some(reason) = lock(&runtime.owed_end).clone() else {
            return;
        };
        let id = &runtime.session().id;
        match self.claim_for_system(id, &reason).await {
            Ok(Some(ended)) => {
                let taken = lock(&runtime.owed_outcome).take().unwrap_or_default();
                self.complete(&ended, &taken).await;
                self.runtimes.remove(id);
            }
            // Ended by another path meanwhile: what was taken down is on record there.
            Ok(None) => self.runtimes.remove(id),
            Err(error) => {
                tracing::warn!(session = %id, error = %chain(&error), "an end is still owed");
            }
        }
    }
}
