//! What is right, from the builders of `decisions`, and small changes of it.

use super::{Action, Actor, Written};
use decisions::copy_pod::{CopySpec, copy_pod};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::mounts::volume_mounts;
use decisions::pod::PodFacts;
use decisions::session::{Mode, SessionId, UserRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The session of every case.
pub const SESSION: &str = "0123456789ab";
/// The installation of every case.
pub const INSTALLATION: &str = "cases";
/// What the cases say that a webhook of the cluster writes on every pod.
pub const COPY_ANNOTATIONS: [&str; 1] = ["example.org/seen-by-a-webhook"];
/// The configured debug images: the first is used, both are accepted.
pub const DEBUG_IMAGES: [&str; 2] = [
    "ghcr.io/hangar/tower-debug@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "ghcr.io/hangar/tower-debug@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];
/// The app's image.
pub const APP_IMAGE: &str =
    "ghcr.io/hangar/app@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

/// The groups of a user, as the API server reports them.
#[must_use]
pub fn actor_groups(actor: Actor) -> &'static [&'static str] {
    match actor {
        Actor::Operator => &["platform:oncall"],
        Actor::Developer => &["team-shop"],
        Actor::Backend
        | Actor::Kyverno
        | Actor::KyvernoCleanup
        | Actor::Controller
        | Actor::Applier => &[],
    }
}

/// How lists come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// The new one is taken.
    Replaced,
    /// Entries of the same name are merged, others are added.
    ByName,
}

/// A pod that is there before the request.
#[derive(Debug, Clone, PartialEq)]
pub struct CasePod {
    /// To be created.
    pub manifest: Value,
    /// To be added then.
    pub ephemeral: Vec<Value>,
}

impl CasePod {
    /// The pod of an app, as `given` changes it. Nothing schedules it: only the API sees it.
    #[must_use]
    pub fn of(given: &Value) -> Self {
        let mut manifest = app_pod();
        merge(&mut manifest, given, Lists::ByName);
        let spec = manifest["spec"].as_object_mut();
        let ephemeral = spec.and_then(|spec| spec.remove("ephemeralContainers"));
        let ephemeral = match ephemeral {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        Self {
            manifest,
            ephemeral,
        }
    }
}

fn app_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "labels": { "app.kubernetes.io/name": "shop" } },
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "app",
                "image": APP_IMAGE,
                "resources": { "limits": { "cpu": "100m", "memory": "64Mi" },
                               "requests": { "cpu": "50m", "memory": "32Mi" } },
                "volumeMounts": [
                    { "name": "data", "mountPath": "/data" },
                    { "name": "settings", "mountPath": "/settings", "readOnly": true },
                ],
            }],
            "volumes": [
                { "name": "data", "emptyDir": {} },
                { "name": "settings", "configMap": { "name": "settings", "optional": true } },
                { "name": "identity", "projected": { "sources": [
                    { "serviceAccountToken": { "path": "token", "expirationSeconds": 3600 } },
                ] } },
            ],
        },
    })
}

fn id() -> Result<SessionId, String> {
    SessionId::parse(SESSION).map_err(|error| error.to_string())
}

/// A grant as the builders make it, in no namespace yet.
///
/// # Errors
/// What the builders say.
pub fn good_grant(backend: &str) -> Result<Value, String> {
    let at = "2030-01-01T10:30:00Z".parse();
    Ok(grant(&GrantSpec {
        id: id()?,
        namespace: String::new(),
        mode: Mode::Live,
        subject: Subject::from_username(backend),
        duration_minutes: 30,
        requester: UserRef::new("user:default/alice"),
        sanction: Sanction::Approved(UserRef::new("user:default/bob")),
        expires_at: at.map_err(|_| "a time".to_owned())?,
        installation: INSTALLATION.to_owned(),
        second: false,
    }))
}

fn facts(pod: Value) -> Result<PodFacts, String> {
    serde_json::from_value(pod).map_err(|error| error.to_string())
}

