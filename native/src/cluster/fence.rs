//! The live fence, read for `breakglass policies diff` (P-2).
//!
//! Invariant: nothing but reads. An object that is not there, or whose kind the cluster does not
//! know, is absent; one that may not be read is an error, never an absence.

use super::call::{Caller, Reach};
use super::config::{ClusterConfig, ConfigError};
use super::{home_of, list, path};
use crate::ports::ClusterError;
use kube::api::GetParams;
use kube::core::Request;
use policies::compare::ObjectKey;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where Kyverno's exceptions may be, by group and version; a cluster has some of them or none.
const EXCEPTIONS: [&str; 5] = [
    "policies.kyverno.io/v1",
    "policies.kyverno.io/v1beta1",
    "policies.kyverno.io/v1alpha1",
    "kyverno.io/v2",
    "kyverno.io/v2beta1",
];

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// What the cluster has.
#[derive(Debug, Default)]
pub(crate) struct LiveFence {
    /// The objects that were asked for and are there.
    pub(crate) objects: BTreeMap<ObjectKey, Value>,
    /// All of Kyverno's PolicyExceptions.
    pub(crate) exceptions: Vec<Value>,
    /// All of the cluster's ValidatingWebhookConfigurations.
    pub(crate) webhooks: Vec<Value>,
}

/// Why the fence could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FenceReadError {
    /// The cluster is not configured.
    #[error("`clusters` has no `{0}`")]
    NoCluster(String),
    /// It is, and cannot be reached that way.
    #[error(transparent)]
    Way(#[from] ConfigError),
    /// The API server refused or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// Reads the objects with these keys, the exceptions and the webhooks.
///
/// # Errors
/// [`FenceReadError`]; then nothing can be said about what is live.
pub(crate) async fn read(
    cluster: &str,
    clusters: &BTreeMap<String, ClusterConfig>,
    keys: impl Iterator<Item = &ObjectKey>,
) -> Result<LiveFence, FenceReadError> {
    let config = clusters
        .get(cluster)
        .ok_or_else(|| FenceReadError::NoCluster(cluster.to_owned()))?;
    let home = home_of(cluster, config, clusters)?;
    let reach = Reach::new(cluster, config, home);
    let caller = reach.caller().await?;
    let mut live = LiveFence::default();
    for key in keys {
        if let Some(object) = object(&caller, key).await? {
            live.objects.insert(key.clone(), object);
        }
    }
    for api_version in EXCEPTIONS {
        exceptions(&caller, api_version, &mut live.exceptions).await?;
    }
    let all = Request::new(WEBHOOKS);
    list::each(&caller, &all, "", "webhooks", |one| live.webhooks.push(one)).await?;
    Ok(live)
}

async fn object(caller: &Caller<'_>, key: &ObjectKey) -> Result<Option<Value>, ClusterError> {
    let request = collection(key)?.get(path::object(&key.name)?, &GetParams::default());
    match caller.json(request, &key.to_string()).await {
        Ok(object) => Ok(Some(object)),
        Err(ClusterError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The plural of every kind that is rendered is regular.
fn collection(key: &ObjectKey) -> Result<Request, ClusterError> {
    let lower = key.kind.to_lowercase();
    let plural = match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    };
    let root = if key.api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let within = match &key.namespace {
        Some(namespace) => format!("/namespaces/{}", path::object(namespace)?),
        None => String::new(),
    };
    Ok(Request::new(format!(
        "/{root}/{}{within}/{plural}",
        key.api_version
    )))
}

async fn exceptions(
    caller: &Caller<'_>,
    api_version: &str,
    found: &mut Vec<Value>,
) -> Result<(), ClusterError> {
    let all = Request::new(format!("/apis/{api_version}/policyexceptions"));
    let look = |mut exception: Value| {
        // Items of a list do not say what they are.
        exception["apiVersion"] = json!(api_version);
        exception["kind"] = json!("PolicyException");
        let seen = |other: &Value| other["metadata"]["uid"] == exception["metadata"]["uid"];
        // One object shows in every version that is served.
        if !found.iter().any(seen) {
            found.push(exception);
        }
    };
    match list::each(caller, &all, "", "policy exceptions", look).await {
        Err(ClusterError::NotFound { .. }) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rendered_kind_has_its_path() {
        for (api_version, kind, namespace, path) in [
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingAdmissionPolicy",
                None,
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            ),
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingAdmissionPolicyBinding",
                None,
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            ),
            (
                "policies.kyverno.io/v1",
                "ImageValidatingPolicy",
                None,
                "/apis/policies.kyverno.io/v1/imagevalidatingpolicies",
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "RoleBinding",
                Some("backstage"),
                "/apis/rbac.authorization.k8s.io/v1/namespaces/backstage/rolebindings",
            ),
            ("v1", "Secret", None, "/api/v1/secrets"),
        ] {
            let key = ObjectKey {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: "x".to_owned(),
            };
            assert_eq!(collection(&key).expect("a path").url_path, path);
        }
    }
}
