//! Somebody else's look at a cluster: what the sidecar claims is checked with other eyes.

use crate::StageError;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::Path;

/// A client with rights of its own.
#[derive(Clone)]
pub struct Witness {
    client: Client,
}

impl Witness {
    /// By a kubeconfig's context; the current one where none is named.
    pub async fn new(kubeconfig: &Path, context: Option<&str>) -> Result<Self, StageError> {
        Self::of(Some(kubeconfig), context).await
    }

    /// The same; without a file by what `KUBECONFIG` names, else `~/.kube/config`.
    pub async fn of(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, StageError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            StageError::of("the witness' kubeconfig", error)
        };
        let read = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let read = read.map_err(|error| failed(error.into()))?;
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..Default::default()
        };
        let config = Config::from_custom_kubeconfig(read, &options)
            .await
            .map_err(|error| failed(error.into()))?;
        let client = Client::try_from(config).map_err(|error| failed(error.into()))?;
        Ok(Self { client })
    }

    /// One pod, if it is there.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, StageError> {
        Api::<Pod>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(|error| StageError::of("reading a pod", error))
    }

    /// The pods of a namespace that are Running, Ready and not on their way out.
    pub async fn ready_pods(&self, namespace: &str) -> Result<Vec<Pod>, StageError> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace)
            .list(&ListParams::default())
            .await
            .map_err(|error| StageError::of("listing pods", error))?;
        Ok(pods.items.into_iter().filter(is_ready).collect())
    }

    /// One RoleBinding, if it is there.
    pub async fn role_binding(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<RoleBinding>, StageError> {
        Api::<RoleBinding>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(|error| StageError::of("reading a RoleBinding", error))
    }

    /// How many RoleBindings and pods carry our labels, anywhere.
    pub async fn labelled(&self) -> Result<usize, StageError> {
        let ours = ListParams::default().labels("app.kubernetes.io/managed-by=tower-breakglass");
        let failed = |error| StageError::of("listing what carries our labels", error);
        let bindings = Api::<RoleBinding>::all(self.client.clone())
            .list(&ours)
            .await
            .map_err(failed)?;
        let pods = Api::<Pod>::all(self.client.clone())
            .list(&ours)
            .await
            .map_err(failed)?;
        Ok(bindings.items.len() + pods.items.len())
    }

    /// The client itself, for what only one test asks.
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .into_iter()
            .flatten()
            .any(|c| c.type_ == "Ready" && c.status == "True")
}
