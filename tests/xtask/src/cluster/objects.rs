//! What tests find in the cluster: the sidecar's identity with its rights, and apps.

use std::path::Path;
use std::process::Command;

use policies::identity::{Identity, ServiceAccount};
use policies::render::{RbacConfig, render_rbac};

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::images::APP_USER;
use super::pki::token_kubeconfig;
use super::process::output;

/// The namespace of the sidecar's service account.
pub(crate) const SIDECAR_NAMESPACE: &str = "backstage";
/// The sidecar's service account.
pub(crate) const SIDECAR_ACCOUNT: &str = "breakglass-sidecar";
/// The name of the installation under test (C-2c).
pub(crate) const INSTALLATION: &str = "test";

/// How long an account's token is good for: a test run, with room.
const TOKEN_FOR: &str = "12h";

/// An app to be debugged.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "deployed-app")]
pub(crate) struct App {
    /// The namespace it runs in, which is made and labelled
    #[arg(long)]
    pub namespace: String,
    /// The app's name: the label `hangar.io/app`, and the Deployment's name
    #[arg(long)]
    pub app: String,
    /// The environment: the label `hangar.io/env`
    #[arg(long)]
    pub env: String,
    /// How many pods
    #[arg(long, default_value_t = 1)]
    pub replicas: u16,
}

/// `kubectl` of the cluster's own binary, as an admin of the cluster in `dir`.
#[must_use]
pub(crate) fn kubectl(dir: &ClusterDir) -> Command {
    let mut kubectl = Command::new(dir.program("kubectl"));
    kubectl.arg("--kubeconfig").arg(dir.admin_conf());
    // Its discovery cache would be filed under this address for the next cluster too.
    kubectl.arg("--cache-dir").arg(dir.join("kubectl-cache"));
    kubectl
}

/// Makes the sidecar's namespace and service account, applies the rendered RBAC, and writes
/// `sidecar.conf` with a token of that account: what a test does by it, it does with the rights of
/// C-2a and no others. May be repeated; the token is then a new one.
///
/// # Errors
/// [`ClusterError`] where the cluster refuses or does not answer.
pub(crate) fn sidecar_identity(dir: &ClusterDir) -> Result<(), ClusterError> {
    let account = ServiceAccount::new(SIDECAR_NAMESPACE, SIDECAR_ACCOUNT)?;
    let rbac = RbacConfig::new(INSTALLATION, Identity::ServiceAccount(account))?;
    let mut manifests = serde_json::json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SIDECAR_NAMESPACE } },
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
                "name": SIDECAR_ACCOUNT, "namespace": SIDECAR_NAMESPACE } },
        ],
    })
    .to_string();
    for file in render_rbac(&rbac) {
        manifests.push_str("\n---\n");
        manifests.push_str(&file.text);
    }
    apply(dir, &manifests)?;
    account_kubeconfig(dir, "sidecar", SIDECAR_NAMESPACE, SIDECAR_ACCOUNT)
}

/// Writes `<name>.conf` with a new token of a service account: who uses it has that account's
/// rights and no others.
pub(super) fn account_kubeconfig(
    dir: &ClusterDir,
    name: &str,
    namespace: &str,
    account: &str,
) -> Result<(), ClusterError> {
    let mut create = kubectl(dir);
    create.args(["create", "token", account, "--namespace", namespace]);
    create.args(["--duration", TOKEN_FOR]);
    let token = output(create, None)?;
    token_kubeconfig(dir, name, token.trim())
}

/// Deploys `app` and waits until all its pods are ready. Its pods belong to a ReplicaSet, run as
/// a non-zero user with a read-only root, and do nothing; a Secret of theirs is at `/shop`.
///
/// # Errors
/// [`ClusterError`] where the cluster refuses or the pods do not get ready within a minute.
pub(crate) fn deploy_app(dir: &ClusterDir, app: &App) -> Result<(), ClusterError> {
    let path = dir.app_image();
    let image = std::fs::read_to_string(&path).map_err(ClusterError::io("read", &path))?;
    apply(dir, &app_manifest(app, image.trim()).to_string())?;
    let mut wait = kubectl(dir);
    wait.args([
        "rollout",
        "status",
        "--timeout=60s",
        "--namespace",
        &app.namespace,
    ]);
    wait.arg(format!("deployment/{}", app.app));
    output(wait, None).map(|_| ())
}

fn app_manifest(app: &App, image: &str) -> serde_json::Value {
    let labels = serde_json::json!({ "app.kubernetes.io/name": app.app });
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": {
                "name": app.namespace,
                "labels": { "hangar.io/app": app.app, "hangar.io/env": app.env } } },
            { "apiVersion": "v1", "kind": "Secret",
              "metadata": { "name": app.app, "namespace": app.namespace },
              "stringData": { "greeting": "hello-from-a-secret" } },
            { "apiVersion": "apps/v1", "kind": "Deployment",
              "metadata": { "name": app.app, "namespace": app.namespace },
              "spec": {
                "replicas": app.replicas,
                "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": {
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 2,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": APP_USER,
                        "runAsGroup": APP_USER,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "app",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                        "volumeMounts": [{ "name": "shop", "mountPath": "/shop" }],
                    }],
                    "volumes": [{ "name": "shop", "secret": { "secretName": app.app } }],
                } },
              } },
        ],
    })
}

pub(super) fn apply(dir: &ClusterDir, manifests: &str) -> Result<(), ClusterError> {
    let mut apply = kubectl(dir);
    apply.args(["apply", "--server-side", "--filename", "-"]);
    output(apply, Some(manifests)).map(|_| ())
}

/// Does the API server at `dir` answer `path` with success?
pub(super) fn answers(dir: &ClusterDir, path: &str) -> bool {
    let mut get = kubectl(dir);
    get.args(["get", "--request-timeout=2s", "--raw", path]);
    output(get, None).is_ok()
}

/// Is the node ready for pods, and can pods be made in `default`?
pub(super) fn takes_pods(dir: &ClusterDir) -> bool {
    let ready = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    let mut get = kubectl(dir);
    get.args(["get", "node", "localhost", "--output", ready]);
    output(get, None).is_ok_and(|status| status.trim() == "True")
        && answers(dir, "/api/v1/namespaces/default/serviceaccounts/default")
}

/// A binary of another release, like ours, for all but the kubelet.
const CONTROL_PLANE: &str = "BREAKGLASS_TEST_CONTROL_PLANE";

/// The binary answers to each program's name.
pub(super) fn link_programs(dir: &ClusterDir, binary: &Path) -> Result<(), ClusterError> {
    let other = std::env::var_os(CONTROL_PLANE).filter(|path| !path.is_empty());
    for program in super::settings::PROGRAMS {
        let binary = match &other {
            Some(other) if program != "kubelet" => Path::new(other),
            Some(_) | None => binary,
        };
        let link = dir.program(program);
        std::os::unix::fs::symlink(binary, &link).map_err(ClusterError::io("create", &link))?;
    }
    Ok(())
}
