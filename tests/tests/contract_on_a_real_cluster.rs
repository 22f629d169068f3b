//! The contract of the port `Cluster` on a real Kubernetes: the adapter with the sidecar's own
//! token and the rights of C-2a, the other side as an admin.
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names (`cargo xtask cluster up DIR`).
//! A run without a cluster fails, unless `BREAKGLASS_SKIP` names `cluster`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics to fail"
)]

use async_trait::async_trait;
use breakglass::cluster::{ClusterConfig, connect};
use breakglass::fakes::cluster_contract::{CannotBeTold, PROMPT, World};
use breakglass::ports::Clusters;
use breakglass::ports::cluster::{Cluster, PodRef};
use breakglass_tests::processes::until;
use breakglass_tests::real_cluster::RealCluster;
use breakglass_tests::witness::Witness;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

breakglass::cluster_contract!(maybe world());

/// A digest that no registry has; the test cluster has no registry either.
const NO_IMAGE: &str = "ghcr.io/hangar/nothing@sha256:\
    0000000000000000000000000000000000000000000000000000000000000000";

/// A namespace of one case, and an installation of its own.
struct RealWorld {
    clusters: Clusters,
    witness: Witness,
    name: String,
    app_image: String,
    debug_image: String,
    image_is_broken: AtomicBool,
}

async fn world() -> Option<RealWorld> {
    let cluster = RealCluster::of_this_run().await?;
    let name = format!("contract-{:08x}", rand::random::<u32>());
    let way = json!({ "kubeconfig": { "path": cluster.dir.join("sidecar.conf") } });
    let way: ClusterConfig = serde_json::from_value(way).expect("a way");
    let ways = BTreeMap::from([("real".to_owned(), way)]);
    let clusters = connect(&ways, &name).await;
    let admin = cluster.dir.join("admin.conf");
    let world = RealWorld {
        clusters: clusters.expect("the adapter"),
        witness: Witness::new(&admin, None).await.expect("an admin"),
        name,
        app_image: cluster.text("app-image"),
        debug_image: cluster.text("debug-image"),
        image_is_broken: AtomicBool::new(false),
    };
    world.settle().await;
    Some(world)
}

impl RealWorld {
    /// The namespace, with an app of two ready pods.
    async fn settle(&self) {
        let labels = json!({ "hangar.io/app": "shop", "hangar.io/env": "dev" });
        let namespace = json!({ "metadata": { "name": self.name, "labels": labels } });
        let namespaces: Api<Namespace> = Api::all(self.client());
        create(&namespaces, namespace).await;
        // Its pods are refused until it has its service account.
        let accounts: Api<ServiceAccount> = self.api();
        let there = || async { accounts.get_opt("default").await.ok()? };
        until("the service account", PROMPT, there)
            .await
            .expect("made");
        let app = json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 2, "selector": { "matchLabels": { "of": "web" } },
                "template": { "metadata": { "labels": { "of": "web" } }, "spec": self.pod_spec() },
            },
        });
        create(&self.api::<ReplicaSet>(), app).await;
        let ready = || async {
            let ready = self.witness.ready_pods(&self.name).await.ok()?;
            (ready.len() == 2).then_some(())
        };
        until("two ready pods", PROMPT, ready).await.expect("ready");
    }

    fn client(&self) -> Client {
        self.witness.client()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), &self.name)
    }

    fn pod_spec(&self) -> Value {
        json!({
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsUser": 10001, "runAsGroup": 10001 },
            "containers": [{
                "name": "app", "image": self.app_image, "imagePullPolicy": "IfNotPresent",
            }],
        })
    }
}

impl RealWorld {
    /// Whether a policy refuses a debug container to the admin as well; nothing is added.
    async fn is_refused(&self, pod: &str) -> bool {
        let mut container = self.debug_container("debug-000000000000");
        container["targetContainerName"] = "app".into();
        let patch = json!({ "spec": { "ephemeralContainers": [container] } });
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let pods: Api<Pod> = self.api();
        let patch = Patch::Strategic(&patch);
        let asked = pods.patch_subresource("ephemeralcontainers", pod, &dry_run, &patch);
        matches!(asked.await, Err(kube::Error::Api(status)) if status.code == 422)
    }
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    let object = serde_json::from_value(object).expect("an object of its kind");
    let made = api.create(&PostParams::default(), &object).await;
    made.expect("the admin makes it")
}

fn pod_ref(pod: &Pod) -> PodRef {
    let of = &pod.metadata;
    PodRef {
        namespace: of.namespace.clone().expect("a namespace"),
        name: of.name.clone().expect("a name"),
        uid: of.uid.clone(),
    }
}

impl Drop for RealWorld {
    /// Not waited for: the name is never used again.
    fn drop(&mut self) {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client());
        let at_once = DeleteParams::default().grace_period(0);
        let deleting = async {
            // Most cases have no policy.
            let _ = policies.delete(&self.name, &at_once).await;
            let _ = namespaces.delete(&self.name, &at_once).await;
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(deleting));
    }
}

#[async_trait]
impl World for RealWorld {
    fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.clusters["real"])
    }

    fn installation(&self) -> String {
        self.name.clone()
    }

    fn namespace(&self) -> String {
        self.name.clone()
    }

    async fn pod(&self) -> PodRef {
        let ready = self.witness.ready_pods(&self.name).await;
        pod_ref(ready.expect("the pods").first().expect("a ready pod"))
    }

    fn debug_container(&self, name: &str) -> Value {
        let broken = self.image_is_broken.load(Ordering::Relaxed);
        let image = if broken { NO_IMAGE } else { &self.debug_image };
        json!({
            "name": name, "image": image, "imagePullPolicy": "IfNotPresent",
            "stdin": true, "tty": true, "command": ["/bin/sh"],
        })
    }

    async fn break_the_image(&self) {
        self.image_is_broken.store(true, Ordering::Relaxed);
    }

    async fn replace(&self, pod: &PodRef) -> PodRef {
        let pods: Api<Pod> = self.api();
        let at_once = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name, &at_once).await.expect("deleted");
        let gone = || async { pods.get_opt(&pod.name).await.ok()?.is_none().then_some(()) };
        until("the old pod's end", PROMPT, gone)
            .await
            .expect("gone");
        let other = json!({ "metadata": { "name": pod.name }, "spec": self.pod_spec() });
        pod_ref(&create(&pods, other).await)
    }

    async fn make_binding(&self, binding: Value) -> String {
        let made = create(&self.api::<RoleBinding>(), binding).await;
        made.metadata.uid.expect("a UID")
    }

    async fn has_binding(&self, name: &str) -> bool {
        let found = self.witness.role_binding(&self.name, name).await;
        found.expect("an answer").is_some()
    }

    async fn refuse_by_policy(&self, words: &str) -> Result<(), CannotBeTold> {
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.name } });
        let policy = json!({
            "metadata": { "name": self.name },
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": here,
                    "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                        "resources": ["pods/ephemeralcontainers"],
                    }],
                },
                "validations": [{ "expression": "false", "message": words }],
            },
        });
        let binding = json!({
            "metadata": { "name": self.name },
            "spec": { "policyName": self.name, "validationActions": ["Deny"] },
        });
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client());
        create(&policies, policy).await;
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client());
        create(&bindings, binding).await;
        let pod = self.pod().await;
        let refuses = || async { self.is_refused(&pod.name).await.then_some(()) };
        until("the policy", PROMPT, refuses)
            .await
            .expect("it holds");
        Ok(())
    }

    async fn lose_the_answer(&self) -> Result<(), CannotBeTold> {
        Err(CannotBeTold("a real API server answers what it has done"))
    }
}
