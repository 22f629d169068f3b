//! Adds the ephemeral container of a live session (C-8).
//!
//! Invariant: it goes into the pod with the given UID or nowhere; doing it twice is doing it once.

use super::KubeCluster;
use super::call::Caller;
use super::path;
use super::patience::Patience;
use super::pods::{place, present};
use crate::ports::ClusterError;
use crate::ports::cluster::PodRef;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

pub(super) async fn add(
    cluster: &KubeCluster,
    pod: &PodRef,
    container: &Value,
) -> Result<(), ClusterError> {
    let name = container
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    path::object(name)?;
    let caller = cluster.reach.caller().await?;
    let mut patience = Patience::for_rights();
    loop {
        match once(&caller, pod, container, name).await {
            // A grant that has not arrived everywhere, or a pod that changed while we looked.
            Err(ClusterError::Forbidden { .. } | ClusterError::Conflict { .. })
                if patience.again().await => {}
            result => return result,
        }
    }
}

async fn once(
    caller: &Caller<'_>,
    pod: &PodRef,
    container: &Value,
    name: &str,
) -> Result<(), ClusterError> {
    let found = present(caller, pod).await?;
    if has(&found, name) {
        return Ok(());
    }
    let place = place(pod)?;
    // The UID in the patch makes the API server refuse it for another pod of that name.
    let patch = Patch::Strategic(json!({
        "metadata": { "uid": super::object::uid(&found) },
        "spec": { "ephemeralContainers": [container] },
    }));
    let subresource = "ephemeralcontainers";
    let pod_name = path::object(&pod.name)?;
    let request =
        place
            .collection
            .patch_subresource(subresource, pod_name, &PatchParams::default(), &patch);
    match caller.json(request, &place.what()).await {
        Ok(_) => Ok(()),
        // Refused for its UID, or truly not a container that may run there?
        Err(error @ ClusterError::Invalid { .. }) => {
            present(caller, pod).await?;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

/// Whether the pod has an ephemeral container of that name.
pub(crate) fn has(pod: &Value, name: &str) -> bool {
    let containers = pod
        .pointer("/spec/ephemeralContainers")
        .and_then(Value::as_array);
    let mut names = containers
        .into_iter()
        .flatten()
        .filter_map(|c| c.get("name")?.as_str());
    names.any(|found| found == name)
}
