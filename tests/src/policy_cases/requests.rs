//! A case as the API server's admission would see it, without one: for the proofs that judge
//! thousands of requests (P-4, P-8, P-9). The real API server takes the same cases (P-10).
//!
//! Not here: what the API server fills in, but for the token of a pod that does not refuse one. No
//! other case depends on it, or its verdict would differ between here and there.

use super::objects::{Lists, given_grant, merge};
use super::{Action, Actor, Case, CasePod, Place, actor_groups};
use serde_json::{Value, json};

const NAMESPACE: &str = "cases";
const GIVEN: &str = "given-0";

impl Place {
    /// The labels of its namespace.
    #[must_use]
    pub fn labels(self) -> Value {
        match self {
            Self::App => json!({ "hangar.io/app": "shop", "hangar.io/env": "prod" }),
            Self::Ground => json!({ "hangar.io/app": "shop", "hangar.io/tier": "Ground" }),
            Self::Preview => json!({ "hangar.io/app": "shop", "hangar.io/ephemeral-env": "true" }),
            Self::SaysFlight => json!({ "hangar.io/app": "shop", "hangar.io/tier": "Flight",
                                        "hangar.io/ephemeral-env": "false" }),
            Self::Plain => json!({ "team": "shop" }),
            Self::Unnamed => json!({ "hangar.io/app": "" }),
        }
    }
}

impl Actor {
    /// The user's name; `backend` is Break-glass's.
    #[must_use]
    pub fn user(self, backend: &str) -> &str {
        match self {
            Self::Backend => backend,
            Self::Operator => "olga",
            Self::Developer => "dave",
            Self::Kyverno => "system:serviceaccount:kyverno:kyverno-admission-controller",
            Self::KyvernoCleanup => "system:serviceaccount:kyverno:kyverno-cleanup-controller",
            Self::Controller => "system:serviceaccount:kube-system:replicaset-controller",
            Self::Applier => "system:serviceaccount:argocd:argocd-application-controller",
        }
    }
}

/// What is asked: of which resource, and with which objects.
struct Asked {
    operation: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    sub: &'static str,
    object: Value,
    old: Value,
    named: bool,
    /// Nor in a namespace, where it is the whole cluster's.
    everywhere: bool,
}

impl Asked {
    fn pod(operation: &'static str, sub: &'static str, object: Value, old: Value) -> Self {
        Self {
            operation,
            group: "",
            version: "v1",
            resource: "pods",
            sub,
            object,
            old,
            named: true,
            everywhere: false,
        }
    }

    fn grant(operation: &'static str, object: Value, old: Value) -> Self {
        Self {
            group: "rbac.authorization.k8s.io",
            resource: "rolebindings",
            ..Self::pod(operation, "", object, old)
        }
    }
}

impl Case {
    /// The request as `policies::eval` takes it.
    ///
    /// # Errors
    /// What the builders say.
    pub fn request(&self, backend: &str) -> Result<Value, String> {
        let asked = self.asked(backend)?;
        let subject = if asked.object.is_null() {
            &asked.old
        } else {
            &asked.object
        };
        let named = subject["metadata"]["name"].as_str().unwrap_or(GIVEN);
        let user = self.actor.user(backend);
        let mut groups: Vec<&str> = actor_groups(self.actor).to_vec();
        groups.push("system:authenticated");
        let kind = match asked.sub {
            "exec" => json!({ "group": "", "version": "v1", "kind": "PodExecOptions" }),
            "attach" => json!({ "group": "", "version": "v1", "kind": "PodAttachOptions" }),
            "portforward" => {
                json!({ "group": "", "version": "v1", "kind": "PodPortForwardOptions" })
            }
            "eviction" => json!({ "group": "policy", "version": "v1", "kind": "Eviction" }),
            _ => json!({ "group": asked.group, "version": asked.version,
                         "kind": subject["kind"] }),
        };
        Ok(json!({
            "operation": asked.operation,
            "kind": kind,
            "resource": { "group": asked.group, "version": asked.version,
                          "resource": asked.resource },
            "subResource": asked.sub,
            "name": if asked.named { named } else { "" },
            "namespace": if asked.everywhere { "" } else { NAMESPACE },
            "userInfo": { "username": user, "groups": groups },
            "object": asked.object,
            "oldObject": asked.old,
            "namespaceObject": (!asked.everywhere).then(|| self.namespace()),
        }))
    }

