//! Every call that opening and ending make, by the sidecar's own adapter, step by step.
//!
//! Invariant: a step that the cluster refuses, or whose answer lacks what the session needs of it,
//! ends the journey with its name. What is made has the app's volumes, as a session's has.

use super::*;
use breakglass::cluster::{self as adapter, ClusterConfig};
use breakglass::ports::cluster::{Cluster as Port, Deleted, PodRef};
use breakglass_tests::log::Log;
use decisions::copy_pod::{CopySpec, copy_pod};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::mounts::volume_mounts;
use decisions::names;
use decisions::pod::PodFacts;
use decisions::session::{Mode, SessionId, UserRef};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

const INSTALLATION: &str = "tests";

/// The step that failed, and why.
pub(crate) type Broken = (&'static str, String);

pub(crate) struct Journey<'a> {
    port: Arc<dyn Port>,
    namespace: &'a str,
    image: &'a str,
    id: SessionId,
    log: Log,
    _caught: tracing::subscriber::DefaultGuard,
}

fn at<T>(step: &'static str, result: Result<T, impl Display>) -> Result<T, Broken> {
    result.map_err(|why| (step, why.to_string()))
}

fn so(step: &'static str, holds: bool, otherwise: &str) -> Result<(), Broken> {
    at(step, holds.then_some(()).ok_or(otherwise))
}

impl<'a> Journey<'a> {
    /// A new session's, by an adapter that has seen nothing yet.
    pub(crate) async fn new(cluster: &'a Cluster, namespace: &'a str) -> Self {
        let log = Log::default();
        let caught = log.take();
        let way = json!({ "kubeconfig": { "path": cluster.dir.join("sidecar.conf") } });
        let config: ClusterConfig = serde_json::from_value(way).expect("a configuration");
        let configs = BTreeMap::from([("real".to_owned(), config)]);
        let mut ports = adapter::connect(&configs, INSTALLATION)
            .await
            .expect("made");
        Self {
            port: ports.remove("real").expect("the one cluster"),
            namespace,
            image: &cluster.debug_image,
            id: loop {
                if let Some(id) = SessionId::from_random(rand::random()) {
                    break id;
                }
            },
            log,
            _caught: caught,
        }
    }

    pub(crate) async fn live(&self, app: &str) -> Result<(), Broken> {
        let (pod, found) = self.target(app).await?;
        self.granted(Mode::Live).await?;
        let port = &self.port;
        at(
            "mark the pod",
            port.annotate_process_access(&pod, Some(&self.id)).await,
        )?;
        let facts = facts(&found);
        let mounts = volume_mounts(&facts, "app").mounts;
        sees_all(mounts.iter().map(|mount| &*mount.name));
        let container = debug_container(&DebugSpec {
            id: &self.id,
            image: self.image,
            pod: &facts,
            container: "app",
            process_access: true,
            mounts: &mounts,
            deadline_seconds: 600,
            user: DebugUser::default(),
        });
        let container = json!(container.expect("a debug container"));
        at(
            "add the debug container",
            port.add_debug_container(&pod, &container).await,
        )?;
        self.terminal(&pod).await?;
        let controller = at(
            "ask about its controller",
            port.controller_facts(&found).await,
        )?;
        so(
            "count the other pods",
            controller.other_ready_pods.is_some(),
            "not known",
        )?;
        so(
            "read the disruption budget",
            controller.disruptions_allowed.is_some(),
            "not known",
        )?;
        at(
            "unmark the pod",
            port.annotate_process_access(&pod, None).await,
        )?;
        self.removed(&pod).await?;
        self.revoked().await
    }

    pub(crate) async fn copy(&self, app: &str) -> Result<(), Broken> {
        let (_, found) = self.target(app).await?;
        self.granted(Mode::Copy).await?;
        let facts = facts(&found);
        let copy = copy_pod(&CopySpec {
            id: &self.id,
            installation: INSTALLATION,
            requester: &UserRef::new("user:default/alice"),
            expires_at: "2030-01-01T10:30:00Z".parse().expect("a time"),
            duration_minutes: 30,
            pod: &facts,
            container: "app",
            hold_app: false,
            volume_access: true,
            image: self.image,
            user: DebugUser::default(),
            claims: &BTreeMap::new(),
        });
        let copy = copy.expect("a copy").manifest;
        let debug = names::debug_container_name(&self.id);
        let containers = copy["spec"]["containers"].as_array().into_iter().flatten();
        let debug = containers.filter(|container| container["name"] == debug);
        let mounts = debug.flat_map(|one| one["volumeMounts"].as_array().into_iter().flatten());
        sees_all(mounts.filter_map(|mount| mount["name"].as_str()));
        let port = &self.port;
        let made = at("make the copy", port.create_copy_pod(&self.id, &copy).await)?;
        let again = port.create_copy_pod(&self.id, &copy).await;
        at("find the copy that is there", again)?;
        let pod = PodRef {
            namespace: made.namespace,
            name: made.name,
            uid: Some(made.uid),
        };
        self.terminal(&pod).await?;
        self.removed(&pod).await?;
        self.revoked().await
    }

