//! What the admission policies demand of each object (spec 07's table), as plain predicates: the
//! first thing that is wrong, in words.

use crate::names;
use serde_json::Value;

/// What a policy would refuse, or nothing.
pub(crate) type Verdict = Result<(), String>;

fn demand(holds: bool, what: &str) -> Verdict {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

fn ttl_minutes(object: &Value) -> Option<u32> {
    object["metadata"]["labels"][names::TTL]
        .as_str()?
        .strip_suffix('m')?
        .parse()
        .ok()
}

/// `tower-breakglass-rolebinding`.
pub(crate) fn grant(binding: &Value, flight: bool) -> Verdict {
    let meta = &binding["metadata"];
    let marks = &meta["annotations"];
    let name = meta["name"].as_str().unwrap_or_default();
    demand(name.starts_with("tower-breakglass-"), "name")?;
    let role = &binding["roleRef"];
    demand(role["kind"] == "ClusterRole", "a ClusterRole")?;
    demand(
        role["name"] == names::DEBUG_LIVE_ROLE || role["name"] == names::DEBUG_COPY_ROLE,
        "role",
    )?;
    demand(list(binding, "subjects").len() == 1, "one subject")?;
    demand(
        ttl_minutes(binding).is_some_and(|m| (15..=75).contains(&m)),
        "ttl",
    )?;
    let approver = marks[names::APPROVER].as_str();
    let glass_broken = marks[names::GLASS_BROKEN] == "true";
    demand(!(approver.is_some() && glass_broken), "never both marks")?;
    demand(!flight || approver.is_some() || glass_broken, "one mark")?;
    demand(
        approver.is_none() || approver != marks[names::REQUESTER].as_str(),
        "another person",
    )
}

/// `tower-breakglass-debug-container`, for one debug container of a pod with this annotation.
pub(crate) fn debug_container(container: &Value, process_access: Option<&str>) -> Verdict {
    let context = &container["securityContext"];
    let name = container["name"].as_str().unwrap_or_default();
    let id = names::debug_container_session(name).ok_or("name")?;
    demand(pinned(container), "image by digest")?;
    demand(context["runAsNonRoot"] == true, "runAsNonRoot")?;
    demand(
        context["runAsUser"].as_i64().is_some_and(|id| id > 0),
        "a user above 0",
    )?;
    demand(
        context["runAsGroup"].as_i64().is_some_and(|id| id > 0),
        "a group above 0",
    )?;
    demand(context["readOnlyRootFilesystem"] == true, "read-only root")?;
    demand(
        context["allowPrivilegeEscalation"] == false,
        "no escalation",
    )?;
    demand(context["privileged"] == false, "not privileged")?;
    demand(
        context["capabilities"] == serde_json::json!({ "drop": ["ALL"] }),
        "no capabilities",
    )?;
    demand(
        context["seccompProfile"]["type"] == "RuntimeDefault",
        "seccomp",
    )?;
    let mounts = list(container, "volumeMounts");
    demand(
        mounts.iter().all(|m| m["readOnly"] == true),
        "read-only mounts",
    )?;
    demand(container.get("volumeDevices").is_none(), "no devices")?;
    let target = &container["targetContainerName"];
    let named = process_access == Some(id.as_str());
    demand(
        target.is_null() || named,
        "process access for the named session only",
    )
}

fn pinned(container: &Value) -> bool {
    container["image"]
        .as_str()
        .is_some_and(crate::debug_container::is_pinned)
}

/// `tower-breakglass-debug-container`, for a copy pod.
pub(crate) fn copy_pod(pod: &Value) -> Verdict {
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    let labels = meta["labels"].as_object().ok_or("labels")?;
    demand(labels.len() == 5, "our labels alone")?;
    demand(
        labels[names::MANAGED_BY] == names::TOWER_BREAKGLASS,
        "managed-by",
    )?;
    demand(labels[names::COPY] == "true", "copy label")?;
    demand(labels.contains_key(names::INSTALLATION), "installation")?;
    let id = labels[names::SESSION].as_str().ok_or("session")?;
    demand(
        ttl_minutes(pod).is_some_and(|m| (15..=75).contains(&m)),
        "ttl",
    )?;
    demand(
        meta.get("ownerReferences").is_none() && meta.get("finalizers").is_none(),
        "owners",
    )?;
    for field in [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "nodeName",
        "serviceAccountName",
    ] {
        demand(spec.get(field).is_none(), field)?;
    }
    demand(spec["automountServiceAccountToken"] == false, "no token")?;
    demand(spec["shareProcessNamespace"] == false, "processes apart")?;
    demand(spec["restartPolicy"] == "Never", "never restarted")?;
    demand(
        spec["activeDeadlineSeconds"]
            .as_u64()
            .is_some_and(|s| s > 0),
        "a deadline",
    )?;
    for volume in list(spec, "volumes") {
        copied_volume(volume)?;
    }
    let containers = list(spec, "containers");
    for container in containers.iter().chain(list(spec, "initContainers")) {
        app_container(container, spec)?;
    }
    let ours = format!("debug-{id}");
    let debug: Vec<&Value> = containers.iter().filter(|c| c["name"] == *ours).collect();
    demand(debug.len() == 1, "one debug container")?;
    debug_container(debug[0], None)
}

fn copied_volume(volume: &Value) -> Verdict {
    demand(volume.get("hostPath").is_none(), "no hostPath")?;
    for source in list(&volume["projected"], "sources") {
        demand(
            source.get("serviceAccountToken").is_none(),
            "no projected token",
        )?;
    }
    for lasting in ["persistentVolumeClaim", "nfs", "cephfs", "azureFile"] {
        let source = volume.get(lasting);
        demand(
            source.is_none_or(|s| s["readOnly"] == true),
            "what lasts is read-only",
        )?;
    }
    Ok(())
}

fn app_container(container: &Value, spec: &Value) -> Verdict {
    let context = &container["securityContext"];
    demand(pinned(container), "every image by digest")?;
    demand(context["privileged"] == false, "not privileged")?;
    demand(
        context["allowPrivilegeEscalation"] == false,
        "no escalation",
    )?;
    demand(
        context["capabilities"].get("add").is_none(),
        "no added capabilities",
    )?;
    demand(context.get("procMount").is_none(), "masked /proc")?;
    demand(
        context["seccompProfile"]["type"] != "Unconfined",
        "confined",
    )?;
    for port in list(container, "ports") {
        demand(port.get("hostPort").is_none(), "no host ports")?;
    }
    for field in [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "volumeDevices",
    ] {
        demand(container.get(field).is_none(), field)?;
    }
    for mount in list(container, "volumeMounts") {
        let exists = list(spec, "volumes")
            .iter()
            .any(|v| v["name"] == mount["name"]);
        demand(exists, "a mount has its volume")?;
        demand(mount.get("mountPropagation").is_none(), "no propagation")?;
    }
    Ok(())
}
