//! Opening, in the order of spec 02 (C-3 … C-11).
//!
//! Invariants: the runtime is registered before the first step; a grant needs a live recording;
//! every object is on record before the next step; an end that arrives meanwhile cancels the
//! opening and waits for it (C-10a); a failure ends the session and cleans up (C-10).

use super::open::target_pod;
use super::runtime::{Phase, Runtime};
use super::{Sessions, recording_key};
use crate::http::error::{ApiError, chain};
use crate::ports::Cluster;
use crate::ports::cluster::{ClusterError, MadeObject, ObjectKind, PodRef};
use crate::ports::store::OpenedFacts;
use crate::recording::{Header, LiveRecording};
use decisions::debug_container::{
    DebugSpec, DebugUser, debug_container, hard_deadline_seconds,
};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::mounts::{Mounts, volume_mounts};
use decisions::names::{self, debug_container_name};
use decisions::pod::PodFacts;
use decisions::reason::EndReason;
use decisions::session::{Session, Tier};
use decisions::target::{self, TargetIdentity, check_target, target_changes};
use std::sync::Arc;
use std::time::Duration;

/// Why an opening did not get to its end.
#[derive(Debug)]
enum NotOpened {
    /// An end arrived.
    Cancelled,
    /// A step failed.
    Failed(ApiError),
}

impl<E: Into<ApiError>> From<E> for NotOpened {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Sessions {
    /// Takes an active row to a running shell, or ends it.
    pub(super) async fn activate(
        self: &Arc<Self>,
        runtime: Arc<Runtime>,
    ) -> Result<(), ApiError> {
        let id = runtime.session().id.clone();
        self.runtimes.register(Arc::clone(&runtime));
        let opened = self.steps(&runtime).await;
        let failure = match opened {
            Ok(()) => {
                runtime.set_phase(Phase::Open);
                tracing::info!(session = %id, "session open");
                self.supervise(runtime);
                return Ok(());
            }
            Err(failure) => failure,
        };
        runtime.set_phase(Phase::Settled);
        match failure {
            NotOpened::Cancelled => {
                Err(ApiError::Conflict("the session was ended while it was opening".to_owned()))
            }
            NotOpened::Failed(error) => {
                let why = error.to_string();
                tracing::warn!(session = %id, error = %chain(&error), "session failed to start");
                let reason = EndReason::FailedToStart(bounded(&why));
                self.end_by_system(&id, reason).await;
                Err(failed_to_start(id, error))
            }
        }
    }

    async fn steps(self: &Arc<Self>, runtime: &Arc<Runtime>) -> Result<(), NotOpened> {
        let session = runtime.session();
        let cluster = self.cluster(&session.cluster)?;
        let pod = self.recheck(session, cluster.as_ref()).await?;
        let mounts = self.mounts(session, &pod).await?;
        let recording = self.start_recording(runtime, &pod).await?;
        proceed(runtime)?;
        self.make_grant(runtime, cluster.as_ref(), &recording).await?;
        proceed(runtime)?;
        let pod = self.mark_pod(runtime, cluster.as_ref(), &pod).await?;
        self.add_container(runtime, cluster.as_ref(), &pod, &mounts).await?;
        let container = debug_container_name(&session.id);
        let target = pod_ref(&pod);
        let start = Duration::from_secs(self.timeouts.start);
        tokio::select! {
            running = cluster.await_running(&target, &container, start) => running?,
            () = runtime.cancelled.cancelled() => return Err(NotOpened::Cancelled),
        }
        tracing::info!(session = %session.id, "debug container runs");
        self.open_terminal(runtime, cluster.as_ref(), recording).await?;
        proceed(runtime)
    }

