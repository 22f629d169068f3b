//! The preflight in front of a cluster: what its rendered policies refuse is not sent (P-7).
//!
//! Invariants: every call that makes, changes, deletes or attaches is judged first, on what the
//! cluster says at that moment; what is refused, or cannot be judged, never reaches the cluster.
//! Where the cluster knows us as another account than its policies do, nothing is sent at all. A
//! grant's deletion alone is sent unless a policy refuses it: it only takes a right away.
//! A pod that is not there any more, or is another, is left to the adapter, which touches neither.

use super::{debug_container, watch};
use crate::ports::ClusterError;
use crate::ports::cluster::{
    Cluster, Clusters, ControllerFacts, Deleted, Leftover, MadeObject, PodRef, Shell, TargetFacts,
};
use async_trait::async_trait;
use decisions::session::SessionId;
use policies::cel::KubernetesVersion;
use policies::fence::FenceConfig;
use policies::preflight::{
    Labels, Preflight, PreflightError, Refused, Sending, attach_options, with_debug_container,
    with_process_access,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Puts the preflight in front of each cluster that has a fence; the others stay as they are.
///
/// # Errors
/// The cluster's name and why its policies cannot be judged by; no cluster may be used then.
pub(crate) fn fenced(
    mut clusters: Clusters,
    fences: &BTreeMap<String, FenceConfig>,
) -> Result<Clusters, (String, PreflightError)> {
    for (name, fence) in fences {
        let Some(inner) = clusters.remove(name) else {
            continue;
        };
        // The oldest dialect: what is rendered has to hold on every release.
        let preflight = Preflight::new(fence, KubernetesVersion::OLDEST)
            .map_err(|error| (name.clone(), error))?;
        let fenced = Fenced {
            inner,
            preflight: Arc::new(preflight),
        };
        clusters.insert(name.clone(), Arc::new(fenced));
    }
    Ok(clusters)
}

/// A cluster behind its preflight.
struct Fenced {
    inner: Arc<dyn Cluster>,
    preflight: Arc<Preflight>,
}

impl Fenced {
    /// Judges. A pod is other people's and may be of any size, so no other task waits for it.
    async fn judge(
        &self,
        judge: impl FnOnce(&Preflight) -> Result<(), Refused> + Send + 'static,
    ) -> Result<(), ClusterError> {
        let preflight = Arc::clone(&self.preflight);
        let username = self.inner.username().await?;
        let judged = tokio::task::spawn_blocking(move || {
            preflight.check_account(&username)?;
            judge(&preflight)
        })
        .await;
        match judged {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(refused(&why)),
            Err(_) => Err(refused(&"the check against the cluster's policies failed")),
        }
    }

    /// Judges an object that is not there yet.
    async fn judge_new(
        &self,
        object: &Value,
        sending: impl FnOnce(&Value) -> Sending<'_> + Send + 'static,
    ) -> Result<(), ClusterError> {
        let namespace = super::object::meta(object, "namespace").unwrap_or_default();
        // No pod has an empty name: only the namespace is looked at.
        let facts = self.inner.look_at(namespace, "").await?;
        let (sent, namespace) = (object.clone(), namespace.to_owned());
        self.judge(move |preflight| {
            let labels = facts.namespace_labels.as_ref();
            preflight.check(&sending(&sent), &namespace, labels)
        })
        .await
    }

    /// Judges what becomes of the pod that is meant; there is nothing to judge where it is gone.
    async fn judge_pod<F>(&self, pod: &PodRef, judge: F) -> Result<(), ClusterError>
    where
        F: FnOnce(&Preflight, Value, &str, Labels<'_>) -> Result<(), Refused> + Send + 'static,
    {
        let facts = self.inner.look_at(&pod.namespace, &pod.name).await?;
        let Some(found) = facts.pod.filter(|found| watch::is(pod, found)) else {
            return Ok(());
        };
        let (namespace, labels) = (pod.namespace.clone(), facts.namespace_labels);
        self.judge(move |preflight| judge(preflight, found, &namespace, labels.as_ref()))
            .await
    }
}

fn refused(why: &dyn std::fmt::Display) -> ClusterError {
    ClusterError::RefusedByPolicy {
        message: format!("{why} (found before it was sent: nothing was sent)"),
    }
}

fn unjudged(grant: &MadeObject, why: &dyn std::fmt::Display) {
    let grant = &grant.name;
    tracing::warn!(%grant, %why, "the deletion could not be judged beforehand, and is sent");
}

#[async_trait]
impl Cluster for Fenced {
    async fn username(&self) -> Result<String, ClusterError> {
        self.inner.username().await
    }

    async fn look_at(&self, namespace: &str, pod: &str) -> Result<TargetFacts, ClusterError> {
        self.inner.look_at(namespace, pod).await
    }

    async fn create_grant(
        &self,
        session: &SessionId,
        binding: &Value,
    ) -> Result<MadeObject, ClusterError> {
        self.judge_new(binding, |new| Sending::Grant(new)).await?;
        self.inner.create_grant(session, binding).await
    }

    async fn create_copy_pod(
        &self,
        session: &SessionId,
        pod: &Value,
    ) -> Result<MadeObject, ClusterError> {
        self.judge_new(pod, |new| Sending::Copy(new)).await?;
        self.inner.create_copy_pod(session, pod).await
    }

    async fn delete_grant(&self, grant: &MadeObject) -> Result<Deleted, ClusterError> {
        let (preflight, deleted) = (Arc::clone(&self.preflight), grant.clone());
        let judged = tokio::task::spawn_blocking(move || {
            let what = Sending::DeleteGrant(&deleted.name);
            preflight.check(&what, &deleted.namespace, None)
        })
        .await;
        match judged {
            Ok(Ok(())) => {}
            Ok(Err(why @ Refused::Denied(_))) => return Err(refused(&why)),
            Ok(Err(why)) => unjudged(grant, &why),
            Err(why) => unjudged(grant, &why),
        }
        self.inner.delete_grant(grant).await
    }

    async fn find_grants(
        &self,
        namespace: &str,
        session: &SessionId,
    ) -> Result<Vec<MadeObject>, ClusterError> {
        self.inner.find_grants(namespace, session).await
    }

    async fn annotate_process_access(
        &self,
        pod: &PodRef,
        session: Option<&SessionId>,
    ) -> Result<(), ClusterError> {
        let mark = session.map(|session| session.as_str().to_owned());
        self.judge_pod(pod, move |preflight, before, namespace, labels| {
            let after = with_process_access(&before, mark.as_deref());
            let (before, after) = (&before, &after);
            preflight.check(&Sending::ProcessAccess { before, after }, namespace, labels)
        })
        .await?;
        self.inner.annotate_process_access(pod, session).await
    }

    async fn add_debug_container(
        &self,
        pod: &PodRef,
        container: &Value,
    ) -> Result<(), ClusterError> {
        let added = container.clone();
        self.judge_pod(pod, move |preflight, before, namespace, labels| {
            let name = added.get("name").and_then(Value::as_str);
            // There already: nothing is going to be sent.
            if name.is_some_and(|name| debug_container::has(&before, name)) {
                return Ok(());
            }
            let after = with_debug_container(&before, &added);
            let (before, after) = (&before, &after);
            preflight.check(
                &Sending::DebugContainer { before, after },
                namespace,
                labels,
            )
        })
        .await?;
        self.inner.add_debug_container(pod, container).await
    }

    async fn await_running(
        &self,
        pod: &PodRef,
        container: &str,
        bound: Duration,
    ) -> Result<(), ClusterError> {
        self.inner.await_running(pod, container, bound).await
    }

    async fn read_pod(&self, pod: &PodRef) -> Result<Option<Value>, ClusterError> {
        self.inner.read_pod(pod).await
    }

    async fn attach(&self, pod: &PodRef, container: &str) -> Result<Box<dyn Shell>, ClusterError> {
        let (name, options) = (pod.name.clone(), attach_options(container));
        self.judge_pod(pod, move |preflight, _, namespace, labels| {
            let (pod, options) = (name.as_str(), &options);
            preflight.check(&Sending::Attach { pod, options }, namespace, labels)
        })
        .await?;
        self.inner.attach(pod, container).await
    }

    async fn controller_facts(&self, pod: &Value) -> Result<ControllerFacts, ClusterError> {
        self.inner.controller_facts(pod).await
    }

    async fn delete_pod(
        &self,
        pod: &PodRef,
        grace: Option<Duration>,
    ) -> Result<Deleted, ClusterError> {
        self.judge_pod(pod, |preflight, found, namespace, labels| {
            preflight.check(&Sending::Delete(&found), namespace, labels)
        })
        .await?;
        self.inner.delete_pod(pod, grace).await
    }

    async fn await_gone(&self, pod: &PodRef, bound: Duration) -> Result<Deleted, ClusterError> {
        self.inner.await_gone(pod, bound).await
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, ClusterError> {
        self.inner.leftovers().await
    }
}

#[cfg(test)]
mod tests;
