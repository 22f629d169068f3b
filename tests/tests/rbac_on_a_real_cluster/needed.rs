//! Each right of the rendered RBAC is needed: with it every step of a session goes, and with any
//! one of them taken away a step that has a name fails (C-2a).
//!
//! Invariant: the roles are the rendered ones again afterwards, however the test ends.

use super::journey::{Broken, Journey, fresh_pod};
use super::*;
use policies::render::{BACKEND, DEBUG_COPY, DEBUG_LIVE};
use std::panic::AssertUnwindSafe;

const ROLES: [&str; 3] = [BACKEND, DEBUG_LIVE, DEBUG_COPY];
const SIDECAR: &str = "system:serviceaccount:backstage:breakglass-sidecar";

/// What each right is for: the step that fails without it, in the order of the journeys.
const NEEDED: &[(&str, &str)] = &[
    ("get namespaces", "read the namespace's labels"),
    ("create pods", "make the copy"),
    ("delete pods", "delete the pod"),
    ("get pods", "look at the target"),
    ("list pods", "ask about its controller"),
    ("patch pods", "mark the pod"),
    // A wait that may not watch asks again and again: later, and with more calls (C-9).
    ("watch pods", "wait by a watch, asking once"),
    // API servers ask for it from 1.35 on (C-27), as the stand-in does:
    // `before_1_35_attach_needs_get_alone`.
    ("create pods/attach", "attach"),
    ("get pods/attach", "attach"),
    ("patch pods/ephemeralcontainers", "add the debug container"),
    ("list poddisruptionbudgets", "read the disruption budget"),
    (
        "bind clusterroles tower-breakglass-debug-copy",
        "make the grant",
    ),
    (
        "bind clusterroles tower-breakglass-debug-live",
        "make the grant",
    ),
    ("create rolebindings", "make the grant"),
    ("delete rolebindings", "delete the grant"),
    ("get rolebindings", "find the grant that is there"),
    ("list rolebindings", "look for leftovers"),
];

/// Both journeys end well.
const NOTHING: &str = "nothing";

/// The same in the release of this API server.
async fn needed(cluster: &Cluster) -> Vec<(&'static str, &'static str)> {
    let (_, version) = send(&cluster.admin, Method::GET, "/version", &Value::Null).await;
    let minor = version["minor"].as_str().unwrap_or_default();
    let minor: u32 = minor.trim_end_matches('+').parse().expect("a release");
    let mut needed = NEEDED.to_vec();
    for (right, step) in &mut needed {
        if *right == "create pods/attach" && minor < 35 {
            *step = NOTHING;
        }
    }
    needed
}

/// One verb on one resource, or on one object of it by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
    name: Option<String>,
}

impl Right {
    /// Each right that a role's rules give, once.
    fn all(role: &Value) -> Vec<Self> {
        let texts = |of: &Value| -> Vec<String> {
            let texts = of.as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut rights = Vec::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let names: Vec<Option<String>> = match texts(&rule["resourceNames"]) {
                none if none.is_empty() => vec![None],
                some => some.into_iter().map(Some).collect(),
            };
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        rights.extend(names.iter().map(|name| Self {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb: verb.clone(),
                            name: name.clone(),
                        }));
                    }
                }
            }
        }
        rights
    }

    fn rule(&self) -> Value {
        let mut rule = json!({ "apiGroups": [self.group], "resources": [self.resource],
                               "verbs": [self.verb] });
        if let Some(name) = &self.name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    fn shown(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        format!("{} {} {name}", self.verb, self.resource)
            .trim_end()
            .to_owned()
    }

    /// Whether `user` has it, by the API server's own authorizer.
    async fn held_by(&self, cluster: &Cluster, user: &str, namespace: &str) -> bool {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, subresource),
            None => (self.resource.as_str(), ""),
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": user, "resourceAttributes": {
                "namespace": namespace, "group": self.group, "resource": resource,
                "subresource": subresource, "verb": self.verb, "name": self.name } },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let (_, answer) = send(&cluster.admin, Method::POST, path, &review).await;
        answer["status"]["allowed"] == true
    }
}

/// The three roles, as they were rendered and applied.
struct Roles<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    rendered: Vec<Value>,
}