    fn namespace(&self) -> Value {
        json!({ "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": NAMESPACE, "labels": self.place.labels() } })
    }

    fn given_pod(&self) -> Value {
        let CasePod {
            mut manifest,
            ephemeral,
        } = CasePod::of(&self.given);
        // Deleting a collection finds a name that its request does not have.
        manifest["metadata"]["name"] = json!(GIVEN);
        manifest["metadata"]["namespace"] = json!(NAMESPACE);
        if !ephemeral.is_empty() {
            manifest["spec"]["ephemeralContainers"] = Value::Array(ephemeral);
        }
        manifest
    }

    /// The options of a connection.
    fn options(&self, kind: &str) -> Value {
        let mut options = json!({ "apiVersion": "v1", "kind": kind, "stdout": true });
        if let Some(name) = self.body["container"].as_str() {
            options["container"] = json!(name);
        }
        options
    }

    fn asked(&self, backend: &str) -> Result<Asked, String> {
        let pod = || self.given_pod();
        let patched = |lists| {
            let mut changed = self.given_pod();
            patch(&mut changed, &self.body, lists);
            changed
        };
        let new = || {
            let mut new = self.body.clone();
            new["metadata"]["namespace"] = json!(NAMESPACE);
            new
        };
        Ok(match self.action {
            Action::CreateGrant => Asked::grant("CREATE", new(), Value::Null),
            Action::UpdateGrant => {
                let old = given_grant(&self.given, backend)?;
                let mut object = old.clone();
                merge(&mut object, &self.body, Lists::Replaced);
                Asked::grant("UPDATE", object, old)
            }
            Action::DeleteGrant => {
                Asked::grant("DELETE", Value::Null, given_grant(&self.given, backend)?)
            }
            Action::AddDebug | Action::AddNothing => Asked::pod(
                "UPDATE",
                "ephemeralcontainers",
                patched(Lists::ByName),
                pod(),
            ),
            Action::CreateCopy | Action::CreatePod => {
                let mut new = new();
                give_a_token(&mut new["spec"]);
                Asked::pod("CREATE", "", new, Value::Null)
            }
            Action::DeletePod => Asked::pod("DELETE", "", Value::Null, pod()),
            Action::DeleteAll => Asked {
                named: false,
                ..Asked::pod("DELETE", "", Value::Null, pod())
            },
            Action::Evict => Asked::pod("CREATE", "eviction", eviction(), Value::Null),
            Action::PatchPod => Asked::pod("UPDATE", "", patched(Lists::ByName), pod()),
            Action::PatchStatus => Asked::pod("UPDATE", "status", patched(Lists::ByName), pod()),
            Action::Resize => Asked::pod("UPDATE", "resize", patched(Lists::ByName), pod()),
            Action::Exec => Asked::pod(
                "CONNECT",
                "exec",
                self.options("PodExecOptions"),
                Value::Null,
            ),
            Action::Attach => Asked::pod(
                "CONNECT",
                "attach",
                self.options("PodAttachOptions"),
                Value::Null,
            ),
            Action::PortForward => Asked::pod(
                "CONNECT",
                "portforward",
                self.options("PodPortForwardOptions"),
                Value::Null,
            ),
            Action::Except => exception("policies.kyverno.io", "v1", new()),
            Action::ExceptOld => exception("kyverno.io", "v2", new()),
            Action::MakePolicy => self.policy("CREATE", "", self.body.clone(), Value::Null),
            Action::ChangePolicy => self.changed_policy(""),
            Action::ChangePolicyStatus => self.changed_policy("status"),
            Action::DeletePolicy => self.policy("DELETE", "", Value::Null, self.given_policy()),
        })
    }

    fn policy(&self, operation: &'static str, sub: &'static str, new: Value, old: Value) -> Asked {
        Asked {
            group: "policies.kyverno.io",
            resource: self.policies(),
            everywhere: true,
            ..Asked::pod(operation, sub, new, old)
        }
    }

    fn changed_policy(&self, sub: &'static str) -> Asked {
        let mut new = self.given_policy();
        merge(&mut new, &self.body, Lists::Replaced);
        self.policy("UPDATE", sub, new, self.given_policy())
    }
}

fn exception(group: &'static str, version: &'static str, new: Value) -> Asked {
    Asked {
        group,
        version,
        resource: "policyexceptions",
        ..Asked::pod("CREATE", "", new, Value::Null)
    }
}

fn eviction() -> Value {
    json!({ "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": { "name": GIVEN, "namespace": NAMESPACE } })
}

/// What the API server's own admission gives a pod that does not refuse it.
fn give_a_token(spec: &mut Value) {
    if spec["automountServiceAccountToken"] == false {
        return;
    }
    let name = "kube-api-access";
    let token = json!({ "name": name, "projected": { "sources": [
        { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
    ] } });
    add(spec, "volumes", token);
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        let path = "/var/run/secrets/kubernetes.io/serviceaccount";
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        if mounts.into_iter().any(|mount| mount["mountPath"] == path) {
            continue;
        }
        let mount = json!({ "name": name, "mountPath": path, "readOnly": true });
        add(container, "volumeMounts", mount);
    }
}

fn add(to: &mut Value, key: &str, element: Value) {
    match to[key].as_array_mut() {
        Some(list) => list.push(element),
        None => to[key] = json!([element]),
    }
}

/// A patch with the two directives of a strategic merge that the cases use.
fn patch(pod: &mut Value, body: &Value, lists: Lists) {
    let mut body = body.clone();
    let finalizers = "$deleteFromPrimitiveList/finalizers";
    let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        if let Some(gone) = metadata.remove(finalizers) {
            let kept = pod["metadata"]["finalizers"].as_array().cloned();
            let kept = kept.into_iter().flatten();
            let gone = gone.as_array().cloned().unwrap_or_default();
            let kept: Vec<_> = kept.filter(|one| !gone.contains(one)).collect();
            emptied(pod, "finalizers", kept);
        }
        let owners = metadata.get("ownerReferences").cloned();
        let deletes = |one: &Value| one["$patch"] == "delete";
        let is_deletion = |all: &Value| all.as_array().is_some_and(|all| all.iter().all(deletes));
        if owners.as_ref().is_some_and(is_deletion) {
            metadata.remove("ownerReferences");
            emptied(pod, "ownerReferences", Vec::new());
        }
    }
    merge(pod, &body, lists);
}

/// A list of the metadata; an empty one is not written.
fn emptied(pod: &mut Value, key: &str, kept: Vec<Value>) {
    let metadata = pod.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove(key);
        if !kept.is_empty() {
            metadata.insert(key.to_owned(), Value::Array(kept));
        }
    }
}
