//! What lands in a cluster after its session's end: a create that got no answer in time can still
//! be done (C-10a).
//!
//! Invariant: what is found is put on record before it is removed, so that the sweep takes up
//! what this cannot finish.

use super::Sessions;
use super::attach::target_of;
use super::runtime::Runtime;
use crate::http::error::{ApiError, chain};
use crate::ports::cluster::{MadeObject, ObjectKind};
use decisions::names::debug_container_name;
use decisions::pod::PodFacts;
use std::sync::Arc;
use std::time::Duration;

/// An API server gives up on a request after a minute.
const LANDS_WITHIN: Duration = Duration::from_secs(75);
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl Sessions {
    /// Looks again and again, in the background, for what an opening may have made unseen.
    pub(super) fn look_for_latecomers(self: &Arc<Self>, runtime: Arc<Runtime>) {
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let id = &runtime.session().id;
            let until = this.clock.elapsed() + LANDS_WITHIN;
            while this.clock.elapsed() < until && !runtime.abandoned.is_cancelled() {
                this.clock
                    .sleep_until(this.clock.elapsed() + LOOK_EVERY)
                    .await;
                // While its own end is at it, there is nothing to look for.
                if this.runtimes.get(id).is_none()
                    && let Err(error) = this.remove_latecomers(&runtime).await
                {
                    tracing::debug!(session = %id, error = %chain(&error), "not looked for");
                }
            }
        });
    }

    async fn remove_latecomers(&self, runtime: &Runtime) -> Result<(), ApiError> {
        let session = runtime.session();
        let cluster = self.cluster(&session.cluster)?;
        let mut found = cluster.find_grants(&session.namespace, &session.id).await?;
        if let Some(pod) = cluster.read_pod(&target_of(runtime)).await?
            && let Ok(pod) = PodFacts::read(&pod)
            && carries(&pod, &debug_container_name(&session.id))
        {
            found.push(MadeObject {
                session: session.id.clone(),
                cluster: session.cluster.clone(),
                kind: ObjectKind::LivePod,
                namespace: session.namespace.clone(),
                name: session.pod.clone(),
                uid: pod.metadata.uid,
            });
        }
        if found.is_empty() {
            return Ok(());
        }
        tracing::warn!(session = %session.id, found = found.len(), "landed after the end");
        for object in &found {
            self.store.note_object(object).await?;
        }
        let ended = self.load(&session.id).await?;
        Ok(self.settle_objects(&ended).await?)
    }
}

fn carries(pod: &PodFacts, container: &str) -> bool {
    pod.debug_containers().any(|found| found.name == container)
}
