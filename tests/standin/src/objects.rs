//! RoleBindings, and what is only read.

use http::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Call;
use crate::http_io::{self, Body};
use crate::patch::labels_match;
use crate::rbac::{COPY_ROLE, LIVE_ROLE, cluster_role};
use crate::refusal::Refusal;
use crate::world::{Binding, list, new_uid, timestamp};

type Answer = Result<Response<Body>, Refusal>;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

pub(crate) fn read_bindings(call: &Call) -> Answer {
    let state = call.world.read();
    if call.action.verb == "get" {
        let binding = state.bindings.get(&call.key());
        let binding = binding.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
        return Ok(http_io::json(200, &binding.object));
    }
    let objects = state.bindings.values().map(|binding| &binding.object);
    let items = select(call, objects)?;
    Ok(http_io::json(
        200,
        &list("RoleBinding", RBAC, state.version, items),
    ))
}

fn select<'a>(
    call: &Call,
    objects: impl Iterator<Item = &'a Value>,
) -> Result<Vec<Value>, Refusal> {
    let mut items = Vec::new();
    for object in objects {
        let namespace = &object["metadata"]["namespace"];
        let here = call
            .action
            .namespace
            .as_ref()
            .is_none_or(|one| namespace == one.as_str());
        if here && labels_match(call.selector("labelSelector"), object)? {
            items.push(object.clone());
        }
    }
    Ok(items)
}

pub(crate) fn create_binding(call: &Call) -> Answer {
    let name = call.new_name("RoleBinding")?;
    for (field, what) in [
        ("apiGroup", "rbac.authorization.k8s.io"),
        ("kind", "ClusterRole"),
    ] {
        let seen = call.body["roleRef"][field].as_str().unwrap_or_default();
        if seen != what && !(field == "kind" && seen == "Role") {
            let why = format!("Unsupported value: \"{seen}\": supported values: \"{what}\"");
            let field = format!("roleRef.{field}");
            return Err(Refusal::invalid("RoleBinding", &name, &field, &why));
        }
    }
    call.world
        .read()
        .authorizer(&call.user, &call.rules)
        .check_bind(&call.body, &call.action)?;
    let mut object = call.body.clone();
    object["apiVersion"] = RBAC.into();
    object["kind"] = "RoleBinding".into();
    object["metadata"]["name"] = name.as_str().into();
    object["metadata"]["namespace"] = call.namespace().into();
    object["metadata"]["uid"] = new_uid().into();
    object["metadata"]["creationTimestamp"] = timestamp().into();
    let key = (call.namespace().to_owned(), name.clone());
    let effective_at = Instant::now() + call.world.options().delays.grant;
    let object = call.world.change(|state| {
        if state.bindings.contains_key(&key) {
            return Err(Refusal::already_exists(&call.action, &name));
        }
        object["metadata"]["resourceVersion"] = state.next_version().to_string().into();
        if !call.dry_run() {
            let binding = Binding {
                object: object.clone(),
                effective_at,
            };
            state.bindings.insert(key, binding);
        }
        Ok(object)
    })?;
    Ok(http_io::json(201, &object))
}

pub(crate) fn delete_binding(call: &Call) -> Answer {
    let key = call.key();
    let uid = call.world.change(|state| {
        let binding = state.bindings.get(&key);
        let binding = binding.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
        call.check_preconditions(&binding.object)?;
        let uid = binding.object["metadata"]["uid"].clone();
        if !call.dry_run() {
            state.bindings.remove(&key);
            state.next_version();
        }
        Ok(uid)
    })?;
    let details = json!({
        "name": call.name(), "group": call.action.group, "kind": call.action.resource, "uid": uid,
    });
    Ok(http_io::json(
        200,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details,
        }),
    ))
}

/// Namespaces, workloads, budgets, accounts and the two ClusterRoles.
pub(crate) fn read_fixed(call: &Call) -> Answer {
    let (kind, api_version) = match call.action.resource.as_str() {
        "namespaces" => ("Namespace", "v1"),
        "serviceaccounts" => ("ServiceAccount", "v1"),
        "deployments" => ("Deployment", "apps/v1"),
        "replicasets" => ("ReplicaSet", "apps/v1"),
        "poddisruptionbudgets" => ("PodDisruptionBudget", "policy/v1"),
        "clusterroles" => ("ClusterRole", RBAC),
        "roles" => ("Role", RBAC),
        _ => return Err(Refusal::unknown_path()),
    };
    let state = call.world.read();
    let all: Vec<Value> = match kind {
        "Namespace" => state.namespaces.values().cloned().collect(),
        "ClusterRole" => cluster_roles(),
        _ => state
            .fixed
            .iter()
            .filter(|((resource, _, _), _)| *resource == call.action.resource)
            .map(|(_, object)| object.clone())
            .collect(),
    };
    let name_is_scope = matches!(kind, "Namespace" | "ClusterRole");
    if call.action.verb == "get" {
        let found = all.iter().find(|object| {
            object["metadata"]["name"] == call.name()
                && (name_is_scope || object["metadata"]["namespace"] == call.namespace())
        });
        let found = found.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
        return Ok(http_io::json(200, found));
    }
    let items = select(call, all.iter())?;
    Ok(http_io::json(
        200,
        &list(kind, api_version, state.version, items),
    ))
}

fn cluster_roles() -> Vec<Value> {
    [LIVE_ROLE, COPY_ROLE]
        .iter()
        .filter_map(|&name| {
            let rules: Vec<Value> = cluster_role(name)?
                .iter()
                .map(|rule| rule.to_json())
                .collect();
            Some(json!({
                "apiVersion": RBAC, "kind": "ClusterRole", "metadata": { "name": name },
                "rules": rules,
            }))
        })
        .collect()
}
