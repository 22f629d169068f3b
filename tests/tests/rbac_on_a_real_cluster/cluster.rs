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
        let Some(dir) = std::env::var_os("BREAKGLASS_TEST_CLUSTER").map(PathBuf::from) else {
            let skipped = std::env::var("BREAKGLASS_SKIP").unwrap_or_default();
            assert!(
                skipped.split(',').any(|part| part.trim() == "cluster"),
                "there is no cluster to test on: run `cargo xtask cluster up DIR` and set \
                 BREAKGLASS_TEST_CLUSTER=DIR, or leave this part out with BREAKGLASS_SKIP=cluster"
            );
            eprintln!("skipped: no cluster, as BREAKGLASS_SKIP says");
            return None;
        };
        // Another provider may have been installed by a test of the same process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = |name| {
            let path = dir.join(name);
            let text = std::fs::read_to_string(&path);
            text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                .trim()
                .to_owned()
        };
        Some(Self {
            admin: client(dir.join("admin.conf")).await,
            sidecar: client(dir.join("sidecar.conf")).await,
            debug_image: text("debug-image"),
            app_image: text("app-image"),
            dir,
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
            let (_, pod) = send(&self.admin, Method::GET, &format!("{pods}/app"), None).await;
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
            send(&self.admin, Method::GET, &account, None).await.0 == 200
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
        let (status, answer) = send(&self.admin, method, path, Some(body)).await;
        assert!((200..300).contains(&status), "{path}: {answer}");
    }

    /// Deletes the namespace without waiting for it: its name is never used again.
    pub(crate) async fn forget(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}");
        send(&self.admin, Method::DELETE, &path, None).await;
    }
}

async fn client(kubeconfig: PathBuf) -> Client {
    let shown = kubeconfig.display().to_string();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect(&shown);
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect(&shown);
    Client::try_from(config).expect(&shown)
}

/// One request as it stands, so that a refusal is told from a failure by its status alone.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let kind = match (
        method == Method::PATCH,
        path.contains("/ephemeralcontainers"),
    ) {
        (true, true) => "application/strategic-merge-patch+json",
        (true, false) => "application/merge-patch+json",
        (false, _) => "application/json",
    };
    let body = body.map(Value::to_string).unwrap_or_default().into_bytes();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let request = request.body(Body::from(body)).expect("a request");
    let answer = client.send(request).await.expect("the API server answers");
    let status = answer.status().as_u16();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("the whole answer")
        .to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

/// Asks until it is so, with a bound.
pub(crate) async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let asked = tokio::time::timeout(WITHIN, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    asked
        .await
        .unwrap_or_else(|_| panic!("{what}: not so within {WITHIN:?}"));
}