    /// Looks at the target, as a request does.
    async fn target(&self, app: &str) -> Result<(PodRef, Value), Broken> {
        let found = self.port.look_at(self.namespace, app).await;
        let found = at("look at the target", found)?;
        let labels = found.namespace_labels.is_some();
        so("read the namespace's labels", labels, "not known")?;
        let pod = at("look at the target", found.pod.ok_or("no pod"))?;
        let target = PodRef {
            namespace: self.namespace.to_owned(),
            name: app.to_owned(),
            uid: pod["metadata"]["uid"].as_str().map(str::to_owned),
        };
        Ok((target, pod))
    }

    async fn granted(&self, mode: Mode) -> Result<(), Broken> {
        let username = at("ask who we are", self.port.username().await)?;
        let binding = grant(&GrantSpec {
            id: self.id.clone(),
            namespace: self.namespace.to_owned(),
            mode,
            subject: Subject::from_username(&username),
            duration_minutes: 30,
            requester: UserRef::new("user:default/alice"),
            sanction: Sanction::Ground,
            expires_at: "2030-01-01T10:30:00Z".parse().expect("a time"),
            installation: INSTALLATION.to_owned(),
            second: false,
        });
        at(
            "make the grant",
            self.port.create_grant(&self.id, &binding).await,
        )?;
        // What a try does whose first answer was lost.
        let again = self.port.create_grant(&self.id, &binding).await;
        at("find the grant that is there", again).map(|_| ())
    }

    async fn terminal(&self, pod: &PodRef) -> Result<(), Broken> {
        let name = names::debug_container_name(&self.id);
        let running = self.port.await_running(pod, &name, WITHIN).await;
        at("wait for the debug container", running)?;
        let said = self.log.text();
        let watched = !said.contains("the pod cannot be watched");
        so("wait by a watch, asking once", watched, &said)?;
        at("attach", self.port.attach(pod, &name).await).map(drop)
    }

    async fn removed(&self, pod: &PodRef) -> Result<(), Broken> {
        let now = Some(Duration::ZERO);
        at("delete the pod", self.port.delete_pod(pod, now).await)?;
        let gone = at("wait for its end", self.port.await_gone(pod, WITHIN).await)?;
        so("wait for its end", gone == Deleted::Gone, "still there")
    }

    async fn revoked(&self) -> Result<(), Broken> {
        let ours = |grants: &[String]| grants.contains(&names::grant_name(&self.id));
        let left = at("look for leftovers", self.port.leftovers().await)?;
        let left: Vec<String> = left.into_iter().map(|found| found.object.name).collect();
        so(
            "look for leftovers",
            ours(&left),
            "the grant is not among them",
        )?;
        let found = self.port.find_grants(self.namespace, &self.id).await;
        let found = at("look for the grants", found)?;
        for grant in &found {
            at("delete the grant", self.port.delete_grant(grant).await)?;
        }
        so("look for the grants", found.len() == 1, "not one")
    }
}

/// The builders were given an app with volumes, and took them over.
#[track_caller]
fn sees_all<'m>(mounts: impl Iterator<Item = &'m str>) {
    let mut mounts: Vec<_> = mounts.collect();
    mounts.sort_unstable();
    assert_eq!(mounts, ["data", "labels", "secret", "settings"]);
}

fn facts(pod: &Value) -> PodFacts {
    serde_json::from_value(pod.clone()).expect("a pod")
}

/// A ready pod of the app that no session had yet.
pub(crate) async fn fresh_pod(cluster: &Cluster, namespace: &str) -> String {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let fresh = async || {
        let (_, found) = send(&cluster.admin, Method::GET, &pods, &Value::Null).await;
        let items = found["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|pod| {
            let ready = pod["status"]["containerStatuses"][0]["ready"] == true;
            let metadata = &pod["metadata"];
            ready
                && metadata["deletionTimestamp"].is_null()
                && metadata["ownerReferences"].is_array()
                && pod["spec"]["ephemeralContainers"].is_null()
        })
    };
    until("a fresh pod is ready", async || fresh().await.is_some()).await;
    let name = fresh().await.expect("a pod")["metadata"]["name"].clone();
    name.as_str().expect("a name").to_owned()
}