    /// C-4: the target as it is at this moment.
    async fn recheck(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Result<PodFacts, ApiError> {
        let facts = cluster.look_at(&session.namespace, &session.pod).await?;
        let pod = facts.pod.as_ref().map(PodFacts::read).transpose().map_err(|error| {
            ApiError::Unavailable(format!("the cluster's answer is not understood: {error}"))
        })?;
        let judged = target::TargetFacts {
            namespace_labels: facts.namespace_labels,
            pod: pod.as_ref().map(target_pod),
        };
        check_target(session.into(), &judged, &self.settings.labels)?;
        pod.ok_or_else(|| ApiError::NotFound("there is no such pod".to_owned()))
    }

    /// C-5: the mounts, and on the row what people are told of them.
    async fn mounts(&self, session: &Session, pod: &PodFacts) -> Result<Mounts, ApiError> {
        if !session.volume_access {
            return Ok(Mounts::default());
        }
        let mounts = volume_mounts(pod, &session.container);
        let facts = OpenedFacts { volumes: Some(mounts.told.clone()), ..OpenedFacts::default() };
        self.store.note_opened(&session.id, &facts).await?;
        Ok(mounts)
    }

    /// C-6, R-3: the header is in the store before a grant exists.
    async fn start_recording(
        &self,
        runtime: &Runtime,
        pod: &PodFacts,
    ) -> Result<LiveRecording, ApiError> {
        let session = runtime.session();
        let title = format!("{} {} {}", session.app, session.env, session.id);
        let header = Header::new(self.clock.wall(), &title);
        let recording = self.recorder.start(&recording_key(session), &header).await?;
        let recording = runtime.recording.get_or_init(|| recording).clone();
        if let Some(saved) = recording.saved() {
            self.store.note_checkpoint(&session.id, &saved).await?;
        }
        let asked = TargetIdentity {
            uid: None,
            image: session.pod_image.clone(),
            image_id: session.pod_image_id.clone(),
        };
        let found = TargetIdentity {
            uid: Some(pod.metadata.uid.clone()),
            image: pod.container(&session.container).map(|c| c.image.clone()),
            image_id: pod.status_of(&session.container).map(|s| s.image_id.clone()),
        };
        for change in target_changes(&asked, &found) {
            let text = change.to_string();
            tracing::warn!(session = %session.id, change = text, "the target changed");
            self.mark(&recording, &text)?;
        }
        Ok(recording)
    }

    fn mark(&self, recording: &LiveRecording, text: &str) -> Result<(), ApiError> {
        recording
            .marker(self.clock.elapsed(), text)
            .map_err(|error| ApiError::Unavailable(format!("recordings are unavailable: {error}")))
    }

    /// C-7. The recording is an argument so that no grant can be made without one.
    async fn make_grant(
        &self,
        runtime: &Runtime,
        cluster: &dyn Cluster,
        recording: &LiveRecording,
    ) -> Result<(), ApiError> {
        let session = runtime.session();
        let spec = self.grant_spec(session, cluster, session.duration_minutes).await?;
        let made = cluster.create_grant(&session.id, &grant(&spec)).await?;
        runtime.made(made.clone());
        self.store.note_object(&made).await?;
        let facts =
            OpenedFacts { role_binding: Some(made.name.clone()), ..OpenedFacts::default() };
        self.store.note_opened(&session.id, &facts).await?;
        tracing::info!(session = %session.id, grant = made.name, "grant made");
        self.mark(recording, "granted")
    }

    pub(super) async fn grant_spec(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
        duration_minutes: u32,
    ) -> Result<GrantSpec, ClusterError> {
        let sanction = match (session.tier, &session.approver, session.glass_broken) {
            (Tier::Flight, _, true) => Sanction::GlassBroken,
            (Tier::Flight, Some(approver), false) => Sanction::Approved(approver.clone()),
            (Tier::Flight, None, false) | (Tier::Ground, ..) => Sanction::Ground,
        };
        Ok(GrantSpec {
            id: session.id.clone(),
            namespace: session.namespace.clone(),
            mode: session.mode,
            subject: Subject::from_username(&cluster.username().await?),
            duration_minutes,
            requester: session.requester.clone(),
            sanction,
            expires_at: session.expires_at,
            installation: self.settings.installation.clone(),
            second: false,
        })
    }

    /// Puts the live pod on record, then marks it for process access and reads it again (C-8).
    async fn mark_pod(
        &self,
        runtime: &Runtime,
        cluster: &dyn Cluster,
        pod: &PodFacts,
    ) -> Result<PodFacts, NotOpened> {
        let session = runtime.session();
        let touched = MadeObject {
            session: session.id.clone(),
            cluster: session.cluster.clone(),
            kind: ObjectKind::LivePod,
            namespace: session.namespace.clone(),
            name: session.pod.clone(),
            uid: pod.metadata.uid.clone(),
        };
        runtime.made(touched.clone());
        self.store.note_object(&touched).await?;
        let target = pod_ref(pod);
        if session.process_access {
            cluster.annotate_process_access(&target, Some(&session.id)).await?;
        }
        proceed(runtime)?;
        let read = cluster.read_pod(&target).await?;
        let read = read.ok_or_else(|| ClusterError::NotFound { what: session.pod.clone() })?;
        PodFacts::read(&read).map_err(|error| {
            NotOpened::Failed(ApiError::Unavailable(format!(
                "the cluster's answer is not understood: {error}"
            )))
        })
    }

    /// C-11.
    async fn add_container(
        &self,
        runtime: &Runtime,
        cluster: &dyn Cluster,
        pod: &PodFacts,
        mounts: &Mounts,
    ) -> Result<(), ApiError> {
        let session = runtime.session();
        let image = self.settings.debug_image().ok_or_else(|| {
            ApiError::Unavailable("no debug image is configured".to_owned())
        })?;
        let container = debug_container(&DebugSpec {
            id: &session.id,
            image,
            pod,
            container: &session.container,
            process_access: session.process_access,
            mounts: &mounts.mounts,
            deadline_seconds: hard_deadline_seconds(session.duration_minutes),
            user: DebugUser::default(),
        })
        .map_err(|refusal| ApiError::Conflict(refusal.to_string()))?;
        let name = names::debug_container_name(&session.id);
        // Before the call: whatever its outcome, the end must look for this container.
        let facts = OpenedFacts { debug_container: Some(name), ..OpenedFacts::default() };
        self.store.note_opened(&session.id, &facts).await?;
        let container = serde_json::to_value(&container)
            .map_err(|error| ApiError::Unavailable(error.to_string()))?;
        cluster.add_debug_container(&pod_ref(pod), &container).await?;
        tracing::info!(session = %session.id, "debug container added");
        Ok(())
    }
}

/// An end that arrived meanwhile stops the opening between two steps.
fn proceed(runtime: &Runtime) -> Result<(), NotOpened> {
    if runtime.cancelled.is_cancelled() { Err(NotOpened::Cancelled) } else { Ok(()) }
}

fn pod_ref(pod: &PodFacts) -> PodRef {
    PodRef {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: Some(pod.metadata.uid.clone()),
    }
}

/// A reason is shown on one line of a card; the whole text is in the answer and in the log.
fn bounded(why: &str) -> String {
    const LONGEST: usize = 500;
    let line: String =
        why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    line
}

fn failed_to_start(id: decisions::session::SessionId, error: ApiError) -> ApiError {
    match error {
        // Said as they are (S-11, C-6): nothing of the session's is in doubt.
        ApiError::Recording(_) | ApiError::Store(_) => error,
        error => {
            let (status, _) = error.backstage();
            let refused = status == http::StatusCode::FORBIDDEN;
            ApiError::FailedToStart { id, refused, why: error.to_string() }
        }
    }
}
