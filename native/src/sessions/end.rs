//! Ending a session (spec 02, "Ending").
//!
//! Invariants: only the caller whose claim moved the row to ended cleans up; an end that arrives
//! during opening cancels it and waits for it (C-10a); a deadline strikes even while the database
//! is away, and its row is completed when it is back (D-3). What an end achieved is in
//! `outcome.rs`.

use super::Sessions;
use super::runtime::{Runtime, lock};
use crate::http::caller::Caller;
use crate::http::error::{ApiError, chain};
use crate::ports::StoreError;
use crate::ports::store::Claimed;
use decisions::reason::EndReason;
use decisions::session::{Session, SessionId, State};
use decisions::transition::{End, end_by_system, end_by_user};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

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
        // A task of its own: a caller that hangs up must not leave a won end without clean-up.
        let (this, claim) = (Arc::clone(self), claim);
        let (claimed, answer) = oneshot::channel();
        let closing = tokio::spawn(async move {
            let outcome = this.store.claim_end(&claim).await;
            let ended = match &outcome {
                Ok(Claimed::Won(ended)) => Some(ended.clone()),
                Ok(Claimed::Lost { .. } | Claimed::Unknown) | Err(_) => None,
            };
            // Nobody listens where the caller hung up.
            let _ = claimed.send(outcome);
            if let Some(ended) = ended.filter(|_| claim.was_opened()) {
                this.close(*ended).await;
            }
        });
        match answer.await {
            Ok(Ok(Claimed::Won(_))) => {}
            Ok(Ok(Claimed::Lost { now_in })) => return Err(ApiError::Lost { now_in }),
            Ok(Ok(Claimed::Unknown)) => {
                return Err(ApiError::NotFound(
                    "there is no session of this id".to_owned(),
                ));
            }
            // Whether the row ended is unknown; the sweep closes it if it did.
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(ApiError::Unavailable("the end broke off".to_owned())),
        }
        // Slow clean-up must not look like a failed end: the row says ended either way.
        let _ = tokio::time::timeout(ANSWER_WITHIN, closing).await;
        self.load(id).await
    }

    /// Ends a session for a reason of the system's, and waits for the clean-up for so long; it
    /// goes on in any case.
    pub(super) async fn end_within(
        self: &Arc<Self>,
        id: &SessionId,
        reason: EndReason,
        within: Duration,
    ) {
        let (this, id) = (Arc::clone(self), id.clone());
        let ending = tokio::spawn(async move { this.end_by_system(&id, reason).await });
        let _ = tokio::time::timeout(within, ending).await;
    }

    /// Ends a session for a reason of the system's. Losing the claim is fine: somebody else ended
    /// it. A database that is away leaves the end owed (D-3).
    pub(crate) async fn end_by_system(&self, id: &SessionId, reason: EndReason) {
        let error = match self.claim_for_system(id, &reason).await {
            Ok(Some(ended)) => return self.close(ended).await,
            Ok(None) => return,
            Err(error) => error,
        };
        tracing::warn!(session = %id, %reason, error = %chain(&error),
            "the end could not be claimed yet");
        let Some(runtime) = self.runtimes.get(id) else {
            return;
        };
        match error {
            StoreError::NotOwner => self.close_terminal(&runtime, &reason).await,
            StoreError::Away(_) | StoreError::Unreadable { .. } => {
                self.end_without_database(&runtime, reason).await;
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
    pub(crate) async fn close(&self, ended: Session) {
        let id = ended.id.clone();
        let reason = ended.end_reason.clone().unwrap_or_default();
        let runtime = self.runtimes.get(&id);
        if let Some(runtime) = &runtime {
            let _one_at_a_time = runtime.ending.lock().await;
            if runtime.closed.swap(true, Ordering::SeqCst) {
                return;
            }
            tracing::info!(session = %id, reason, "session ended");
            runtime.cancelled.cancel();
            runtime.opening_is_over().await;
            let taken = self.take_down(&ended, Some(runtime), &reason).await;
            self.complete(&id, taken).await;
        } else {
            tracing::info!(session = %id, reason, "session ended");
            let taken = self.take_down(&ended, None, &reason).await;
            self.complete(&id, taken).await;
        }
        self.runtimes.remove(&id);
    }

    async fn close_terminal(&self, runtime: &Runtime, reason: &EndReason) {
        if let Some(terminal) = runtime.terminal.get() {
            terminal.end(&reason.to_string(), Duration::ZERO).await;
        }
    }

    /// D-3: for a deadline, and for what must not go on, the terminal, the objects and the grant go
    /// first, from memory. For any other reason the terminal is closed and the end is owed.
    async fn end_without_database(&self, runtime: &Arc<Runtime>, reason: EndReason) {
        let _one_at_a_time = runtime.ending.lock().await;
        if runtime.owes_an_end() || runtime.closed.load(Ordering::SeqCst) {
            return;
        }
        runtime.cancelled.cancel();
        runtime.opening_is_over().await;
        let must_go = matches!(
            reason,
            EndReason::Expired | EndReason::NotRecorded | EndReason::FailedToStart(_)
        );
        if must_go {
            let session = runtime.session();
            let taken = self
                .take_down(session, Some(runtime), &reason.to_string())
                .await;
            tracing::warn!(session = %session.id, notes = taken.notes.len(),
                "taken down while the database is away");
            *lock(&runtime.owed_outcome) = Some(taken);
        } else {
            self.close_terminal(runtime, &reason).await;
        }
        *lock(&runtime.owed_end) = Some(reason);
    }

    /// Completes an end that struck while the database was away; the sweep calls it.
    pub(crate) async fn pay_owed_end(&self, runtime: &Arc<Runtime>) {
        let Some(reason) = lock(&runtime.owed_end).clone() else {
            return;
        };
        let id = &runtime.session().id;
        let ended = match self.claim_for_system(id, &reason).await {
            Ok(Some(ended)) => Some(ended),
            // Claimed already: by an answer that got lost, or by another path.
            Ok(None) => match self.store.get(id).await {
                Ok(row) => row.filter(|row| row.state == State::Ended),
                Err(error) => {
                    tracing::warn!(session = %id, error = %chain(&error), "an end is still owed");
                    return;
                }
            },
            Err(error) => {
                tracing::warn!(session = %id, error = %chain(&error), "an end is still owed");
                return;
            }
        };
        let Some(ended) = ended else { return };
        let outcome = lock(&runtime.owed_outcome).take();
        match outcome {
            Some(taken) => {
                let _one_at_a_time = runtime.ending.lock().await;
                if !runtime.closed.swap(true, Ordering::SeqCst) {
                    self.complete(id, taken).await;
                }
                self.runtimes.remove(id);
            }
            None => self.close(ended).await,
        }
    }

    /// A session that runs here and whose row says ended: an end whose answer got lost. Its
    /// clean-up is this process's.
    pub(crate) async fn close_if_ended(&self, runtime: &Arc<Runtime>) {
        match self.store.get(&runtime.session().id).await {
            Ok(Some(row)) if row.state == State::Ended => self.close(row).await,
            Ok(_) | Err(_) => {}
        }
    }
}