/// A debug container with the app's volumes, in a pod as it is at `given`.
fn good_debug(given: &Value) -> Result<Value, String> {
    let mut pod = app_pod();
    merge(&mut pod, given, Lists::ByName);
    // The builder refuses what the policies refuse: the case is about the latter.
    pod["spec"]["shareProcessNamespace"] = json!(false);
    pod["spec"]["hostPID"] = json!(false);
    pod["metadata"]["name"] = json!("shop");
    let pod = facts(pod)?;
    let made = debug_container(&DebugSpec {
        id: &id()?,
        image: DEBUG_IMAGES[0],
        pod: &pod,
        container: "app",
        process_access: false,
        mounts: &volume_mounts(&pod, "app").mounts,
        deadline_seconds: 2760,
        user: DebugUser::default(),
    });
    made.map(|made| json!(made))
        .map_err(|error| error.to_string())
}

/// A copy as the builders make it, in no namespace yet.
///
/// # Errors
/// What the builders say.
pub fn good_copy() -> Result<Value, String> {
    let mut pod = app_pod();
    pod["metadata"]["name"] = json!("shop");
    pod["metadata"]["namespace"] = json!("shop");
    let at = "2030-01-01T10:30:00Z".parse();
    let made = copy_pod(&CopySpec {
        id: &id()?,
        installation: INSTALLATION,
        requester: &UserRef::new("user:default/alice"),
        expires_at: at.map_err(|_| "a time".to_owned())?,
        duration_minutes: 30,
        pod: &facts(pod)?,
        container: "app",
        hold_app: false,
        volume_access: true,
        image: DEBUG_IMAGES[0],
        user: DebugUser::default(),
        claims: &BTreeMap::new(),
    });
    let mut manifest = made.map_err(|error| error.to_string())?.manifest;
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    Ok(manifest)
}

fn exception() -> Value {
    json!({
        "apiVersion": "policies.kyverno.io/v1",
        "kind": "PolicyException",
        "metadata": { "name": "exception" },
        "spec": {
            "policyRefs": [{ "name": "tower-breakglass-pod-delete", "kind": "ValidatingPolicy" }],
            "matchConditions": [{ "name": "all", "expression": "true" }],
        },
    })
}

/// Of Kyverno's older kind.
fn old_exception() -> Value {
    json!({
        "apiVersion": "kyverno.io/v2",
        "kind": "PolicyException",
        "metadata": { "name": "exception" },
        "spec": {
            "exceptions": [{ "policyName": "tower-breakglass-pod-delete", "ruleNames": ["*"] }],
            "match": { "any": [{ "resources": { "kinds": ["Pod"] } }] },
        },
    })
}

/// A policy of Kyverno's in a fence's name, of the kind that `change` says. It judges nothing.
fn policy(change: &Value) -> Value {
    let images = change["kind"] == "ImageValidatingPolicy";
    let mut spec = json!({
        "evaluation": { "admission": { "enabled": false }, "background": { "enabled": false } },
        "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"] }] },
        "validations": [{ "expression": "true" }],
    });
    if images {
        spec["attestors"] = json!([{ "name": "nobody", "cosign": {
            "keyless": { "identities": [{ "issuer": "https://issuer.example.org",
                                          "subject": "nobody" }] },
            "ctlog": { "url": "https://log.example.org" } } }]);
        spec["matchImageReferences"] = json!([{ "glob": "nobodys/*" }]);
    }
    let kind = match images {
        true => "ImageValidatingPolicy",
        false => "ValidatingPolicy",
    };
    let mut policy = json!({ "apiVersion": "policies.kyverno.io/v1", "kind": kind,
        "metadata": { "name": "tower-breakglass-of-a-case" }, "spec": spec });
    merge(&mut policy, change, Lists::Replaced);
    policy
}

