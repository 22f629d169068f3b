//! The stand-in as a world of the contract.

use async_trait::async_trait;
use breakglass::cluster::{self, ClusterConfig};
use breakglass::fakes::cluster_contract::{CannotBeTold, World};
use breakglass::ports::Clusters;
use breakglass::ports::cluster::{Cluster, PodRef};
use decisions::names;
use decisions::session::SessionId;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use standin::{DEBUG_IMAGE, Fault, Options, RequestFault, RequestMatch, Standin, StartFault};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const NAMESPACE: &str = "shop";
pub(super) const NAME: &str = "ground";

pub(super) struct StandinWorld {
    pub(super) standin: Standin,
    pub(super) clusters: Clusters,
    pub(super) files: TempDir,
}

pub(super) async fn world() -> StandinWorld {
    world_of(Options::default(), |folder| context(folder, "breakglass")).await
}

/// A cluster that is reached by this context of the stand-in's kubeconfig.
pub(super) fn context(folder: &Path, context: &str) -> Value {
    json!({ "kubeconfig": { "path": folder.join("kubeconfig"), "context": context } })
}

pub(super) async fn world_of(options: Options, config: impl Fn(&Path) -> Value) -> StandinWorld {
    let standin = Standin::start(options).await.expect("the stand-in starts");
    let files = tempfile::tempdir().expect("a folder");
    write(&files, "kubeconfig", &standin.kubeconfig());
    write(&files, "ca.pem", standin.authority());
    let clusters = connect(&[(NAME, config(files.path()))]).await;
    let world = StandinWorld {
        standin,
        clusters,
        files,
    };
    world.ready().await;
    world
}

pub(super) fn write(files: &TempDir, name: &str, text: &str) {
    std::fs::write(files.path().join(name), text).expect("a file");
}

pub(super) async fn connect(configs: &[(&str, Value)]) -> Clusters {
    let read = |(name, config): &(&str, Value)| ((*name).to_owned(), parsed(config));
    let configs: BTreeMap<String, ClusterConfig> = configs.iter().map(read).collect();
    cluster::connect(&configs, "tests")
        .await
        .expect("the configuration is good")
}

pub(super) fn parsed(config: &Value) -> ClusterConfig {
    serde_json::from_value(config.clone()).expect("a cluster's configuration")
}

impl StandinWorld {
    pub(super) async fn admin(&self) -> kube::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = self.standin.kubeconfig_for("admin");
        let file = kube::config::Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .expect("a config");
        kube::Client::try_from(config).expect("a client")
    }

    fn ready_pods(&self) -> Vec<Value> {
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        self.standin
            .pods(NAMESPACE)
            .into_iter()
            .filter(ready)
            .collect()
    }

    async fn ready(&self) {
        let both = async {
            while self.ready_pods().len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), both)
            .await
            .expect("the pods are ready");
    }

    pub(super) fn on(&self, name: &str) -> Arc<dyn Cluster> {
        Arc::clone(&self.clusters[name])
    }

    pub(super) async fn grant(&self) -> SessionId {
        let id = SessionId::parse("abcdefghijkl").expect("an id");
        self.on(NAME)
            .create_grant(&id, &binding(&id))
            .await
            .expect("the grant is made");
        id
    }
}

pub(super) fn binding(id: &SessionId) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {
            "namespace": NAMESPACE, "name": names::grant_name(id),
            "labels": names::our_labels("tests", id),
        },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": names::DEBUG_LIVE_ROLE,
        },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "tower", "name": "breakglass" }],
    })
}

fn pod_ref(pod: &Value) -> PodRef {
    let text = |field: &str| {
        pod["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    PodRef {
        namespace: text("namespace"),
        name: text("name"),
        uid: Some(text("uid")),
    }
}

#[async_trait]
impl World for StandinWorld {
    fn cluster(&self) -> Arc<dyn Cluster> {
        self.on(NAME)
    }

    fn installation(&self) -> String {
        "tests".to_owned()
    }

    fn namespace(&self) -> String {
        NAMESPACE.to_owned()
    }

    async fn pod(&self) -> PodRef {
        pod_ref(self.ready_pods().first().expect("a ready pod"))
    }

    fn debug_container(&self, name: &str) -> Value {
        json!({
            "name": name, "image": DEBUG_IMAGE, "imagePullPolicy": "IfNotPresent",
            "stdin": true, "tty": true, "command": ["/bin/sh"],
        })
    }

    async fn break_the_image(&self) {
        let message = "failed to pull image: no such image".to_owned();
        self.standin
            .faults()
            .next_start(StartFault::ImagePull { message });
    }

    async fn replace(&self, pod: &PodRef) -> PodRef {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        assert!(
            self.standin
                .faults()
                .apply(Fault::ReplacePod { namespace, name })
        );
        let found = self.standin.pods(NAMESPACE).into_iter().find(|found| {
            found["metadata"]["name"] == pod.name.as_str()
                && found["metadata"]["uid"].as_str() != pod.uid.as_deref()
        });
        pod_ref(&found.expect("another pod of the name"))
    }

    async fn make_binding(&self, binding: Value) -> String {
        let binding: RoleBinding = serde_json::from_value(binding).expect("a RoleBinding");
        let api: Api<RoleBinding> = Api::namespaced(self.admin().await, NAMESPACE);
        let made = api
            .create(&PostParams::default(), &binding)
            .await
            .expect("made");
        made.metadata.uid.expect("a UID")
    }

    async fn has_binding(&self, name: &str) -> bool {
        self.standin
            .role_bindings()
            .iter()
            .any(|binding| binding["metadata"]["name"] == name)
    }

    async fn refuse_by_policy(&self, words: &str) -> Result<(), CannotBeTold> {
        let message = format!(
            "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'tower-breakglass-container' with \
             binding 'tower-breakglass-container' denied request: {words}"
        );
        let on = RequestMatch::on("patch", "pods/ephemeralcontainers");
        self.standin
            .faults()
            .answer_once(on, 422, "Invalid", &message);
        Ok(())
    }

    async fn lose_the_answer(&self) -> Result<(), CannotBeTold> {
        let on = RequestMatch::on("create", "rolebindings");
        self.standin
            .faults()
            .next_request(on, RequestFault::PerformThenCut);
        Ok(())
    }
}

/// A cluster that trusts another's tokens.
pub(super) fn minted(home: &str, server: &str) -> Value {
    json!({ "mintedToken": { "home": home, "serviceAccount": "tower/breakglass", "server": server } })
}
