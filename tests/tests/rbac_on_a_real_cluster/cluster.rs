//! The cluster of this run, as its admin and as the sidecar.

use super::*;

pub(crate) struct Cluster {
    pub(crate) dir: PathBuf,
    pub(crate) admin: Client,
    pub(crate) sidecar: Client,
    pub(crate) debug_image: String,
    pub(crate) app_image: String,
}

impl Cluster {
    pub(crate) async fn of_this_run() -> Option<Self> {
        let real = RealCluster::of_this_run().await?;
        Some(Self {
            sidecar: real.client("sidecar.conf").await,
            debug_image: real.text("debug-image"),
            app_image: real.text("app-image"),
            admin: real.admin,
            dir: real.dir,
        })
    }

    /// A namespace of its own with an app of two pods and a disruption budget.
    pub(crate) async fn budgeted_app(&self, name: &str) -> String {
        let namespace = self.namespace(name).await;
        let labels = json!({ "app.kubernetes.io/name": "app" });
        let mut template = self.pod("app");
        template["metadata"] = json!({ "labels": labels });
        let app = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": "app" },
            "spec": { "replicas": 2, "selector": { "matchLabels": labels },
                      "template": { "metadata": template["metadata"], "spec": template["spec"] } } });
        let apps = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        self.as_admin(Method::POST, &apps, &app).await;
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "app" },
            "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } } });
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        self.as_admin(Method::POST, &budgets, &budget).await;
        namespace
    }

    /// A namespace of its own with one running pod, `app`.
    pub(crate) async fn app_namespace(&self, name: &str) -> String {
        let namespace = self.namespace(name).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        self.as_admin(Method::POST, &pods, &self.pod("app")).await;
        until("the pod runs", async || {
            let (_, pod) = send(
                &self.admin,
                Method::GET,
                &format!("{pods}/app"),
                &Value::Null,
            )
            .await;
            pod["status"]["phase"] == "Running"
        })
        .await;
        namespace
    }

    async fn namespace(&self, name: &str) -> String {
        let unique: u32 = rand::random();
        let namespace = format!("{name}-{unique:08x}");
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": namespace, "labels": { "hangar.io/app": "shop", "hangar.io/env": "prod" } } });
        self.as_admin(Method::POST, "/api/v1/namespaces", &body)
            .await;
        // The pod is refused until the controller has made the namespace's service account.
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        until("the namespace has its service account", async || {
            send(&self.admin, Method::GET, &account, &Value::Null)
                .await
                .0
                == 200
        })
        .await;
        namespace
    }

    /// A pod with volumes of each kind that a debug container or a copy takes over.
    pub(crate) fn pod(&self, name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsUser": 10001, "runAsGroup": 10001 },
            "containers": [{ "name": "app", "image": self.app_image,
                             "imagePullPolicy": "IfNotPresent", "volumeMounts": [
                { "name": "data", "mountPath": "/data" },
                { "name": "settings", "mountPath": "/settings" },
                { "name": "secret", "mountPath": "/secret" },
                { "name": "labels", "mountPath": "/labels" } ] }],
            "volumes": [
                { "name": "data", "emptyDir": {} },
                { "name": "settings", "configMap": { "name": "settings", "optional": true } },
                { "name": "secret", "secret": { "secretName": "secret", "optional": true } },
                { "name": "labels", "downwardAPI": { "items": [
                    { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }] } },
            ] } })
    }

    pub(crate) fn debug_container(&self) -> Value {
        json!({ "spec": { "ephemeralContainers": [{
            "name": DEBUG, "image": self.debug_image, "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh"], "stdin": true, "tty": true,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "seccompProfile": { "type": "RuntimeDefault" } } }] } })
    }

    pub(crate) async fn as_admin(&self, method: Method, path: &str, body: &Value) {
        let (status, answer) = send(&self.admin, method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {answer}");
    }

    /// Deletes the namespace without waiting for it: its name is never used again.
    pub(crate) async fn forget(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}");
        send(&self.admin, Method::DELETE, &path, &Value::Null).await;
    }
}