impl<'a> Roles<'a> {
    async fn read(cluster: &'a Cluster, namespace: &'a str) -> Self {
        let mut rendered = Vec::new();
        for role in ROLES {
            let (status, mut role) =
                send(&cluster.admin, Method::GET, &path(role), &Value::Null).await;
            assert_eq!(status, 200, "{role}");
            let metadata = role["metadata"].as_object_mut().expect("metadata");
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
            rendered.push(role);
        }
        // Who holds what a grant gives, without a grant: to see that a right is gone.
        for role in [DEBUG_LIVE, DEBUG_COPY] {
            let mut holder = binding(role);
            holder["metadata"]["name"] = json!(format!("holds-{role}"));
            holder["subjects"] = json!([{ "apiGroup": "rbac.authorization.k8s.io",
                                          "kind": "User", "name": holder_of(role) }]);
            cluster
                .as_admin(Method::POST, &bindings(namespace), &holder)
                .await;
        }
        Self {
            cluster,
            namespace,
            rendered,
        }
    }

    fn rights(&self) -> Vec<Right> {
        let mut rights: Vec<Right> = self.rendered.iter().flat_map(Right::all).collect();
        rights.sort();
        rights.dedup();
        rights
    }

    /// Writes them, less `taken`, and waits until the API server goes by that.
    async fn write(&self, taken: Option<&Right>) {
        for role in &self.rendered {
            let mut role = role.clone();
            let kept = Right::all(&role)
                .into_iter()
                .filter(|right| Some(right) != taken);
            role["rules"] = kept.map(|right| right.rule()).collect();
            let name = role["metadata"]["name"].as_str().expect("a name");
            self.cluster.as_admin(Method::PUT, &path(name), &role).await;
        }
        for role in &self.rendered {
            let name = role["metadata"]["name"].as_str().expect("a name");
            let user = if name == BACKEND {
                SIDECAR
            } else {
                holder_of(name)
            };
            for right in Right::all(role) {
                let held = taken != Some(&right);
                until(
                    &format!("{} of {name}: {held}", right.shown()),
                    async || right.held_by(self.cluster, user, self.namespace).await == held,
                )
                .await;
            }
        }
    }

    /// Both journeys, the copy's first: it leaves the app as it is.
    async fn travel(&self) -> Result<(), Broken> {
        let outcome = self.journeys().await;
        self.clear().await;
        outcome
    }

    async fn journeys(&self) -> Result<(), Broken> {
        let app = fresh_pod(self.cluster, self.namespace).await;
        let copy = Journey::new(self.cluster, self.namespace).await;
        copy.copy(&app).await?;
        let live = Journey::new(self.cluster, self.namespace).await;
        live.live(&app).await
    }

    /// The app makes itself new pods.
    async fn clear(&self) {
        let ours = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtower-breakglass";
        let left = [
            format!("{}?{ours}", bindings(self.namespace)),
            format!(
                "/api/v1/namespaces/{}/pods?gracePeriodSeconds=0",
                self.namespace
            ),
        ];
        for path in left {
            let (status, answer) =
                send(&self.cluster.admin, Method::DELETE, &path, &Value::Null).await;
            assert_eq!(status, 200, "{answer}");
        }
    }
}

fn path(role: &str) -> String {
    format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")
}

fn holder_of(role: &str) -> &'static str {
    if role == DEBUG_LIVE {
        "holds-live"
    } else {
        "holds-copy"
    }
}

#[tokio::test]
async fn c_2a_the_rendered_rights_are_enough_and_each_is_needed() {
    let Some(cluster) = Cluster::of_this_run().await else {
        return;
    };
    let namespace = cluster.budgeted_app("rbac-needed").await;
    let needed = needed(&cluster).await;
    let roles = Roles::read(&cluster, &namespace).await;
    roles.travel().await.expect("every right is there");
    let mut found = Vec::new();
    let taking = async {
        for right in roles.rights() {
            roles.write(Some(&right)).await;
            let step = match roles.travel().await {
                Ok(()) => NOTHING,
                Err((step, _)) => step,
            };
            found.push((right.shown(), step));
        }
    };
    let taken = futures_util::FutureExt::catch_unwind(AssertUnwindSafe(taking)).await;
    roles.write(None).await;
    cluster.forget(&namespace).await;
    taken.expect("each right was tried");
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(right, step)| (&**right, *step))
        .collect();
    assert_eq!(found, needed);
}
