//! What lands in a cluster after its session's end: a create that got no answer in time can still
//! be done (C-10a).
//!
//! Invariants: only the sweep looks, in the place that it keeps for one session's work, so that a
//! look never runs beside another try at the same objects; what is found is put on record before
//! it is removed.

use super::Sessions;
use super::attach::target_of;
use super::runtime::{Runtime, lock};
use crate::http::error::{ApiError, chain};
use crate::ports::Elapsed;
use crate::ports::cluster::{MadeObject, ObjectKind};
use decisions::names::debug_container_name;
use decisions::pod::PodFacts;
use decisions::session::SessionId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An API server gives up on a request after a minute.
const LANDS_WITHIN: Duration = Duration::from_secs(75);

/// Openings that were given up while an API server may still have one of their requests.
#[derive(Default)]
pub(super) struct Doubts(Mutex<BTreeMap<SessionId, Doubt>>);

struct Doubt {
    runtime: Arc<Runtime>,
    until: Elapsed,
}

impl Sessions {
    /// From here on the sweep looks for what this opening may have made unseen.
    pub(super) fn doubt(&self, runtime: Arc<Runtime>) {
        let until = self.clock.elapsed() + LANDS_WITHIN;
        let id = runtime.session().id.clone();
        lock(&self.doubts.0).insert(id, Doubt { runtime, until });
    }

    /// The openings to look after; those of a lost tenure are the new owner's.
    pub(crate) fn doubted(&self) -> Vec<Arc<Runtime>> {
        let mut doubts = lock(&self.doubts.0);
        doubts.retain(|_, doubt| !doubt.runtime.abandoned.is_cancelled());
        doubts.values().map(|doubt| doubt.runtime.clone()).collect()
    }

    /// Looks once, and removes what is found. The last look is one that began when nothing could
    /// land any more, and was answered.
    pub(crate) async fn look_for_latecomers(&self, runtime: &Runtime) {
        let id = &runtime.session().id;
        if self.is_at(id) {
            return; // its own end is at it
        }
        let began = self.clock.elapsed();
        match self.remove_latecomers(runtime).await {
            Ok(()) => {
                lock(&self.doubts.0).retain(|of, doubt| of != id || began < doubt.until);
            }
            Err(error) => {
                tracing::debug!(session = %id, error = %chain(&error), "not looked for");
            }
        }
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
        if !found.is_empty() {
            tracing::warn!(session = %session.id, found = found.len(), "still there after the end");
        }
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
