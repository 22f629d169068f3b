//! What carries this installation's labels, anywhere in the cluster (C-2c, C-23).
//!
//! Invariant: at rest we may list RoleBindings and nothing else (C-2a). Copy pods are found where
//! the cluster lets us see them: everywhere, or in the namespaces where a grant is left.

use super::KubeCluster;
use super::call::Caller;
use super::grant;
use super::list;
use super::object::{made, texts};
use super::path;
use crate::ports::ClusterError;
use crate::ports::cluster::{Leftover, ObjectKind};
use decisions::names;
use decisions::session::SessionId;
use kube::core::Request;
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) async fn find(cluster: &KubeCluster) -> Result<Vec<Leftover>, ClusterError> {
    let mut found = Vec::new();
    grant::all(cluster, |session, binding| {
        found.extend(leftover(
            cluster.name(),
            &session,
            ObjectKind::RoleBinding,
            &binding,
        ));
    })
    .await?;
    let namespaces: BTreeSet<String> = found
        .iter()
        .map(|left| left.object.namespace.clone())
        .collect();
    let caller = cluster.reach.caller().await?;
    let Some(copies) = copy_pods(cluster, &caller, &path::all_pods()).await? else {
        for namespace in namespaces {
            let pods = path::pods(&namespace)?;
            found.extend(
                copy_pods(cluster, &caller, &pods)
                    .await?
                    .unwrap_or_default(),
            );
        }
        return Ok(found);
    };
    found.extend(copies);
    Ok(found)
}

/// `None` where they may not be listed.
async fn copy_pods(
    cluster: &KubeCluster,
    caller: &Caller<'_>,
    pods: &Request,
) -> Result<Option<Vec<Leftover>>, ClusterError> {
    let selector = names::our_selector(&cluster.installation);
    let mut found = Vec::new();
    let listed = list::each(caller, pods, &selector, "our copy pods", |pod| {
        if let Some(session) = names::our_session(&texts(&pod, "labels"), &cluster.installation) {
            found.extend(leftover(
                cluster.name(),
                &session,
                ObjectKind::CopyPod,
                &pod,
            ));
        }
    });
    match listed.await {
        Ok(()) => Ok(Some(found)),
        Err(ClusterError::Forbidden { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn leftover(
    cluster: &str,
    session: &SessionId,
    kind: ObjectKind,
    object: &Value,
) -> Option<Leftover> {
    let object_made = made(cluster, session, kind, object)?;
    let expires_at = texts(object, "annotations")
        .get(names::EXPIRES_AT)
        .and_then(|t| t.parse().ok());
    Some(Leftover {
        object: object_made,
        expires_at,
    })
}
