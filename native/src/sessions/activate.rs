//! Opening, in the order of spec 02 (C-3 … C-11).
//!
//! Invariants: the runtime is registered before the first step; a grant needs a live recording;
//! every object is on record before the next step; an end that arrives meanwhile cancels the
//! opening and waits for it (C-10a); a failure ends the session and cleans up (C-10).

use super::runtime::{Phase, Runtime};
use super::{Sessions, recording_key};
use crate::http::error::{ApiError, chain};
use crate::ports::Cluster;
use crate::ports::cluster::{ClusterError, MadeObject, ObjectKind, PodRef};
use crate::ports::store::OpenedFacts;
use crate::recording::{Header, LiveRecording};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container, hard_deadline_seconds};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::mounts::{Mounts, sensitive, volume_mounts};
use decisions::names::{self, debug_container_name};
use decisions::pod::PodFacts;
use decisions::reason::EndReason;
use decisions::session::{Session, SessionId, Tier};
use decisions::target::{TargetIdentity, target_changes};
use std::sync::Arc;
use std::time::Duration;

/// How long a failed opening's answer waits for the clean-up, which goes on anyway.
const CLEAN_UP_WITHIN: Duration = Duration::from_secs(20);

/// Why an opening did not get to its end.
#[derive(Debug)]
enum NotOpened {
    /// An end arrived.
    Cancelled,
    /// The sessions are another process's, or could be (D-5).
    NotOurs,
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
    pub(super) async fn activate(self: &Arc<Self>, runtime: Arc<Runtime>) -> Result<(), ApiError> {
        let id = runtime.session().id.clone();
        // Also where a step panics, an end must not wait for ever.
        let settled = SettledAtLast(&runtime);
        let opened = self.steps(&runtime).await;
        let failure = match opened {
            Ok(()) => {
                runtime.set_phase(Phase::Open);
                drop(settled);
                tracing::info!(session = %id, "session open");
                self.supervise(runtime);
                return Ok(());
            }
            Err(failure) => failure,
        };
        drop(settled);
        let failure = match failure {
            NotOpened::Cancelled => ended_meanwhile(),
            NotOpened::NotOurs => {
                ApiError::Unavailable("another sidecar owns the sessions".to_owned())
            }
            NotOpened::Failed(error) => {
                tracing::warn!(session = %id, error = %chain(&error), "session failed to start");
                let reason = EndReason::FailedToStart(bounded(&error.to_string()));
                self.end_within(&id, reason, CLEAN_UP_WITHIN).await;
                if self.was_ended_by_somebody(&id).await {
                    ended_meanwhile()
                } else {
                    failed_to_start(id, error)
                }
            }
        };
        if runtime.is_in_doubt() {
            self.doubt(runtime);
        }
        Err(failure)
    }

    /// Whether an end won over the failure: then that is what happened to the session.
    async fn was_ended_by_somebody(&self, id: &SessionId) -> bool {
        let row = self.store.get(id).await.ok().flatten();
        let reason = row.and_then(|row| row.end_reason);
        reason.is_some_and(|reason| {
            !matches!(EndReason::parse(&reason), Some(EndReason::FailedToStart(_)))
        })
    }

    async fn steps(self: &Arc<Self>, runtime: &Arc<Runtime>) -> Result<(), NotOpened> {
        let session = runtime.session();
        let cluster = self.cluster(&session.cluster)?;
        let pod = self.recheck(session, cluster.as_ref()).await?;
        let mounts = self.mounts(runtime, &pod).await?;
        let recording = self.start_recording(runtime, &pod).await?;
        self.make_grant(runtime, cluster.as_ref(), &recording)
            .await?;
        let pod = self.mark_pod(runtime, cluster.as_ref(), &pod).await?;
        self.add_container(runtime, cluster.as_ref(), &pod, &mounts)
            .await?;
        let container = debug_container_name(&session.id);
        let target = pod_ref(&pod);
        let start = Duration::from_secs(self.timeouts.start);
        tokio::select! {
            running = cluster.await_running(&target, &container, start) => running?,
            () = runtime.cancelled.cancelled() => return Err(NotOpened::Cancelled),
            () = runtime.abandoned.cancelled() => return Err(NotOpened::NotOurs),
        }
        tracing::info!(session = %session.id, "debug container runs");
        self.open_terminal(runtime, cluster.as_ref(), recording)
            .await?;
        self.proceed(runtime)
    }

    /// Asked directly before whatever makes something in a cluster: an end that arrived
    /// meanwhile, or another owner of the sessions, stops the opening.
    fn proceed(&self, runtime: &Runtime) -> Result<(), NotOpened> {
        if runtime.abandoned.is_cancelled() || !self.tenure.may_open(self.clock.elapsed()) {
            return Err(NotOpened::NotOurs);
        }
        if runtime.cancelled.is_cancelled() {
            return Err(NotOpened::Cancelled);
        }
        Ok(())
    }

