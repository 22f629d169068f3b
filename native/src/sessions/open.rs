//! `POST /sessions`: from a request to an open session (S-5 … S-14a).

use super::Sessions;
use super::runtime::Runtime;
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::ports::cluster::TargetFacts;
use crate::ports::store::Inserted;
use decisions::debug_container::{DebugSpec, debug_container};
use decisions::mounts::{sensitive, volume_mounts};
use decisions::pod::PodFacts;
use decisions::request::{SessionRequest, parse_session_request};
use decisions::session::{Mode, SESSION_ID_LENGTH, Session, SessionId, Tier};
use decisions::target::{self, CheckedTarget, Target, check_target};
use decisions::tier::{Labels, TierFacts, fence_refusal, tier_for};
use decisions::transition::{Admission, open_session};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Draws of an id before giving up; one is enough but for a broken generator.
const DRAWS: usize = 8;

impl Sessions {
    /// Opens a session. With `at_once` it answers as soon as the row is active (S-14a).
    ///
    /// The opening itself runs on, whatever becomes of the caller's connection.
    pub async fn open(
        self: &Arc<Self>,
        caller: &Caller,
        body: &Value,
        at_once: bool,
    ) -> Result<Session, ApiError> {
        let request = parse_session_request(body, None).map_err(ApiError::Invalid)?;
        decisions::access::permitted(&caller.actor, decisions::session::Permission::Request)?;
        let cluster = self.cluster(&request.cluster)?;
        let facts = cluster.look_at(&request.namespace, &request.pod).await?;
        let admission = self.admit(caller, &request, &facts)?;
        self.recorder.check().await?;
        let uid = pod_uid(&facts);

        // A task of its own: a caller that hangs up must not leave a session half stored.
        let (this, caller) = (Arc::clone(self), caller.clone());
        let (stored, row) = oneshot::channel();
        let opening = tokio::spawn(async move {
            let runtime = this.store_new(&caller, request, admission, uid).await?;
            let session = runtime.session().clone();
            let id = session.id.clone();
            // Nobody listens where the answer waits for the shell.
            let _ = stored.send(session);
            this.activate(runtime).await.map(|()| id)
        });
        if at_once && let Ok(session) = row.await {
            return Ok(session);
        }
        match opening.await {
            Ok(opened) => self.load(&opened?).await,
            Err(_) => Err(ApiError::Unavailable(
                "the opening broke off; the sweep ends the session".to_owned(),
            )),
        }
    }

    /// Everything that can be judged before anything is stored (S-14).
    fn admit(
        &self,
        caller: &Caller,
        request: &SessionRequest,
        facts: &TargetFacts,
    ) -> Result<Admission, ApiError> {
        let (checked, pod) = self.judged(request.into(), facts)?;
        let tier = tier_for(&TierFacts {
            preview: checked.preview,
            declared: caller.declared_tier,
            cluster: request.cluster.clone(),
            ground_clusters: self.settings.ground_clusters.clone(),
        })
        .tier;
        only_what_exists(tier, request.mode)?;
        let labels = facts.namespace_labels.clone().map(Labels::from);
        let refusal = fence_refusal(
            tier,
            &request.cluster,
            &request.namespace,
            labels.as_ref(),
            &self.settings,
        );
        if let Some(refusal) = refusal {
            return Err(ApiError::Conflict(refusal.to_string()));
        }
        let mounts = if request.volume_access {
            volume_mounts(&pod, &request.container)
        } else {
            decisions::mounts::Mounts::default()
        };
        // Built once without an id that matters, so that what can never start is refused here.
        self.debug_container_of(&pod, request, &mounts)?;
        Ok(Admission {
            tier,
            sensitive: sensitive(&pod, &request.container, request.process_access, &mounts),
            pod_image: pod.container(&request.container).map(|c| c.image.clone()),
            pod_image_id: pod
                .status_of(&request.container)
                .map(|s| s.image_id.clone()),
        })
    }

