//! Pods: looked at, marked, waited for, deleted (C-4, C-8, C-9, C-16, C-25).

use super::KubeCluster;
use super::call::Caller;
use super::error::presentable;
use super::object::{Place, made, meta, texts};
use super::path;
use super::patience::Patience;
use super::watch;
use crate::ports::ClusterError;
use crate::ports::cluster::{Deleted, MadeObject, ObjectKind, PodRef, TargetFacts};
use decisions::names;
use decisions::pod::PodFacts;
use decisions::pod::state::{ContainerState, start_failure};
use decisions::session::SessionId;
use k8s_openapi::api::core::v1::Namespace;
use kube::Resource;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn place(pod: &PodRef) -> Result<Place<'_>, ClusterError> {
    Ok(Place {
        collection: path::pods(&pod.namespace)?,
        name: &pod.name,
        kind: "pod",
    })
}

/// The pod that is meant, or the error that it is gone.
pub(super) async fn present(caller: &Caller<'_>, pod: &PodRef) -> Result<Value, ClusterError> {
    let found = place(pod)?.get(caller).await?;
    found
        .filter(|found| watch::is(pod, found))
        .ok_or_else(|| gone(pod))
}

pub(crate) fn gone(pod: &PodRef) -> ClusterError {
    ClusterError::NotFound {
        what: format!("pod `{}`", pod.name),
    }
}

pub(super) async fn look_at(
    cluster: &KubeCluster,
    namespace: &str,
    pod: &str,
) -> Result<TargetFacts, ClusterError> {
    let pods = path::pods(namespace)?;
    let caller = cluster.reach.caller().await?;
    let request = Request::new(Namespace::url_path(&(), None));
    let request = request.get(namespace, &GetParams::default());
    let what = format!("namespace `{namespace}`");
    let namespace_labels = match caller.json(request, &what).await {
        Ok(found) => Some(texts(&found, "labels")),
        Err(ClusterError::NotFound { .. } | ClusterError::Forbidden { .. }) => None,
        Err(error) => return Err(error),
    };
    let pod = Place {
        collection: pods,
        name: pod,
        kind: "pod",
    }
    .get(&caller)
    .await?;
    Ok(TargetFacts {
        namespace_labels,
        pod,
    })
}

pub(super) async fn read(
    cluster: &KubeCluster,
    pod: &PodRef,
) -> Result<Option<Value>, ClusterError> {
    let place = place(pod)?;
    let caller = cluster.reach.caller().await?;
    Ok(place
        .get(&caller)
        .await?
        .filter(|found| watch::is(pod, found)))
}

pub(super) async fn create_copy(
    cluster: &KubeCluster,
    session: &SessionId,
    copy: &Value,
) -> Result<MadeObject, ClusterError> {
    let missing = |field| ClusterError::Invalid {
        message: format!("a copy without {field}"),
    };
    let namespace = meta(copy, "namespace").ok_or_else(|| missing("a namespace"))?;
    let name = meta(copy, "name").ok_or_else(|| missing("a name"))?;
    let place = Place {
        collection: path::pods(namespace)?,
        name,
        kind: "pod",
    };
    let caller = cluster.reach.caller().await?;
    let body = copy.to_string().into_bytes();
    let mut patience = Patience::for_rights();
    let created = loop {
        let request = place
            .collection
            .create(&PostParams::default(), body.clone());
        match caller.json(request, &place.what()).await {
            Err(ClusterError::Forbidden { .. }) if patience.again().await => {}
            other => break other,
        }
    };
    let found = match created {
        // An earlier try of ours whose answer was lost, or somebody else's (C-10a).
        Err(ClusterError::Conflict { message }) => match place.get(&caller).await? {
            Some(there) if is_copy(&cluster.installation, session, &there) => there,
            Some(_) | None => return Err(ClusterError::Conflict { message }),
        },
        other => other?,
    };
    made(cluster.name(), session, ObjectKind::CopyPod, &found)
        .ok_or_else(|| super::error::unexpected(cluster.name(), "a pod without name and UID"))
}

/// Whether this is the session's copy pod, made by this installation, and not on its way out.
pub(crate) fn is_copy(installation: &str, session: &SessionId, found: &Value) -> bool {
    let labels = texts(found, "labels");
    names::our_session(&labels, installation).as_ref() == Some(session)
        && labels
            .get(names::COPY)
            .is_some_and(|mark| mark == names::TRUE)
        && meta(found, "deletionTimestamp").is_none()
}

