//! What an end or a later try achieved, and the way of that onto the row (C-20).
//!
//! Invariants: what was seen is written, or owed until it is: nothing else is tried at a session
//! while its outcome is owed, since a second look would find the work done and not who did it.
//! What the row must know first comes last: the spool goes, and objects off the record. An outcome
//! is owed in memory: a restart, or another owner (D-5), begins from what is on record.

use super::runtime::lock;
use super::takedown::{POD_NOTE, TERMINATING_NOTE};
use super::{Sessions, notes};
use crate::http::error::chain;
use crate::ports::StoreError;
use crate::ports::store::{Outcome, SavedRecording};
use crate::recording::LiveRecording;
use decisions::session::{Session, SessionId};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Said where a pod is gone, and nothing tells whether an end did that.
pub(super) const GONE_UNSEEN_NOTE: &str =
    "the pod is gone, and whether this session's end deleted it is not known";

/// What an end achieved.
#[derive(Debug, Default, Clone)]
pub(crate) struct Taken {
    /// Column `recycled`; `None` leaves it as it is.
    pub recycled: Option<bool>,
    /// The saved recording, if it is.
    pub recording: Option<SavedRecording>,
    /// Its spool, which is kept until the row names the saved recording.
    pub spool: Option<LiveRecording>,
    /// The sessions became another owner's meanwhile (D-5).
    pub broken_off: bool,
    /// What could not be done, or why something was skipped.
    pub notes: Vec<String>,
    /// UIDs of objects that are gone.
    pub gone: Vec<String>,
    /// UIDs of objects that were left in place on purpose, and why.
    pub kept: Vec<(String, String)>,
}

/// What is known of earlier tries at a session's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// The session opened in this process, and this is its end: there was none.
    Seen,
    /// Only what is on the row: another process may have been at it, and died before it could say.
    OnRow,
}

/// Column `recycled` for a pod that is gone before this try did anything; `None` where nobody can
/// know.
pub(super) fn recycled_before(session: &Session, past: Past) -> Option<bool> {
    let notes = session.cleanup_notes.as_deref().unwrap_or_default();
    // Asked for by an earlier try: accepted, or with an answer that got lost.
    let was_tried = [TERMINATING_NOTE, POD_NOTE]
        .iter()
        .any(|note| notes.contains(note));
    match (session.recycled, past) {
        (Some(true), _) => Some(true),
        (Some(false) | None, _) if was_tried => Some(true),
        (Some(false), _) | (None, Past::Seen) => Some(false),
        (None, Past::OnRow) => None,
    }
}

/// Outcomes that could not be written yet, of sessions whose rows have ended.
#[derive(Default)]
pub(super) struct Owed(Mutex<BTreeMap<SessionId, Taken>>);

impl Sessions {
    /// Whether this process has work of its own at a session: it runs here, or its outcome is owed.
    pub(super) fn is_at(&self, id: &SessionId) -> bool {
        self.runtimes.get(id).is_some() || lock(&self.owed.0).contains_key(id)
    }

    /// The ended sessions whose outcome is owed.
    pub(crate) fn owed_outcomes(&self) -> Vec<SessionId> {
        lock(&self.owed.0).keys().cloned().collect()
    }

    /// The sessions are another owner's, who goes by what is on record (D-5).
    pub(crate) fn owes_nothing(&self) {
        lock(&self.owed.0).clear();
    }

    /// Writes what an end achieved onto its ended row, or owes it. An end that broke off is the
    /// new owner's to complete (D-5).
    pub(super) async fn complete(&self, id: &SessionId, mut taken: Taken) {
        if taken.broken_off {
            tracing::warn!(session = %id, "the end is another sidecar's to complete");
            return;
        }
        if self.is_owed_still(id, &mut taken).await {
            lock(&self.owed.0).insert(id.clone(), taken);
        }
    }

    /// One more try at an owed outcome; the sweep calls it.
    pub(crate) async fn pay_owed_outcome(&self, id: &SessionId) {
        // It stays owed meanwhile, so that nothing else is tried at the session.
        let owed = lock(&self.owed.0).get(id).cloned();
        let Some(mut taken) = owed else { return };
        if !self.is_owed_still(id, &mut taken).await {
            lock(&self.owed.0).remove(id);
        }
    }

    async fn is_owed_still(&self, id: &SessionId, taken: &mut Taken) -> bool {
        let written = self.tenure.within(self.write(id, taken)).await;
        match written {
            Ok(Ok(())) => false,
            Ok(Err(error @ (StoreError::Away(_) | StoreError::Unreadable { .. }))) => {
                tracing::error!(session = %id, error = %chain(&error),
                    "the outcome is not on the row yet; it is owed");
                true
            }
            Ok(Err(StoreError::NotOwner)) | Err(_) => {
                tracing::warn!(session = %id, "the end is another sidecar's to complete");
                false
            }
        }
    }

    /// Each step is safe to repeat; one that fails leaves those behind it for the next try.
    async fn write(&self, id: &SessionId, taken: &mut Taken) -> Result<(), StoreError> {
        let outcome = Outcome {
            recycled: taken.recycled,
            recording: taken.recording.clone(),
            notes: notes::joined(&taken.notes),
        };
        self.store.note_outcome(id, &outcome).await?;
        tracing::info!(session = %id, recycled = ?taken.recycled, notes = taken.notes.len(),
            recorded = taken.recording.is_some(), "session cleaned up");
        if let Some(spool) = taken.spool.take() {
            spool.discard().await;
        }
        for uid in &taken.gone {
            self.store.forget_object(id, uid).await?;
        }
        for (uid, why) in &taken.kept {
            self.store.keep_object(id, uid, why).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
