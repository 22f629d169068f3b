//! The cluster of this run with an app to debug, and the images in a registry beside it.

use super::*;
use breakglass::cluster::{self, ClusterConfig};
use breakglass::ports::cluster::{Cluster, PodRef};
use breakglass_tests::cli;
use breakglass_tests::real_cluster::{RealCluster, WITHIN, send, until};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::names;
use decisions::pod::PodFacts;
use decisions::session::{Mode, SessionId, UserRef};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The sidecar's account on the test cluster, and its installation.
const BACKEND: &str = "system:serviceaccount:backstage:breakglass-sidecar";
const INSTALLATION: &str = "test";
const POLICIES: &str = "/apis/policies.kyverno.io/v1/imagevalidatingpolicies";
const POLICY: &str = "tower-breakglass-debug-image";

/// Which requests Kyverno's webhook of the policy is asked about.
pub(crate) const SCOPE: &[&str] = &[
    "CREATE pods",
    "UPDATE pods/ephemeralcontainers",
    "break-glass: has(request.userInfo.username) && request.userInfo.username == \
     \"system:serviceaccount:backstage:breakglass-sidecar\"",
    "fails closed",
];

pub(crate) struct World {
    dir: PathBuf,
    admin: Client,
    /// The sidecar's own adapter, with the sidecar's own token.
    cluster: Arc<dyn Cluster>,
    namespace: String,
    registry: String,
    digest: String,
}

impl World {
    pub(crate) async fn of_this_run() -> Option<Self> {
        let RealCluster { dir, admin } = RealCluster::of_this_run().await?;
        let config = json!({ "kubeconfig": { "path": dir.join("sidecar.conf") } });
        let config: ClusterConfig = serde_json::from_value(config).expect("a cluster");
        let configs = BTreeMap::from([("real".to_owned(), config)]);
        let clusters = cluster::connect(&configs, INSTALLATION)
            .await
            .expect("usable");
        let image = std::fs::read_to_string(dir.join("debug-image")).expect("the debug image");
        let digest = image.trim().split_once('@').expect("a digest").1.to_owned();
        Some(Self {
            dir,
            admin,
            cluster: Arc::clone(&clusters["real"]),
            namespace: format!("images-{:08x}", rand::random::<u32>()),
            registry: String::new(),
            digest,
        })
    }

    /// An image of this run by its digest.
    pub(crate) fn image(&self, name: &str) -> String {
        format!("{}/hangar/{name}@{}", self.registry, self.digest)
    }

