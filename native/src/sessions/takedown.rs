//! Taking back what a session made, in the order of spec 02 (C-15 … C-19).
//!
//! Invariants: a step that fails adds a note and the next still runs (C-22); not found is done; an
//! object is deleted by its UID (C-26); a grant stays while an object remains that only it can
//! remove (C-18). Once the sessions are another owner's, nothing goes on, at whatever step (D-5).

use super::outcome::{GONE_UNSEEN_NOTE, Past, Taken, recycled_before};
use super::runtime::{Runtime, lock};
use super::{Sessions, recording_key};
use crate::http::error::chain;
use crate::ports::Cluster;
use crate::ports::cluster::{ClusterError, Deleted, MadeObject, ObjectKind, PodRef};
use crate::recording::{LiveRecording, Resumed, SpoolError};
use decisions::grant::grant;
use decisions::pod::PodFacts;
use decisions::recycle::{LivePod, RecycleDecision, RecycleFacts, recycle, removes_process_access};
use decisions::session::Session;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

/// How long the shell is given to exit when it is asked to (C-25).
const SHELL_EXIT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The notes that tell of an object that is still there; the sweep takes them off when it is gone.
pub(super) const GRANT_NOTE: &str = "RoleBinding not deleted";
pub(super) const POD_NOTE: &str = "pod not recycled";
pub(super) const MARK_NOTE: &str = "process access not taken off the pod";
pub(super) const RECORDING_NOTE: &str = "recording not saved";
pub(super) const TERMINATING_NOTE: &str = "pod is still terminating";

/// One end's work on one cluster.
pub(super) struct Work<'a> {
    session: &'a Session,
    cluster: &'a dyn Cluster,
    past: Past,
    /// The grant that was made anew for it, where the session's own lapsed.
    renewed: Mutex<Option<MadeObject>>,
}

impl<'a> Work<'a> {
    pub(super) fn on(session: &'a Session, cluster: &'a dyn Cluster, past: Past) -> Self {
        Self {
            session,
            cluster,
            past,
            renewed: Mutex::new(None),
        }
    }
}

/// With its causes: the disk's own words say what to do.
fn not_saved(error: &dyn std::error::Error) -> String {
    format!("{RECORDING_NOTE}: {}", chain(error))
}

fn is_uncounted(facts: &RecycleFacts) -> bool {
    let controller = facts.pod.as_ref().and_then(|pod| pod.controller.as_ref());
    controller.is_some_and(|controller| controller.other_ready_pods.is_none())
}

