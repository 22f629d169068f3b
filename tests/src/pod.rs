//! A program as a pod of a cluster has it: its service account's files where a pod has them, and
//! the API server's address in its environment.
//!
//! Invariant: only that program sees the files: it has mounts of its own, and the machine's stay
//! as they are. Needs root.

use crate::StageError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// `/run` is the program's own, so that the machine gets no folder; `/var/run` leads there.
const MOUNTED: &str = r#"
mount -t tmpfs none /run
at=/var/run/secrets/kubernetes.io/serviceaccount
mkdir -p "$at"
mount --bind "$1" "$at"
shift
exec "$@"
"#;

/// What a pod has of its service account.
#[derive(Debug, Clone)]
pub struct Pod {
    files: PathBuf,
    host: String,
    port: u16,
}

impl Pod {
    /// A pod of the cluster that an admin's kubeconfig leads to, its files in the folder `files`.
    pub fn of(kubeconfig: &Path, files: &Path, namespace: &str) -> Result<Self, StageError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            StageError::of("the pod's files", error)
        };
        let read = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(error.into()))?;
        let cluster = read.clusters.into_iter().find_map(|named| named.cluster);
        let cluster = cluster.ok_or_else(|| StageError::new("a kubeconfig without a cluster"))?;
        let server = cluster.server.clone().unwrap_or_default();
        let server: http::Uri = server
            .parse()
            .map_err(|error: http::uri::InvalidUri| failed(error.into()))?;
        let pem = cluster.certificate_authority_data.unwrap_or_default();
        let pem = STANDARD.decode(pem).map_err(|error| failed(error.into()))?;
        std::fs::create_dir(files).map_err(|error| failed(error.into()))?;
        for (name, content) in [
            ("ca.crt", pem.as_slice()),
            ("namespace", namespace.as_bytes()),
        ] {
            std::fs::write(files.join(name), content).map_err(|error| failed(error.into()))?;
        }
        Ok(Self {
            files: files.to_owned(),
            host: server.host().unwrap_or_default().to_owned(),
            port: server.port_u16().unwrap_or(443),
        })
    }

    /// Gives it this token, as the kubelet does: the file is another one from one moment to the
    /// next.
    pub fn take(&self, token: &str) -> Result<(), StageError> {
        let failed = |error| StageError::of("the pod's token", error);
        let next = self.files.join("token.next");
        std::fs::write(&next, token).map_err(failed)?;
        std::fs::rename(&next, self.files.join("token")).map_err(failed)
    }

    /// A program in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--"])
            .args(["sh", "-ec", MOUNTED, "sh"])
            .arg(&self.files)
            .arg(program)
            .env("KUBERNETES_SERVICE_HOST", &self.host)
            .env("KUBERNETES_SERVICE_PORT", self.port.to_string());
        command
    }
}

/// A token of a service account, good as long as the Secret that it is bound to is there.
pub struct BoundToken {
    /// The token.
    pub token: String,
    secrets: Api<Secret>,
    secret: String,
}

impl BoundToken {
    /// Made by an admin.
    pub async fn of(admin: &Client, namespace: &str, account: &str) -> Result<Self, StageError> {
        let failed = |error| StageError::of("a token of the account", error);
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), namespace);
        let secret = format!("token-{:08x}", rand::random::<u32>());
        let bound = Secret {
            metadata: ObjectMeta {
                name: Some(secret.clone()),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        };
        let options = PostParams::default();
        secrets.create(&options, &bound).await.map_err(failed)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Secret".to_owned()),
                    name: Some(secret.clone()),
                    ..BoundObjectReference::default()
                }),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let made = accounts
            .create_token_request(account, &options, &request)
            .await
            .map_err(failed)?;
        let token = made.status.map(|status| status.token).unwrap_or_default();
        Ok(Self {
            token,
            secrets,
            secret,
        })
    }

    /// From here on, or a few seconds later, the API server refuses it.
    pub async fn revoke(&self) -> Result<(), StageError> {
        let options = DeleteParams::default();
        let deleted = self.secrets.delete(&self.secret, &options).await;
        deleted.map_err(|error| StageError::of("revoking a token", error))?;
        Ok(())
    }
}