    /// C-4: the target as it is at this moment.
    async fn recheck(
        &self,
        session: &Session,
        cluster: &dyn Cluster,
    ) -> Result<PodFacts, ApiError> {
        let facts = cluster.look_at(&session.namespace, &session.pod).await?;
        Ok(self.judged(session.into(), &facts)?.1)
    }

    /// Adds facts to the row; one that is not active any longer has been ended by somebody.
    async fn on_record(&self, session: &Session, facts: &OpenedFacts) -> Result<(), NotOpened> {
        match self.store.note_opened(&session.id, facts).await? {
            true => Ok(()),
            false => Err(NotOpened::Cancelled),
        }
    }

    /// C-5: the mounts, and on the row what people are told of them. What the session could read
    /// is judged again, since the pod may be another than at the request (C-13).
    async fn mounts(&self, runtime: &Runtime, pod: &PodFacts) -> Result<Mounts, NotOpened> {
        let session = runtime.session();
        let mounts = match session.volume_access {
            true => volume_mounts(pod, &session.container),
            false => Mounts::default(),
        };
        let reads_secrets = sensitive(pod, &session.container, session.process_access, &mounts);
        let facts = OpenedFacts {
            volumes: session.volume_access.then(|| mounts.told.clone()),
            sensitive: reads_secrets.then_some(true),
            ..OpenedFacts::default()
        };
        if facts != OpenedFacts::default() {
            self.on_record(session, &facts).await?;
        }
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
        let recording = self
            .recorder
            .start(&recording_key(session), &header)
            .await?;
        let recording = runtime.recording.get_or_init(|| recording).clone();
        if let Some(saved) = recording.saved() {
            self.store.note_checkpoint(&session.id, &saved).await?;
        }
        let asked = TargetIdentity {
            uid: runtime.asked_uid().map(str::to_owned),
            image: session.pod_image.clone(),
            image_id: session.pod_image_id.clone(),
        };
        let found = TargetIdentity {
            uid: Some(pod.metadata.uid.clone()),
            image: pod.container(&session.container).map(|c| c.image.clone()),
            image_id: pod
                .status_of(&session.container)
                .map(|s| s.image_id.clone()),
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
            .map_err(|error| {
                let why = chain(&error);
                ApiError::Unavailable(format!("recordings are unavailable: {why}"))
            })
    }

    /// C-7. The recording is an argument so that no grant can be made without one.
    async fn make_grant(
        &self,
        runtime: &Runtime,
        cluster: &dyn Cluster,
        recording: &LiveRecording,
    ) -> Result<(), NotOpened> {
        let session = runtime.session();
        let spec = self
            .grant_spec(session, cluster, session.duration_minutes)
            .await?;
        self.proceed(runtime)?;
        let made = cluster.create_grant(&session.id, &grant(&spec)).await;
        runtime.note_doubt(&made);
        let made = made?;
        runtime.made(made.clone());
        self.store.note_object(&made).await?;
        let facts = OpenedFacts {
            role_binding: Some(made.name.clone()),
            ..OpenedFacts::default()
        };
        self.on_record(session, &facts).await?;
        tracing::info!(session = %session.id, grant = made.name, "grant made");
        Ok(self.mark(recording, "granted")?)
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
            self.proceed(runtime)?;
            cluster
                .annotate_process_access(&target, Some(&session.id))
                .await?;
        }
        let read = cluster.read_pod(&target).await?;
        let read = read.ok_or_else(|| ClusterError::NotFound {
            what: session.pod.clone(),
        })?;
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
    ) -> Result<(), NotOpened> {
        let session = runtime.session();
        let image = self
            .settings
            .debug_image()
            .ok_or_else(|| ApiError::Unavailable("no debug image is configured".to_owned()))?;
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
        let facts = OpenedFacts {
            debug_container: Some(name),
            ..OpenedFacts::default()
        };
        self.on_record(session, &facts).await?;
        let container = serde_json::to_value(&container)
            .map_err(|error| ApiError::Unavailable(error.to_string()))?;
        self.proceed(runtime)?;
        let added = cluster.add_debug_container(&pod_ref(pod), &container).await;
        runtime.note_doubt(&added);
        added?;
        tracing::info!(session = %session.id, "debug container added");
        Ok(())
    }
}

/// Whatever becomes of an opening, it is over when this is dropped.
struct SettledAtLast<'a>(&'a Runtime);

impl Drop for SettledAtLast<'_> {
    fn drop(&mut self) {
        if self.0.phase() == Phase::Opening {
            self.0.set_phase(Phase::Settled);
        }
    }
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
    let line: String = why
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST)
        .collect();
    line
}

fn ended_meanwhile() -> ApiError {
    ApiError::Conflict("the session was ended while it was opening".to_owned())
}

fn failed_to_start(id: SessionId, error: ApiError) -> ApiError {
    // Said as they are (S-11, C-6): nothing of the session's is in doubt.
    if matches!(error, ApiError::Recording(_) | ApiError::Store(_)) {
        return error;
    }
    let (status, _) = error.backstage();
    let refused = status == http::StatusCode::FORBIDDEN;
    ApiError::FailedToStart {
        id,
        refused,
        why: error.to_string(),
    }
}