impl Sessions {
    /// Takes everything down; never fails, but says what remains.
    pub(super) async fn take_down(
        &self,
        session: &Session,
        runtime: Option<&Runtime>,
        reason: &str,
    ) -> Taken {
        let mut taken = Taken::default();
        if let Some(terminal) = runtime.and_then(|runtime| runtime.terminal.get()) {
            terminal.end(reason, SHELL_EXIT).await;
        }
        let mut objects = runtime.map(Runtime::objects).unwrap_or_default();
        match self.store.objects(&session.id).await {
            Ok(held) => {
                for held in held {
                    if !objects.contains(&held.object) {
                        objects.push(held.object);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(session = %session.id, error = %chain(&error), "from memory alone");
            }
        }
        match self.cluster(&session.cluster) {
            Ok(cluster) => {
                let past = match runtime {
                    Some(_) => Past::Seen,
                    None => Past::OnRow,
                };
                let work = Work::on(session, cluster.as_ref(), past);
                self.take_back(work, &objects, &mut taken).await;
            }
            Err(error) if !objects.is_empty() => taken.notes.push(format!("{GRANT_NOTE}: {error}")),
            Err(_) => {}
        }
        if !taken.broken_off {
            self.save_recording(session, runtime, reason, &mut taken)
                .await;
        }
        taken
    }

    /// The cluster's part: pods first, while the grant is there, then the grant.
    pub(super) async fn take_back(
        &self,
        work: Work<'_>,
        objects: &[MadeObject],
        taken: &mut Taken,
    ) {
        let work = self.take_back_all(work, objects, taken);
        let done = self.tenure.within(work).await;
        taken.broken_off = done.is_err();
    }

    async fn take_back_all(&self, work: Work<'_>, objects: &[MadeObject], taken: &mut Taken) {
        let (session, cluster) = (work.session, work.cluster);
        let mut pod_remains = false;
        for object in objects
            .iter()
            .filter(|object| object.kind == ObjectKind::LivePod)
        {
            if let Err(error) = self.recycle(&work, object, taken).await {
                pod_remains = true;
                taken.notes.push(format!("{POD_NOTE}: {error}"));
            }
        }
        if pod_remains {
            taken
                .notes
                .push(format!("{GRANT_NOTE}: it is what removes the pod"));
            // One that was made for this try alone goes at once (C-18).
            let renewed = lock(&work.renewed).take();
            if let Some(renewed) = renewed {
                self.revoke_one(session, cluster, renewed, taken).await;
            }
            return;
        }
        self.revoke(session, cluster, objects, taken).await;
    }

    /// C-17.
    async fn recycle(
        &self,
        work: &Work<'_>,
        object: &MadeObject,
        taken: &mut Taken,
    ) -> Result<(), ClusterError> {
        let (session, cluster) = (work.session, work.cluster);
        let pod = PodRef {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: Some(object.uid.clone()),
        };
        let bound = Duration::from_secs(self.timeouts.recycle);
        let give_up = self.clock.elapsed() + bound;
        let (facts, decision) = loop {
            let waited = self.clock.elapsed() >= give_up;
            let facts = self.recycle_facts_with_right(work, &pod, waited).await?;
            let decision = recycle(&facts);
            if decision != RecycleDecision::WaitForDisruptionBudget {
                break (facts, decision);
            }
            let again = self.clock.elapsed() + LONGEST_PAUSE;
            self.clock.sleep_until(again).await;
        };
        if removes_process_access(&facts, &decision) {
            let untouched = self.with_right(work, || cluster.annotate_process_access(&pod, None));
            if let Err(error) = untouched.await {
                taken.notes.push(format!("{MARK_NOTE}: {error}"));
            }
        }
        match decision {
            RecycleDecision::Delete { .. } => {
                self.with_right(work, || cluster.delete_pod(&pod, None))
                    .await?;
                match cluster.await_gone(&pod, bound).await {
                    Ok(Deleted::Gone | Deleted::Replaced) => {
                        taken.recycled = Some(true);
                        taken.gone.push(object.uid.clone());
                    }
                    Ok(Deleted::Terminating) | Err(_) => {
                        // Asked for and accepted; the sweep watches until the UID is gone (C-25).
                        taken.notes.push(TERMINATING_NOTE.to_owned());
                    }
                }
            }
            RecycleDecision::Leave { note } => {
                taken.gone.push(object.uid.clone());
                taken.recycled = match facts.pod {
                    Some(_) => Some(false),
                    None => recycled_before(session, work.past),
                };
                let unseen = taken
                    .recycled
                    .is_none()
                    .then(|| GONE_UNSEEN_NOTE.to_owned());
                taken.notes.extend(note.or(unseen));
            }
            RecycleDecision::Skip { note, .. } => {
                taken.recycled = Some(false);
                taken.kept.push((object.uid.clone(), note.clone()));
                taken.notes.push(note);
            }
            RecycleDecision::WaitForDisruptionBudget => {}
        }
        Ok(())
    }

    /// Pods that may not be listed are no error of the call, only uncounted: where the grant lapsed
    /// they are counted again with a new one. Where even that does not help, doubt decides (C-17).
    async fn recycle_facts_with_right(
        &self,
        work: &Work<'_>,
        pod: &PodRef,
        waited: bool,
    ) -> Result<RecycleFacts, ClusterError> {
        let ask = || self.recycle_facts(work.session, work.cluster, pod, waited);
        let facts = self.with_right(work, ask).await?;
        if !is_uncounted(&facts) || lock(&work.renewed).is_some() {
            return Ok(facts);
        }
        self.renew_right(work).await?;
        let counted = self.retry(|| async {
            let facts = ask().await?;
            match is_uncounted(&facts) {
                true => Err(ClusterError::Forbidden {
                    message: "the pods cannot be counted".to_owned(),
                }),
                false => Ok(facts),
            }
        });
        match counted.await {
            Err(ClusterError::Forbidden { .. }) => Ok(facts),
            outcome => outcome,
        }
    }

    async fn recycle_facts(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
        pod: &PodRef,
        waited_long_enough: bool,
    ) -> Result<RecycleFacts, ClusterError> {
        let read = cluster.read_pod(pod).await?;
        let mut facts = RecycleFacts {
            id: session.id.clone(),
            session_pod_uid: pod.uid.clone().unwrap_or_default(),
            pod: None,
            tier: session.tier,
            recycle_last_pod: session.recycle_last_pod,
            waived: session.recycle_waived_reason.clone(),
            other_open_sessions: 0,
            disruptions_allowed: None,
            waited_long_enough,
        };
        let Some(read) = read else { return Ok(facts) };
        let parsed = PodFacts::read(&read).map_err(|error| ClusterError::Unexpected {
            cluster: session.cluster.clone(),
            why: error.to_string(),
        })?;
        let controller = cluster.controller_facts(&read).await?;
        let others = controller
            .other_ready_pods
            .and_then(|count| usize::try_from(count).ok());
        facts.pod = Some(LivePod::of(&parsed, others));
        facts.disruptions_allowed = controller.disruptions_allowed;
        facts.other_open_sessions = match self.store.others_on_pod(session).await {
            Ok(others) => usize::from(others),
            // In memory is what this process knows; it owns every open session (D-5).
            Err(_) => self.others_here(session),
        };
        Ok(facts)
    }

    fn others_here(&self, session: &Session) -> usize {
        let same = |other: &Session| {
            other.id != session.id
                && (&other.cluster, &other.namespace, &other.pod)
                    == (&session.cluster, &session.namespace, &session.pod)
        };
        self.runtimes
            .all()
            .iter()
            .filter(|runtime| same(runtime.session()))
            .count()
    }

    /// C-18. Also what an unknown outcome may have left under the session's names (C-10a).
    async fn revoke(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
        objects: &[MadeObject],
        taken: &mut Taken,
    ) {
        let mut grants: Vec<MadeObject> = objects
            .iter()
            .filter(|object| object.kind == ObjectKind::RoleBinding)
            .cloned()
            .collect();
        match self
            .retry(|| cluster.find_grants(&session.namespace, &session.id))
            .await
        {
            Ok(found) => grants.extend(found.into_iter().filter(|g| !objects.contains(g))),
            Err(error) => taken.notes.push(format!("{GRANT_NOTE}: {error}")),
        }
        for object in grants {
            self.revoke_one(session, cluster, object, taken).await;
        }
    }

    async fn revoke_one(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
        object: MadeObject,
        taken: &mut Taken,
    ) {
        match self.retry(|| cluster.delete_grant(&object)).await {
            Ok(Deleted::Gone | Deleted::Replaced) => {
                tracing::info!(session = %session.id, grant = object.name, "grant gone");
                taken.gone.push(object.uid);
            }
            Ok(Deleted::Terminating) => {
                taken
                    .notes
                    .push(format!("{GRANT_NOTE}: it has a finalizer"));
            }
            Err(error) => taken.notes.push(format!("{GRANT_NOTE}: {error}")),
        }
    }

    /// C-19, R-5, R-6.
    async fn save_recording(
        &self,
        session: &Session,
        runtime: Option<&Runtime>,
        reason: &str,
        taken: &mut Taken,
    ) {
        let recording = match runtime.and_then(|runtime| runtime.recording.get()) {
            Some(recording) => {
                // Where there was a terminal, it has said so itself.
                if runtime.is_some_and(|runtime| runtime.terminal.get().is_none()) {
                    self.mark_ended(recording, reason);
                }
                Some(recording.clone())
            }
            None => self.left_recording(session, reason, taken).await,
        };
        let Some(recording) = recording else { return };
        match recording.seal().await {
            Ok(saved) => {
                taken.recording = Some(saved);
                taken.spool = Some(recording);
            }
            Err(error) => taken.notes.push(not_saved(&error)),
        }
    }

    ///
    fn mark_ended(&self, recording: &LiveRecording, reason: &str) {
        let marked = recording.marker(self.clock.elapsed(), &format!("ended: {reason}"));
        if let Err(error) = marked {
            tracing::warn!(key = recording.key(), error = %chain(&error),
                "the end is not in the recording");
        }
    }

    /// What a former process left in the spool, with the gap and the end marked.
    async fn left_recording(
        &self,
        session: &Session,
        reason: &str,
        taken: &mut Taken,
    ) -> Option<LiveRecording> {
        match self.recorder.resume(&recording_key(session)).await {
            Ok(Resumed { live, cut }) => {
                if cut > 0 {
                    let cut = format!("recording cut by a torn last line of {cut} bytes");
                    taken.notes.push(cut);
                }
                self.mark_ended(&live, reason);
                return Some(live);
            }
            Err(SpoolError::Missing) if session.recording_key.is_some() => {
                taken
                    .notes
                    .push("recording ends with its last checkpoint".to_owned());
            }
            Err(SpoolError::Missing) => {}
            Err(error) => taken.notes.push(not_saved(&error)),
        }
        None
    }

    /// A step that needs the session's grant: where it lapsed, a new one of 15 minutes is made,
    /// which the end removes with the others (C-18).
    async fn with_right<T, F>(
        &self,
        work: &Work<'_>,
        step: impl Fn() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        match self.retry_unless_forbidden(&step).await {
            Err(ClusterError::Forbidden { .. }) => {}
            outcome => return outcome,
        }
        self.renew_right(work).await?;
        self.retry(step).await
    }

    async fn renew_right(&self, work: &Work<'_>) -> Result<(), ClusterError> {
        let (session, cluster) = (work.session, work.cluster);
        let spec = self.grant_spec(session, cluster, 0).await?;
        let made = cluster.create_grant(&session.id, &grant(&spec)).await?;
        if let Err(error) = self.store.note_object(&made).await {
            tracing::warn!(session = %session.id, error = %chain(&error),
                "a grant is not on record yet");
        }
        *lock(&work.renewed) = Some(made);
        Ok(())
    }

    async fn retry_unless_forbidden<T, F>(&self, step: impl Fn() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        self.retrying(step, |error| {
            matches!(error, ClusterError::Forbidden { .. })
        })
        .await
    }

    /// Repeats a step with growing pauses until it succeeds or the bound passes (C-22).
    pub(super) async fn retry<T, F>(&self, step: impl Fn() -> F) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        self.retrying(step, |_| false).await
    }

    async fn retrying<T, F>(
        &self,
        step: impl Fn() -> F,
        stop: impl Fn(&ClusterError) -> bool,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = Result<T, ClusterError>>,
    {
        let give_up = self.clock.elapsed() + Duration::from_secs(self.timeouts.cleanup_step);
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match step().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let last = matches!(error, ClusterError::RefusedByPolicy { .. }) || stop(&error);
            if last || self.clock.elapsed() + pause >= give_up {
                return Err(error);
            }
            self.clock.sleep_until(self.clock.elapsed() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::recordings::RecordingError;

    #[test]
    fn a_recording_that_is_not_saved_says_what_the_disk_said() {
        let error = RecordingError::Unavailable {
            why: "the folder cannot be written".to_owned(),
            source: Some(std::io::Error::from(std::io::ErrorKind::StorageFull)),
        };
        assert_eq!(
            not_saved(&error),
            "recording not saved: recordings are unavailable: the folder cannot be written: \
             no storage space"
        );
    }
}