    /// S-14, at the request and again when it opens (C-4): the target may be debugged, and its pod.
    pub(super) fn judged(
        &self,
        target: Target<'_>,
        facts: &TargetFacts,
    ) -> Result<(CheckedTarget, PodFacts), ApiError> {
        let not_understood = |error| {
            ApiError::Unavailable(format!("the cluster's answer is not understood: {error}"))
        };
        let pod = facts.pod.as_ref().map(PodFacts::read);
        let pod = pod.transpose().map_err(not_understood)?;
        let seen = target::TargetFacts {
            namespace_labels: facts.namespace_labels.clone().map(Labels::from),
            pod: pod.as_ref().map(target_pod),
        };
        let checked = check_target(target, &seen, &self.settings.labels)?;
        // The check has refused a pod that is not there.
        let pod = pod.ok_or_else(|| ApiError::NotFound("there is no such pod".to_owned()))?;
        Ok((checked, pod))
    }

    fn debug_container_of(
        &self,
        pod: &PodFacts,
        request: &SessionRequest,
        mounts: &decisions::mounts::Mounts,
    ) -> Result<(), ApiError> {
        let id = SessionId::parse(&"0".repeat(SESSION_ID_LENGTH))
            .map_err(|error| ApiError::Unavailable(error.to_string()))?;
        let image = self
            .settings
            .debug_image()
            .ok_or_else(|| ApiError::Unavailable("no debug image is configured".to_owned()))?;
        debug_container(&DebugSpec {
            id: &id,
            image,
            pod,
            container: &request.container,
            process_access: request.process_access,
            mounts: &mounts.mounts,
            deadline_seconds: 1,
            user: decisions::debug_container::DebugUser::default(),
        })
        .map(|_| ())
        .map_err(|refusal| ApiError::Conflict(refusal.to_string()))
    }

    /// C-3: the runtime first, then the row. Whatever sees the row sees that it runs here.
    async fn store_new(
        &self,
        caller: &Caller,
        request: SessionRequest,
        admission: Admission,
        uid: Option<String>,
    ) -> Result<Arc<Runtime>, ApiError> {
        for _ in 0..DRAWS {
            let Some(id) = SessionId::from_random(rand::random()) else {
                continue;
            };
            let (request, admission) = (request.clone(), admission.clone());
            let opened = open_session(request, admission, &caller.actor, self.clock.wall(), id)?;
            let id = opened.session.id.clone();
            if self.runtimes.get(&id).is_some() {
                continue;
            }
            let runtime = Runtime::new(opened.session, self.clock.elapsed(), uid.clone());
            self.runtimes.register(Arc::clone(&runtime));
            let limits = &self.settings.limits;
            let inserted = self.store.insert(runtime.session(), limits).await;
            if !matches!(inserted, Ok(Inserted::Stored)) {
                self.runtimes.remove(&id);
            }
            match inserted? {
                Inserted::Stored => return Ok(runtime),
                Inserted::IdTaken => {}
                Inserted::OverLimit(refusal) => return Err(ApiError::OverLimit(refusal)),
            }
        }
        Err(ApiError::Unavailable(
            "no free session id was found; try again".to_owned(),
        ))
    }
}

fn pod_uid(facts: &TargetFacts) -> Option<String> {
    let uid = facts.pod.as_ref()?.pointer("/metadata/uid")?;
    uid.as_str().map(str::to_owned)
}

/// What this version can open.
fn only_what_exists(tier: Tier, mode: Mode) -> Result<(), ApiError> {
    match (tier, mode) {
        (Tier::Ground, Mode::Live) => Ok(()),
        (Tier::Flight, _) => Err(ApiError::NotImplemented(
            "this environment is Flight, and sessions that need a second person are not available \
             in this version"
                .to_owned(),
        )),
        (Tier::Ground, Mode::Copy) => Err(ApiError::NotImplemented(
            "mode `copy` is not available in this version".to_owned(),
        )),
    }
}

fn target_pod(pod: &PodFacts) -> target::PodFacts {
    target::PodFacts {
        phase: Some(pod.status.phase.clone()).filter(|phase| !phase.is_empty()),
        deleting: pod.is_terminating(),
        containers: pod.spec.containers.iter().map(|c| c.name.clone()).collect(),
    }
}