    /// Pushes the debug image under each of these names, and makes a namespace of an app.
    pub(crate) async fn furnish<const N: usize>(
        &mut self,
        sigstore: &Sigstore,
        names: [&'static str; N],
    ) {
        self.take_away().await;
        self.registry = sigstore.registry();
        let made = std::fs::read_to_string(self.dir.join("debug-image")).expect("an image");
        for name in names {
            let tag = format!("{}/hangar/{name}:1", self.registry);
            self.ctr(&["images", "tag", made.trim(), &tag]);
            self.ctr(&["images", "push", "--plain-http", &tag]);
            self.ctr(&["images", "remove", &tag]);
        }
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": self.namespace,
            "labels": { "hangar.io/app": "shop", "hangar.io/env": "dev" } } });
        self.as_admin(Method::POST, "/api/v1/namespaces", &namespace)
            .await;
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/default",
            self.namespace
        );
        until("the namespace has its account", async || {
            self.ask(Method::GET, &path, &Value::Null).await.0 == 200
        })
        .await;
    }

    fn ctr(&self, arguments: &[&str]) {
        let mut ctr = Command::new("ctr");
        ctr.arg("--address").arg(self.dir.join("containerd/c.sock"));
        ctr.args(["--namespace", "k8s.io"]).args(arguments);
        let output = ctr.output().expect("ctr runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ctr {arguments:?}: {said}");
    }

    /// Renders the policy as an operator would, applies it, and waits until it refuses.
    pub(crate) async fn apply(&self, sigstore: &Sigstore, workflow: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, out) = (folder.path().join("b.yaml"), folder.path().join("out"));
        let configuration = self.configuration(sigstore, workflow).to_string();
        std::fs::write(&file, configuration).expect("written");
        let mut render = Command::new(cli::binary().expect("the binary is built"));
        render
            .args(["policies", "render", "--cluster", "real", "--config"])
            .arg(&file);
        let output = render.arg("--out").arg(&out).output().expect("it runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        self.kubectl_apply(&out.join("policy-60-debug-image.yaml"));
        let unsigned = self.image("debug-unsigned");
        until("the policy refuses", async || {
            matches!(
                self.add(&unsigned).await,
                Err(ClusterError::RefusedByPolicy { .. })
            )
        })
        .await;
    }

    fn configuration(&self, sigstore: &Sigstore, workflow: &str) -> Value {
        let images: Vec<_> = images().iter().map(|(name, _)| self.image(name)).collect();
        json!({
            "installation": INSTALLATION, "socket": "/run/x.sock", "spool": "/spool",
            "recordings": { "folder": { "path": "/recordings" } },
            "debugImages": images,
            "clusters": { "real": { "kubeconfig": { "path": self.dir.join("sidecar.conf") } } },
            "policies": {
                "clusters": { "real": { "backend": BACKEND } },
                "appliers": ["admin"],
                "imageSigning": {
                    "glob": format!("{}/hangar/debug-*", self.registry),
                    "issuer": sigstore.issuers()[0].url(),
                    "subject": format!("https://github.com/{workflow}"),
                    "rekorUrl": sigstore.log_url(),
                    "trustRoots": {
                        "mirror": sigstore.trust_mirror(),
                        "root": sigstore.trust_root().expect("a root"),
                        "certificateLog": "absent",
                    },
                },
            },
        })
    }

    fn kubectl_apply(&self, file: &Path) {
        let mut kubectl = Command::new(self.dir.join("bin/kubectl"));
        kubectl.arg("--kubeconfig").arg(self.dir.join("admin.conf"));
        kubectl
            .args(["apply", "--server-side", "--filename"])
            .arg(file);
        let output = kubectl.output().expect("kubectl runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }

    /// A session's grant and its debug container with this image, in a pod of its own, as the
    /// sidecar makes and sends them; the pod and the container's name.
    pub(crate) async fn add(&self, image: &str) -> Result<(PodRef, String), ClusterError> {
        let id = loop {
            if let Some(id) = SessionId::from_random(rand::random()) {
                break id;
            }
        };
        let pod = self.app_pod(&format!("app-{}", id.as_str())).await;
        let grant = grant(&GrantSpec {
            id: id.clone(),
            namespace: self.namespace.clone(),
            mode: Mode::Live,
            subject: Subject::from_username(BACKEND),
            duration_minutes: 30,
            requester: UserRef::new("user:default/alice"),
            sanction: Sanction::Ground,
            expires_at: in_half_an_hour(),
            installation: INSTALLATION.to_owned(),
            second: false,
        });
        self.cluster
            .create_grant(&id, &grant)
            .await
            .expect("a grant");
        let read = self
            .cluster
            .read_pod(&pod)
            .await
            .expect("read")
            .expect("it is there");
        let facts = PodFacts::read(&read).expect("a pod");
        let container = debug_container(&DebugSpec {
            id: &id,
            image,
            pod: &facts,
            container: "app",
            process_access: false,
            mounts: &[],
            deadline_seconds: 600,
            user: DebugUser {
                uid: 65532,
                gid: 65532,
            },
        });
        let container = serde_json::to_value(container.expect("it can be")).expect("JSON");
        let name = names::debug_container_name(&id);
        self.cluster.add_debug_container(&pod, &container).await?;
        Ok((pod, name))
    }

    /// That it also runs: its image is pulled from the registry.
    pub(crate) async fn runs(&self, (pod, name): &(PodRef, String)) {
        let running = self.cluster.await_running(pod, name, WITHIN).await;
        running.expect("the debug container runs");
    }

    async fn app_pod(&self, name: &str) -> PodRef {
        let image = std::fs::read_to_string(self.dir.join("app-image")).expect("an image");
        let body = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "app", "image": image.trim(),
                                 "imagePullPolicy": "IfNotPresent" }] } });
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        let pod = self.as_admin(Method::POST, &pods, &body).await;
        PodRef {
            namespace: self.namespace.clone(),
            name: name.to_owned(),
            uid: pod["metadata"]["uid"].as_str().map(str::to_owned),
        }
    }

    /// Kyverno's webhook for the policy, in the words of [`SCOPE`].
    pub(crate) async fn webhook_of_the_policy(&self) -> Vec<String> {
        let list = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let all = self.as_admin(Method::GET, list, &Value::Null).await;
        let webhooks = all["items"].as_array().into_iter().flatten();
        let webhooks = webhooks.flat_map(|item| item["webhooks"].as_array().into_iter().flatten());
        let ours: Vec<&Value> = webhooks
            .filter(|webhook| {
                webhook["name"]
                    .as_str()
                    .is_some_and(|name| name.contains(POLICY))
            })
            .collect();
        let [webhook] = ours[..] else {
            panic!("not one webhook for the policy: {ours:#?}");
        };
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let words = |value: &Value| {
            let words = items(value);
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            words.join(",")
        };
        let rule = |rule: &Value| {
            format!(
                "{} {}",
                words(&rule["operations"]),
                words(&rule["resources"])
            )
        };
        let condition = |condition: &Value| {
            let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("name"), text("expression"))
        };
        let mut said: Vec<String> = items(&webhook["rules"]).iter().map(rule).collect();
        said.sort();
        said.extend(items(&webhook["matchConditions"]).iter().map(condition));
        if webhook["failurePolicy"] == "Fail" {
            said.push("fails closed".to_owned());
        }
        said
    }

    /// What an admin's own ephemeral container with this image gets.
    pub(crate) async fn add_as_admin(&self, name: &str) -> u16 {
        let pod = self.app_pod("of-an-admin").await;
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/ephemeralcontainers",
            pod.namespace, pod.name
        );
        let container = json!({ "name": "own", "image": self.image(name) });
        let body = json!({ "spec": { "ephemeralContainers": [container] } });
        self.ask(Method::PATCH, &path, &body).await.0
    }

    /// Takes the policy and the namespace away, without waiting for the namespace.
    pub(crate) async fn take_away(&self) {
        self.ask(
            Method::DELETE,
            &format!("{POLICIES}/{POLICY}"),
            &Value::Null,
        )
        .await;
        let namespace = format!("/api/v1/namespaces/{}", self.namespace);
        self.ask(Method::DELETE, &namespace, &Value::Null).await;
    }

    pub(crate) async fn as_admin(&self, method: Method, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{path}: {answer}");
        answer
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        send(&self.admin, method, path, body).await
    }
}

fn in_half_an_hour() -> Timestamp {
    let since_1970 = std::time::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_secs();
    let now = Timestamp::from_second(i64::try_from(since_1970).expect("a time")).expect("a time");
    now.checked_add(SignedDuration::from_mins(30))
        .expect("a time")
}