/// The mark goes into the pod with that UID: the API server refuses the patch for another.
pub(super) async fn annotate(
    cluster: &KubeCluster,
    pod: &PodRef,
    session: Option<&SessionId>,
) -> Result<(), ClusterError> {
    let place = place(pod)?;
    let mut metadata = json!({
        "annotations": { names::PROCESS_ACCESS: session.map(SessionId::as_str) },
    });
    if let Some(uid) = &pod.uid {
        metadata["uid"] = json!(uid);
    }
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let caller = cluster.reach.caller().await?;
    let mut patience = Patience::for_rights();
    let name = path::object(&pod.name)?;
    loop {
        let request = place
            .collection
            .patch(name, &PatchParams::default(), &patch);
        let Err(error) = caller.json(request, &place.what()).await else {
            return Ok(());
        };
        let refused_for_its_uid = matches!(
            error,
            ClusterError::Conflict { .. } | ClusterError::Invalid { .. }
        );
        let gone = matches!(error, ClusterError::NotFound { .. })
            || (refused_for_its_uid
                && !place
                    .get(&caller)
                    .await?
                    .is_some_and(|found| watch::is(pod, &found)));
        if gone {
            // A mark on a pod that is gone is gone with it.
            return if session.is_none() {
                Ok(())
            } else {
                Err(self::gone(pod))
            };
        }
        let may_pass = matches!(
            error,
            ClusterError::Forbidden { .. } | ClusterError::Conflict { .. }
        );
        if !may_pass || !patience.again().await {
            return Err(error);
        }
    }
}

pub(super) async fn await_running(
    cluster: &KubeCluster,
    pod: &PodRef,
    container: &str,
    bound: Duration,
) -> Result<(), ClusterError> {
    let mut hint = String::new();
    let judged = watch::until(cluster, pod, bound, |seen| {
        let Some(seen) = seen else {
            return Some(Err(gone(pod)));
        };
        starting(seen, container, &mut hint)
    });
    match judged.await? {
        Some(result) => result,
        None => Err(too_late(container, bound, &hint)),
    }
}

pub(crate) fn too_late(container: &str, bound: Duration, hint: &str) -> ClusterError {
    let separator = if hint.is_empty() { "" } else { ": " };
    let seconds = bound.as_secs();
    let reason = format!("container `{container}` did not run within {seconds} s{separator}{hint}");
    ClusterError::CannotStart { reason }
}

/// Whether the container runs (C-9): `None` while it may still come. `hint` keeps what it waits for.
pub(crate) fn starting(
    pod: &Value,
    container: &str,
    hint: &mut String,
) -> Option<Result<(), ClusterError>> {
    let cannot = |reason: String| Some(Err(ClusterError::CannotStart { reason }));
    let facts = match PodFacts::read(pod) {
        Ok(facts) => facts,
        Err(error) => return cannot(error.to_string()),
    };
    let state = facts.container_state(container);
    if let Some(reason) = start_failure(&state) {
        return cannot(reason);
    }
    match state {
        ContainerState::Running { .. } => return Some(Ok(())),
        ContainerState::Waiting { reason, message } => {
            *hint = if message.is_empty() {
                reason
            } else {
                format!("{reason}: {message}")
            };
        }
        ContainerState::Terminated { .. } | ContainerState::Unknown => {}
    }
    if let Some(words) = facts.unschedulable() {
        *hint = words;
    }
    if facts.is_terminating() {
        return cannot("the pod is being deleted".to_owned());
    }
    // Evicted, past its deadline, or simply over: nothing starts in it any more.
    if matches!(facts.status.phase.as_str(), "Failed" | "Succeeded") {
        let words = [
            facts.status.reason.as_deref(),
            facts.status.message.as_deref(),
        ];
        let words: Vec<&str> = words.into_iter().flatten().collect();
        let why = presentable(&words.join(": "));
        return cannot(
            format!("the pod is over ({}) {why}", facts.status.phase)
                .trim()
                .to_owned(),
        );
    }
    None
}

pub(super) async fn delete(
    cluster: &KubeCluster,
    pod: &PodRef,
    grace: Option<Duration>,
) -> Result<Deleted, ClusterError> {
    let place = place(pod)?;
    let uid = pod.uid.as_deref().ok_or_else(|| without_uid(pod))?;
    let seconds = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
    let caller = cluster.reach.caller().await?;
    let mut patience = Patience::for_rights();
    loop {
        match place.delete(&caller, uid, seconds).await {
            // The sweep deletes under a grant that it made a moment ago (C-18).
            Err(ClusterError::Forbidden { .. }) if patience.again().await => {}
            result => return result,
        }
    }
}

/// What is not known by its UID is not deleted (C-26).
pub(crate) fn without_uid(pod: &PodRef) -> ClusterError {
    let message = format!(
        "pod `{}` is deleted by its UID, and none is known",
        pod.name
    );
    ClusterError::Invalid { message }
}

pub(super) async fn await_gone(
    cluster: &KubeCluster,
    pod: &PodRef,
    bound: Duration,
) -> Result<Deleted, ClusterError> {
    if pod.uid.is_none() {
        return Err(without_uid(pod));
    }
    let gone = |seen: Option<&Value>| seen.is_none().then_some(Deleted::Gone);
    let waited = watch::until(cluster, pod, bound, gone).await?;
    Ok(waited.unwrap_or(Deleted::Terminating))
}