/// The request's body.
pub(super) fn body(written: &Written, backend: &str) -> Result<Value, String> {
    let changed = |mut good: Value| {
        merge(&mut good, &written.patch, Lists::Replaced);
        if let Some(metadata) = good["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        good
    };
    Ok(match written.request {
        Action::CreateGrant => changed(good_grant(backend)?),
        Action::UpdateGrant
        | Action::PatchPod
        | Action::PatchStatus
        | Action::Resize
        | Action::ChangePolicy
        | Action::ChangePolicyStatus
        | Action::Exec
        | Action::Attach => written.patch.clone(),
        Action::AddDebug => {
            let good = good_debug(&written.given)?;
            let mut added = Vec::new();
            for change in std::iter::once(&written.debug).chain(&written.also) {
                let mut container = good.clone();
                merge(&mut container, change, Lists::Replaced);
                added.push(container);
            }
            json!({ "spec": { "ephemeralContainers": added } })
        }
        Action::CreateCopy => {
            let mut pod = good_copy()?;
            let containers = pod["spec"]["containers"].as_array_mut();
            for container in containers.into_iter().flatten() {
                let is_debug = container["name"] == format!("debug-{SESSION}");
                let change = if is_debug {
                    &written.debug
                } else {
                    &written.app
                };
                merge(container, change, Lists::Replaced);
            }
            merge(&mut pod, &written.patch, Lists::ByName);
            pod
        }
        Action::CreatePod => {
            let mut pod = app_pod();
            pod["metadata"]["name"] = json!("another");
            merge(&mut pod, &written.patch, Lists::ByName);
            pod
        }
        Action::Except => changed(exception()),
        Action::ExceptOld => changed(old_exception()),
        Action::MakePolicy => policy(&written.patch),
        Action::AddNothing
        | Action::DeleteGrant
        | Action::DeletePod
        | Action::DeleteAll
        | Action::DeletePolicy
        | Action::Evict
        | Action::PortForward => Value::Null,
    })
}

/// The binding that is there before the request.
pub(super) fn given_grant(given: &Value, backend: &str) -> Result<Value, String> {
    let mut binding = good_grant(backend)?;
    merge(&mut binding, given, Lists::Replaced);
    if let Some(metadata) = binding["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    Ok(binding)
}

impl super::Case {
    /// The binding that is there before the request, named by nobody but the case.
    ///
    /// # Errors
    /// What the builders say.
    pub fn binding(&self, backend: &str) -> Result<Value, String> {
        given_grant(&self.given, backend)
    }

    /// The policy that is there before the request.
    #[must_use]
    pub fn given_policy(&self) -> Value {
        policy(&self.given)
    }

    /// The resource of the policy that is made, or that is there before.
    #[must_use]
    pub fn policies(&self) -> &'static str {
        let made = self.action == Action::MakePolicy;
        let policy = if made { &self.body } else { &self.given };
        match policy["kind"] == "ImageValidatingPolicy" {
            true => "imagevalidatingpolicies",
            false => "validatingpolicies",
        }
    }
}

/// Puts a value at the end of a way, making the maps on it.
pub(super) fn put(into: &mut Value, at: &[String], value: Value) {
    match at.split_first() {
        None => *into = value,
        Some((first, below)) => {
            if !into.is_object() {
                *into = Value::Object(Map::new());
            }
            put(&mut into[first.as_str()], below, value);
        }
    }
}

/// Changes `base` by `patch`: maps are merged, null removes.
pub(super) fn merge(base: &mut Value, patch: &Value, lists: Lists) {
    match (base, patch) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(patch)) => {
            for (key, change) in patch {
                if change.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), change, lists);
                }
            }
        }
        (Value::Array(base), Value::Array(patch)) if lists == Lists::ByName => {
            for change in patch {
                let same = |other: &&mut Value| {
                    change["name"].is_string() && other["name"] == change["name"]
                };
                match base.iter_mut().find(same) {
                    Some(known) => merge(known, change, lists),
                    None => base.push(change.clone()),
                }
            }
        }
        (base, patch) => {
            // A map in place of something else still drops its nulls.
            if patch.is_object() {
                *base = Value::Object(Map::new());
                merge(base, patch, lists);
            } else {
                *base = patch.clone();
            }
        }
    }
}
