//! What a session's objects must be, read from the cluster by the witness and compared whole: with
//! what C-7 says, and with the debug container that the builder makes of the pod (C-11).

use crate::StageError;
use crate::smoke::Opened;
use crate::stage::Stage;
use breakglass::cluster::{ClusterConfig, connect};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container, hard_deadline_seconds};
use decisions::mounts::{Mounts, volume_mounts};
use decisions::names::debug_container_name;
use decisions::pod::PodFacts;
use decisions::session::SessionId;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The grant is that of C-7 and nothing more.
pub async fn grant_is_right(stage: &Stage, opened: &Opened) -> Result<bool, StageError> {
    let name = format!("tower-breakglass-{}", opened.id());
    let namespace = &stage.place.target.namespace;
    let Some(grant) = stage.place.witness.role_binding(namespace, &name).await? else {
        return Ok(false);
    };
    let minutes = opened.session["durationMinutes"]
        .as_u64()
        .unwrap_or_default();
    let wanted = json!({
        "labels": {
            "app.kubernetes.io/managed-by": "tower-breakglass",
            "hangar.io/breakglass-session": opened.id(),
            "hangar.io/breakglass-installation": "stage",
            "cleanup.kyverno.io/ttl": format!("{}m", minutes + 15),
        },
        "annotations": {
            "hangar.io/breakglass-requester": "user:default/alice",
            "hangar.io/breakglass-expires-at": whole_seconds(&opened.session["expiresAt"]),
        },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "tower-breakglass-debug-live",
        },
        "subjects": [subject(&username(stage).await?)],
    });
    let found = json!({
        "labels": grant.metadata.labels,
        "annotations": grant.metadata.annotations,
        "roleRef": grant.role_ref,
        "subjects": grant.subjects,
    });
    Ok(is_same("the grant", &found, &wanted))
}

/// The debug container is what the builder makes of the pod, but for the API server's defaults.
pub async fn container_is_hardened(stage: &Stage, opened: &Opened) -> Result<bool, StageError> {
    let namespace = &stage.place.target.namespace;
    let Some(pod) = stage.place.witness.pod(namespace, &opened.pod).await? else {
        return Ok(false);
    };
    let failed = |error: serde_json::Error| StageError::of("the pod", error);
    let mut pod = serde_json::to_value(pod).map_err(failed)?;
    let Ok(id) = SessionId::parse(opened.id()) else {
        return Ok(false);
    };
    let added = pod["spec"]["ephemeralContainers"].take();
    let named = |found: &&Value| found["name"] == debug_container_name(&id);
    let mut added = added.as_array().into_iter().flatten();
    let Some(mut found) = added.find(named).cloned() else {
        return Ok(false);
    };
    let facts: PodFacts = serde_json::from_value(pod).map_err(failed)?;
    let container = &stage.place.target.container;
    let mounts = match opened.session["volumeAccess"] == true {
        true => volume_mounts(&facts, container),
        false => Mounts::default(),
    };
    let minutes = opened.session["durationMinutes"].as_u64();
    let minutes = minutes.and_then(|minutes| u32::try_from(minutes).ok());
    let wanted = debug_container(&DebugSpec {
        id: &id,
        image: &stage.place.debug_image,
        pod: &facts,
        container,
        process_access: opened.session["processAccess"] == true,
        mounts: &mounts.mounts,
        deadline_seconds: hard_deadline_seconds(minutes.unwrap_or_default()),
        user: DebugUser::default(),
    });
    let wanted = wanted.map_err(|refusal| StageError::of("the debug container", refusal))?;
    let mut wanted = serde_json::to_value(wanted).map_err(failed)?;
    without_defaults(&mut found);
    without_defaults(&mut wanted);
    Ok(is_same("the debug container", &found, &wanted))
}

/// What an API server adds, or leaves out, because it is the default.
fn without_defaults(container: &mut Value) {
    for (field, by_default) in [
        ("resources", json!({})),
        ("stdinOnce", json!(false)),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
    ] {
        if container[field] == by_default
            && let Some(container) = container.as_object_mut()
        {
            container.remove(field);
        }
    }
}

/// The row has milliseconds, the annotation none.
fn whole_seconds(time: &Value) -> Option<String> {
    let time: Timestamp = time.as_str()?.parse().ok()?;
    let seconds = Timestamp::from_second(time.as_second()).ok()?;
    Some(seconds.to_string())
}

/// Who the sidecar is on the target's cluster, by the cluster's word.
async fn username(stage: &Stage) -> Result<String, StageError> {
    let configured: BTreeMap<String, ClusterConfig> =
        serde_json::from_value(stage.place.clusters.clone())
            .map_err(|error| StageError::of("the clusters", error))?;
    let clusters = connect(&configured, "stage")
        .await
        .map_err(|(name, error)| StageError::of(name, error))?;
    let target = &stage.place.target.cluster;
    let cluster = clusters.get(target);
    let cluster = cluster.ok_or_else(|| StageError::new(format!("no cluster `{target}`")))?;
    let asked = cluster.username().await;
    asked.map_err(|error| StageError::of("who the sidecar is", error))
}

fn subject(username: &str) -> Value {
    let account = username
        .strip_prefix("system:serviceaccount:")
        .and_then(|account| account.split_once(':'));
    match account {
        Some((namespace, name)) => {
            json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
        }
        None => json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                        "name": username }),
    }
}

/// Whether they are equal; tells the difference where they are not.
fn is_same(what: &str, found: &Value, wanted: &Value) -> bool {
    if found != wanted {
        eprintln!("{what} is\n{found:#}\nand should be\n{wanted:#}");
    }
    found == wanted
}
