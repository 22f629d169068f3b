//! What ended sessions still hold: objects in clusters and unsaved recordings (C-23, R-6).
//!
//! Invariants: nothing local is deleted before the store confirmed it; a kept pod is watched, not
//! removed; each call is one try, and the sweep comes again.

use super::takedown::{GRANT_NOTE, MARK_NOTE, POD_NOTE, RECORDING_NOTE, TERMINATING_NOTE, Taken};
use super::{Sessions, notes, recording_key, session_of_key};
use crate::http::error::chain;
use crate::ports::StoreError;
use crate::ports::cluster::{MadeObject, ObjectKind, PodRef};
use crate::ports::store::{HeldObject, Outcome};
use crate::recording::SpoolError;
use decisions::session::{Session, SessionId, State};

impl Sessions {
    /// One more try at the objects of an ended session.
    pub(crate) async fn settle_objects(&self, session: &Session) -> Result<(), StoreError> {
        if self.runtimes.get(&session.id).is_some() {
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
        self.take_back(session, cluster.as_ref(), &rest, &mut taken)
            .await;
        let about_objects = [GRANT_NOTE, POD_NOTE, MARK_NOTE, TERMINATING_NOTE];
        let before = session.cleanup_notes.as_deref();
        taken.notes.extend(notes::without(before, &about_objects));
        self.complete(session, &taken).await;
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
        let ours = |id: &SessionId| self.runtimes.get(id).is_some();
        keys.into_iter()
            .filter_map(of_session)
            .filter(|(id, _)| !ours(id))
            .collect()
    }

    /// One more try at a recording that was left in the spool.
    pub(crate) async fn settle_spooled(&self, id: &SessionId, key: &str) {
        if self.runtimes.get(id).is_none()
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
        let mut notes = notes::without(session.cleanup_notes.as_deref(), &[RECORDING_NOTE]);
        let settled = match self.recorder.settle(key).await {
            Ok(Ok(settled)) => {
                if settled.cut > 0 {
                    let cut = settled.cut;
                    notes.push(format!("recording cut by a torn last line of {cut} bytes"));
                }
                Some(settled)
            }
            Ok(Err(error)) => {
                tracing::warn!(session = %id, error = %chain(&error), "a recording waits");
                return Ok(());
            }
            Err(SpoolError::Missing | SpoolError::Busy) => return Ok(()),
            Err(error) => {
                tracing::error!(session = %id, error = %chain(&error),
                    "a spool is damaged; it is moved aside and kept");
                if let Err(error) = self.recorder.move_aside(key).await {
                    tracing::error!(session = %id, error = %chain(&error), "it cannot be moved");
                }
                notes.push("recording damaged: it ends with its last checkpoint".to_owned());
                None
            }
        };
        let outcome = Outcome {
            recycled: None,
            recording: settled.as_ref().map(|settled| settled.saved.clone()),
            notes: notes::joined(&notes),
        };
        self.store.note_outcome(id, &outcome).await?;
        if let Some(settled) = settled {
            settled.live.discard().await;
        }
        Ok(())
    }
}
