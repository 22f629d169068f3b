//! Pods over HTTP: read, create, patch, delete, add ephemeral containers.

use http::Response;
use serde_json::{Value, json};

use crate::api::Call;
use crate::http_io::{self, Body};
use crate::kubelet::{self, Kind};
use crate::patch::{PatchKind, apply, fields_match, labels_match};
use crate::refusal::Refusal;
use crate::workload;
use crate::world::list as list_of;

type Answer = Result<Response<Body>, Refusal>;

/// What an ephemeral container may not have (`core/v1` EphemeralContainerCommon).
const NOT_EPHEMERAL: [&str; 7] = [
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
];

pub(crate) fn get(call: &Call) -> Answer {
    let state = call.world.read();
    let pod = state.pods.get(&call.key());
    let pod = pod.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
    Ok(http_io::json(200, &pod.object))
}

pub(crate) fn list(call: &Call) -> Answer {
    let state = call.world.read();
    let mut items = Vec::new();
    for ((namespace, _), pod) in &state.pods {
        let here = call
            .action
            .namespace
            .as_ref()
            .is_none_or(|wanted| wanted == namespace);
        if here
            && labels_match(call.selector("labelSelector"), &pod.object)?
            && fields_match(call.selector("fieldSelector"), &pod.object)?
        {
            items.push(pod.object.clone());
        }
    }
    Ok(http_io::json(
        200,
        &list_of("Pod", "v1", state.version, items),
    ))
}

pub(crate) fn create(call: &Call) -> Answer {
    let name = call.new_name("Pod")?;
    let mut object = call.body.clone();
    let containers = object["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if containers.is_empty() {
        return Err(Refusal::invalid(
            "Pod",
            &name,
            "spec.containers",
            "Required value",
        ));
    }
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                let field = format!("spec.containers[{index}].{field}");
                return Err(Refusal::invalid("Pod", &name, &field, "Required value"));
            }
        }
        check_mounts(
            &object,
            container,
            &name,
            &format!("spec.containers[{index}]"),
        )?;
    }
    let key = (call.namespace().to_owned(), name.clone());
    if call.world.read().pods.contains_key(&key) {
        return Err(Refusal::already_exists(&call.action, &name));
    }
    object["apiVersion"] = "v1".into();
    object["kind"] = "Pod".into();
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = call.namespace().into();
    for (field, default) in [
        ("nodeName", json!("node-1")),
        ("restartPolicy", json!("Always")),
        ("serviceAccountName", json!("default")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("securityContext", json!({})),
    ] {
        let slot = &mut object["spec"][field];
        if slot.is_null() {
            *slot = default;
        }
    }
    if call.dry_run() {
        return Ok(http_io::json(201, &object));
    }
    let key = workload::add_pod(&call.world, object, "Pending");
    let object = call
        .world
        .read()
        .pods
        .get(&key)
        .map(|pod| pod.object.clone());
    kubelet::run_pod(&call.world, &key);
    Ok(http_io::json(201, &object.unwrap_or_default()))
}

fn patch_kind(call: &Call) -> Result<PatchKind, Refusal> {
    PatchKind::from_content_type(&call.content_type).ok_or_else(|| {
        let message = "the body of the request was in an unknown format - accepted media types \
                       include: application/merge-patch+json, \
                       application/strategic-merge-patch+json";
        Refusal::new(415, "UnsupportedMediaType", message)
    })
}

