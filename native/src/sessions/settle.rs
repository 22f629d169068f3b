//! What ended sessions still hold: objects in clusters and unsaved recordings (C-23, R-6).
//!
//! Invariants: nothing local is deleted before the store confirmed it; a kept pod is watched, not
//! removed; each call is one try, and the sweep comes again.

use super::outcome::{Past, Taken};
use super::takedown::{GRANT_NOTE, MARK_NOTE, POD_NOTE, RECORDING_NOTE, TERMINATING_NOTE, Work};
use super::{Sessions, notes, recording_key, session_of_key};
use crate::http::error::chain;
use crate::ports::StoreError;
use crate::ports::cluster::{MadeObject, ObjectKind, PodRef};
use crate::ports::store::{HeldObject, Outcome};
use crate::recording::{Settled, SpoolError};
use decisions::session::{Session, SessionId, State};

impl Sessions {
    /// One more try at the objects of an ended session.
    pub(crate) async fn settle_objects(&self, session: &Session) -> Result<(), StoreError> {
        if self.is_at(&session.id) {
            return Ok(()); // its own end is at it
        }
        let held = self.store.objects(&session.id).await?;
        let Ok(cluster) = self.cluster(&session.cluster) else {
            return Ok(());
        };
        let mut taken = Taken::default();
        let (kept, rest): (Vec<HeldObject>, Vec<HeldObject>) =
            held.into_iter().partition(|held| held.kept.is_some());
        for HeldObject { object, .. } in kept {
            let pod = PodRef {
                namespace: object.namespace,
                name: object.name,
                uid: Some(object.uid.clone()),
            };
            if object.kind == ObjectKind::LivePod
                && matches!(cluster.read_pod(&pod).await, Ok(None))
            {
                tracing::info!(session = %session.id, "a kept pod is gone");
                self.store.forget_object(&session.id, &object.uid).await?;
            }
        }
        let rest: Vec<MadeObject> = rest.into_iter().map(|held| held.object).collect();
        if rest.is_empty() {
            return Ok(());
        }
        let work = Work::on(session, cluster.as_ref(), Past::OnRow);
        self.take_back(work, &rest, &mut taken).await;
        let about_objects = [GRANT_NOTE, POD_NOTE, MARK_NOTE, TERMINATING_NOTE];
        let before = session.cleanup_notes.as_deref();
        taken.notes.extend(notes::without(before, &about_objects));
        self.complete(&session.id, taken).await;
        Ok(())
    }

    /// The recordings that have a spool and no live session here.
    pub(crate) async fn spooled_recordings(&self) -> Vec<(SessionId, String)> {
        let keys = match self.recorder.spooled().await {
            Ok(keys) => keys,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the spool's folder cannot be read");
                return Vec::new();
            }
        };
        let of_session = |key: String| session_of_key(&key).map(|id| (id, key));
        keys.into_iter()
            .filter_map(of_session)
            .filter(|(id, _)| !self.is_at(id))
            .collect()
    }

    /// One more try at a recording that was left in the spool.
    pub(crate) async fn settle_spooled(&self, id: &SessionId, key: &str) {
        if !self.is_at(id)
            && let Err(error) = self.settle_recording(id, key).await
        {
            tracing::warn!(session = %id, error = %chain(&error), "a recording waits");
        }
    }

    async fn settle_recording(&self, id: &SessionId, key: &str) -> Result<(), StoreError> {
        let Some(session) = self.store.get(id).await? else {
            return Ok(());
        };
        if session.state != State::Ended || recording_key(&session) != key {
            return Ok(());
        }
        let Settled { saved, cut, live } = match self.recorder.settle(key).await {
            Ok(settled) => settled,
            Err(SpoolError::Missing | SpoolError::Busy) => return Ok(()),
            Err(error) => return self.put_aside(&session, key, error).await,
        };
        // Said also where the store is away: the next try finds the line cut already.
        let cut = (cut > 0).then(|| format!("recording cut by a torn last line of {cut} bytes"));
        let (recording, over): (_, &[&str]) = match saved {
            Ok(saved) => (Some(saved), &[RECORDING_NOTE]),
            Err(error) => {
                tracing::warn!(session = %id, error = %chain(&error), "a recording waits");
                if cut.is_none() {
                    return Ok(());
                }
                (None, &[])
            }
        };
        let mut notes = notes::without(session.cleanup_notes.as_deref(), over);
        notes.extend(cut);
        let taken = Taken {
            spool: recording.is_some().then_some(live),
            recording,
            notes,
            ..Taken::default()
        };
        self.complete(id, taken).await;
        Ok(())
    }

    /// On the row first: once the spool is aside, nothing tells of it any more.
    async fn put_aside(
        &self,
        session: &Session,
        key: &str,
        why: SpoolError,
    ) -> Result<(), StoreError> {
        tracing::error!(session = %session.id, error = %chain(&why),
            "a spool is damaged; it is moved aside and kept");
        let mut notes = notes::without(session.cleanup_notes.as_deref(), &[RECORDING_NOTE]);
        notes.push("recording damaged: it ends with its last checkpoint".to_owned());
        let outcome = Outcome {
            notes: notes::joined(&notes),
            ..Outcome::default()
        };
        self.store.note_outcome(&session.id, &outcome).await?;
        if let Err(error) = self.recorder.move_aside(key).await {
            tracing::error!(session = %session.id, error = %chain(&error), "it cannot be moved");
        }
        Ok(())
    }
}
