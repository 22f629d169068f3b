//! The controllers: workloads have their pods, and a pod that goes is replaced.

use serde_json::{Value, json};

use crate::kubelet;
use crate::options::{AppSeed, Options};
use crate::world::{Key, Pod, State, Token, World, new_uid, random_text, timestamp};

/// A Deployment with its ReplicaSet.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    seed: AppSeed,
    replica_set: String,
    replica_set_uid: String,
}

/// Fills an empty world from its options; returns the tokens by context.
pub(crate) fn seed(world: &World) -> Vec<(String, String)> {
    let options = world.options().clone();
    let tokens = world.change(|state| {
        seed_namespaces(state, &options);
        seed_tokens(state, &options)
    });
    for app in &options.apps {
        seed_app(world, app);
    }
    tokens
}

fn seed_namespaces(state: &mut State, options: &Options) {
    for (name, labels) in &options.namespaces {
        let mut labels = labels.clone();
        labels["kubernetes.io/metadata.name"] = name.as_str().into();
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": new_uid(), "labels": labels, "creationTimestamp": timestamp(),
                "resourceVersion": state.next_version().to_string(),
            },
            "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
        });
        state.namespaces.insert(name.clone(), object);
    }
    for budget in &options.budgets {
        let mut budget = budget.clone();
        stamp(state, &mut budget);
        fix(state, "poddisruptionbudgets", budget);
    }
}

fn seed_tokens(state: &mut State, options: &Options) -> Vec<(String, String)> {
    let mut tokens = Vec::new();
    for account in &options.accounts {
        let text = format!("standin-{}", random_text(32));
        let token = Token {
            user: account.user.clone(),
            audiences: None,
            expires_at: None,
        };
        state.tokens.insert(text.clone(), token);
        tokens.push((account.context.clone(), text));
        let name = account.user.name.strip_prefix("system:serviceaccount:");
        if let Some((namespace, name)) = name.and_then(|rest| rest.split_once(':')) {
            let mut object = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": name, "namespace": namespace },
            });
            stamp(state, &mut object);
            fix(state, "serviceaccounts", object);
        }
    }
    tokens
}

fn stamp(state: &mut State, object: &mut Value) {
    let metadata = &mut object["metadata"];
    metadata["uid"] = new_uid().into();
    metadata["creationTimestamp"] = timestamp().into();
    metadata["resourceVersion"] = state.next_version().to_string().into();
}

fn fix(state: &mut State, resource: &'static str, object: Value) {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    state
        .fixed
        .insert((resource, text("namespace"), text("name")), object);
}

fn seed_app(world: &World, app: &AppSeed) {
    let workload = Workload {
        seed: app.clone(),
        replica_set: format!("{}-{}", app.name, random_text(9)),
        replica_set_uid: new_uid(),
    };
    if !app.bare {
        world.change(|state| {
            seed_owners(state, &workload);
            state
                .workloads
                .insert((app.namespace.clone(), app.name.clone()), workload.clone());
        });
    }
    for index in 0..app.replicas {
        let name = match (app.bare, index) {
            (false, _) => format!("{}-{}", workload.replica_set, random_text(5)),
            (true, 0) => app.name.clone(),
            (true, n) => format!("{}-{n}", app.name),
        };
        let phase = app.phase.clone();
        add_pod(world, new_pod(&workload, &name), &phase);
    }
}

fn seed_owners(state: &mut State, workload: &Workload) {
    let (namespace, name) = (&workload.seed.namespace, &workload.seed.name);
    let replicas = workload.seed.replicas;
    let (uid, at) = (new_uid(), timestamp());
    let status = json!({
        "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
        "observedGeneration": 1,
    });
    let spec = json!({
        "replicas": replicas, "selector": { "matchLabels": { "app": name } },
        "template": workload.seed.template,
    });
    let version = state.next_version().to_string();
    fix(
        state,
        "deployments",
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid, "labels": { "app": name },
                "creationTimestamp": at, "resourceVersion": version, "generation": 1,
            },
            "spec": spec, "status": status,
        }),
    );
    fix(
        state,
        "replicasets",
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": workload.replica_set, "namespace": namespace, "uid": workload.replica_set_uid,
                "labels": { "app": name }, "creationTimestamp": at, "resourceVersion": version,
                "generation": 1,
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": spec, "status": status,
        }),
    );
}

fn new_pod(workload: &Workload, name: &str) -> Value {
    let mut object = workload.seed.template.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    let metadata = &mut object["metadata"];
    metadata["name"] = name.into();
    metadata["namespace"] = workload.seed.namespace.as_str().into();
    if !workload.seed.bare {
        metadata["labels"]["pod-template-hash"] = workload
            .replica_set
            .rsplit('-')
            .next()
            .unwrap_or_default()
            .into();
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload.replica_set,
            "uid": workload.replica_set_uid, "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    object
}

/// Puts a pod into the world in `phase`, with a UID of its own.
pub(crate) fn add_pod(world: &World, mut object: Value, phase: &str) -> Key {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let key = (text("namespace"), text("name"));
    object["metadata"]["uid"] = new_uid().into();
    object["metadata"]["creationTimestamp"] = timestamp().into();
    kubelet::set_phase(&mut object, phase);
    world.change(|state| {
        state.pods.insert(
            key.clone(),
            Pod {
                object,
                shells: std::collections::BTreeMap::new(),
            },
        );
        state.publish("ADDED", &key);
    });
    key
}

/// Takes a pod away at once and has its controller replace it. False where it is not there, or
/// is another than the one of `uid`.
pub(crate) fn remove_pod(world: &World, key: &Key, uid: Option<&str>) -> Option<Value> {
    let object = world.change(|state| {
        let same = state
            .pods
            .get(key)
            .is_some_and(|pod| uid.is_none_or(|uid| uid == pod.uid()));
        if same { state.remove_pod(key) } else { None }
    })?;
    replace(world, &object);
    Some(object)
}

/// The same name, another UID: what a StatefulSet does, or somebody by hand.
pub(crate) fn replace_in_place(world: &World, key: &Key) -> bool {
    let Some(mut object) = world.change(|state| state.remove_pod(key)) else {
        return false;
    };
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("ephemeralContainers");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    object["status"] = json!({});
    add_pod(world, object, "Running");
    true
}

fn replace(world: &World, gone: &Value) {
    let namespace = gone["metadata"]["namespace"].as_str().unwrap_or_default();
    let owner = gone["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap_or_default();
    let workload = world
        .read()
        .workloads
        .values()
        .find(|one| one.seed.namespace == namespace && one.replica_set_uid == owner)
        .cloned();
    let Some(workload) = workload else { return };
    let name = format!("{}-{}", workload.replica_set, random_text(5));
    let key = add_pod(world, new_pod(&workload, &name), "Pending");
    kubelet::run_pod(world, &key);
}