/// Changes a pod's metadata. A change of its spec is refused: nothing here needs the few fields
/// that Kubernetes would let change.
pub(crate) fn patch(call: &Call) -> Answer {
    let kind = patch_kind(call)?;
    let key = call.key();
    let object = call.world.change(|state| {
        let pod = state.pods.get_mut(&key);
        let pod = pod.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
        let mut changed = pod.object.clone();
        apply(kind, &mut changed, &call.body)?;
        check_identity(call, &pod.object, &changed)?;
        if changed["spec"] != pod.object["spec"] {
            let why = "Forbidden: pod updates may not change fields other than \
                `spec.containers[*].image`,`spec.initContainers[*].image`,\
                `spec.activeDeadlineSeconds`,`spec.tolerations`,\
                `spec.terminationGracePeriodSeconds`";
            return Err(Refusal::invalid("Pod", call.name(), "spec", why));
        }
        check_annotations(&changed, call.name())?;
        if call.dry_run() {
            return Ok(changed);
        }
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let value = changed["metadata"][field].clone();
            match value.is_null() {
                false => pod.object["metadata"][field] = value,
                true => {
                    if let Some(metadata) = pod.object["metadata"].as_object_mut() {
                        metadata.remove(field);
                    }
                }
            }
        }
        state.publish("MODIFIED", &key);
        Ok(state
            .pods
            .get(&key)
            .map(|pod| pod.object.clone())
            .unwrap_or_default())
    })?;
    Ok(http_io::json(200, &object))
}

/// UID and resource version in a change must be those of the object, if they are given.
fn check_identity(call: &Call, before: &Value, after: &Value) -> Result<(), Refusal> {
    let field = |object: &Value, name: &str| object["metadata"][name].clone();
    if field(before, "uid") != field(after, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            field(after, "uid").as_str().unwrap_or_default(),
            field(before, "uid").as_str().unwrap_or_default(),
        );
        return Err(Refusal::conflict(&call.action, call.name(), &why));
    }
    if field(before, "resourceVersion") != field(after, "resourceVersion") {
        return Err(Refusal::modified(&call.action, call.name()));
    }
    if field(before, "name") != field(after, "name")
        || field(before, "namespace") != field(after, "namespace")
    {
        let message = "the name of the object does not match the name on the URL";
        return Err(Refusal::bad_request(message));
    }
    Ok(())
}

fn check_annotations(object: &Value, name: &str) -> Result<(), Refusal> {
    for field in ["annotations", "labels"] {
        let Some(pairs) = object["metadata"][field].as_object() else {
            continue;
        };
        if let Some((key, _)) = pairs.iter().find(|(_, value)| !value.is_string()) {
            let field = format!("metadata.{field}.{key}");
            return Err(Refusal::invalid("Pod", name, &field, "must be a string"));
        }
    }
    Ok(())
}

pub(crate) fn delete(call: &Call) -> Answer {
    let key = call.key();
    let object = {
        let state = call.world.read();
        let pod = state.pods.get(&key);
        pod.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?
            .object
            .clone()
    };
    call.check_preconditions(&object)?;
    let asked = call.body["gracePeriodSeconds"].as_u64();
    let grace = asked
        .or_else(|| {
            call.query
                .get("gracePeriodSeconds")
                .and_then(|text| text.parse().ok())
        })
        .or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_u64())
        .unwrap_or(30);
    if !call.dry_run() {
        kubelet::delete_pod(&call.world, &key, grace);
    }
    let state = call.world.read();
    let object = state
        .pods
        .get(&key)
        .map_or(object, |pod| pod.object.clone());
    Ok(http_io::json(200, &object))
}

/// Adds ephemeral containers, by a patch or by a whole pod with its resource version.
pub(crate) fn change_ephemeral_containers(call: &Call) -> Answer {
    let key = call.key();
    let (object, uid, added) = call.world.change(|state| {
        let pod = state.pods.get_mut(&key);
        let pod = pod.ok_or_else(|| Refusal::not_found(&call.action, call.name()))?;
        let mut changed = pod.object.clone();
        if call.action.verb == "patch" {
            apply(patch_kind(call)?, &mut changed, &call.body)?;
        } else {
            changed = call.body.clone();
            fill_identity(&mut changed, &pod.object);
        }
        check_identity(call, &pod.object, &changed)?;
        let added = check_ephemeral(&pod.object, &changed, call.name())?;
        if call.dry_run() {
            return Ok((changed, String::new(), Vec::new()));
        }
        // The subresource changes this list and nothing else.
        pod.object["spec"]["ephemeralContainers"] = changed["spec"]["ephemeralContainers"].clone();
        let uid = pod.uid().to_owned();
        state.publish("MODIFIED", &key);
        let object = state
            .pods
            .get(&key)
            .map(|pod| pod.object.clone())
            .unwrap_or_default();
        Ok((object, uid, added))
    })?;
    for name in added {
        kubelet::start_container(&call.world, &key, &uid, &name, Kind::Ephemeral);
    }
    Ok(http_io::json(200, &object))
}

/// A whole pod may leave out what it does not want checked.
fn fill_identity(changed: &mut Value, before: &Value) {
    for field in ["uid", "resourceVersion", "name", "namespace"] {
        if changed["metadata"][field].is_null() {
            changed["metadata"][field] = before["metadata"][field].clone();
        }
    }
}

/// The names that `after` adds, if it changes nothing else.
fn check_ephemeral(before: &Value, after: &Value, pod: &str) -> Result<Vec<String>, Refusal> {
    const FIELD: &str = "spec.ephemeralContainers";
    let entries = |object: &Value| {
        object["spec"]["ephemeralContainers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let (old, new) = (entries(before), entries(after));
    for one in &old {
        let name = one["name"].as_str().unwrap_or_default();
        if !new.contains(one) {
            let verb = match new.iter().any(|other| other["name"] == one["name"]) {
                true => "changed",
                false => "removed",
            };
            let why =
                format!("Forbidden: existing ephemeral containers \"{name}\" may not be {verb}");
            return Err(Refusal::invalid("Pod", pod, FIELD, &why));
        }
    }
    let mut taken: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .filter_map(|list| before["spec"][list].as_array())
        .flatten()
        .map(|container| &container["name"])
        .collect();
    let mut added = Vec::new();
    for (index, one) in new.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        let name = one["name"].as_str().unwrap_or_default();
        if taken.contains(&&one["name"]) {
            let why = format!("Duplicate value: \"{name}\"");
            return Err(Refusal::invalid("Pod", pod, &format!("{field}.name"), &why));
        }
        taken.push(&one["name"]);
        if !old.contains(one) {
            check_new_ephemeral(before, one, pod, &field)?;
            added.push(name.to_owned());
        }
    }
    Ok(added)
}

fn check_new_ephemeral(pod: &Value, one: &Value, name: &str, field: &str) -> Result<(), Refusal> {
    let invalid =
        |sub: &str, why: &str| Refusal::invalid("Pod", name, &format!("{field}.{sub}"), why);
    for required in ["name", "image"] {
        if one[required].as_str().is_none_or(str::is_empty) {
            return Err(invalid(required, "Required value"));
        }
    }
    for forbidden in NOT_EPHEMERAL {
        if !one[forbidden].is_null() {
            return Err(invalid(
                forbidden,
                "Forbidden: cannot be set for an Ephemeral Container",
            ));
        }
    }
    if let Some(target) = one["targetContainerName"]
        .as_str()
        .filter(|target| !target.is_empty())
    {
        let containers = pod["spec"]["containers"].as_array();
        if !containers.is_some_and(|all| all.iter().any(|one| one["name"] == target)) {
            return Err(invalid(
                "targetContainerName",
                &format!("Not found: \"{target}\""),
            ));
        }
    }
    for mount in one["volumeMounts"].as_array().into_iter().flatten() {
        for sub in ["subPath", "subPathExpr"] {
            if mount[sub].as_str().is_some_and(|path| !path.is_empty()) {
                let why = "Forbidden: cannot be set for an Ephemeral Container";
                return Err(invalid(&format!("volumeMounts.{sub}"), why));
            }
        }
    }
    check_mounts(pod, one, name, field)
}

fn check_mounts(pod: &Value, container: &Value, name: &str, field: &str) -> Result<(), Refusal> {
    for (index, mount) in container["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let volumes = pod["spec"]["volumes"].as_array();
        if !volumes.is_some_and(|all| all.iter().any(|one| one["name"] == mount["name"])) {
            let why = format!("Not found: {}", mount["name"]);
            let field = format!("{field}.volumeMounts[{index}].name");
            return Err(Refusal::invalid("Pod", name, &field, &why));
        }
    }
    Ok(())
}
