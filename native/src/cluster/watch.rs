//! Waiting for a pod to change: by a watch where that is granted, else by asking again (C-9, C-25).
//!
//! Invariants: the bound holds to within one call, whatever the server does; a watch that ends,
//! lags or is refused costs time but never a wrong answer, because a state is read anew before it
//! is waited for.

use super::KubeCluster;
use super::call::Caller;
use super::error::{self, unexpected};
use super::object::{Place, meta, uid};
use super::path;
use super::patience::Patience;
use crate::http::error::chain;
use crate::ports::ClusterError;
use crate::ports::cluster::PodRef;
use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use kube::api::WatchParams;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// One watch; after it the pod is read again.
const WATCH_SECONDS: u64 = 60;
/// A minted token lives for 600 s, and is not used for a watch that it would not survive.
const CALLER_LIVES: Duration = Duration::from_secs(300);
/// A pod is 1.5 MiB at most; its JSON may be a little more.
const EVENT_MAX: usize = 4 << 20;

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// What became of one watch.
enum Watched<T> {
    Decided(T),
    /// It ended, as watches do.
    Ended,
    /// It is not to be had here, for this reason.
    Refused(ClusterError),
}

/// Waits until `judge` has an answer to the pod as it is: `None` when it is gone, or another has
/// its name. `Ok(None)` when the bound passes first.
pub(super) async fn until<T: Send>(
    cluster: &KubeCluster,
    pod: &PodRef,
    bound: Duration,
    mut judge: impl FnMut(Option<&Value>) -> Option<T> + Send,
) -> Result<Option<T>, ClusterError> {
    let place = Place {
        collection: path::pods(&pod.namespace)?,
        name: &pod.name,
        kind: "pod",
    };
    path::object(&pod.name)?;
    let mut patience = Patience::for_state(bound);
    let mut rights = Patience::for_rights();
    let mut watchable = true;
    let mut step: Option<(Caller<'_>, Instant)> = None;
    loop {
        let seen = match read(cluster, &mut step, &place).await {
            Ok(found) => found.filter(|found| is(pod, found)),
            // The grant may be younger than what this API server knows of it (C-8).
            Err(ClusterError::Forbidden { .. }) if rights.again().await => continue,
            // An API server that is away for minutes is no reason to give up early (C-24).
            Err(error @ ClusterError::Away { .. }) => {
                if patience.again().await {
                    continue;
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        if let Some(answer) = judge(seen.as_ref()) {
            return Ok(Some(answer));
        }
        let version = seen.as_ref().and_then(|pod| meta(pod, "resourceVersion"));
        if let (true, Some(version), Some((caller, _))) = (watchable, version, &step) {
            let watch = watch(caller, &place, pod, version, &mut judge);
            match tokio::time::timeout(patience.left(), watch).await {
                Ok(Watched::Decided(answer)) => return Ok(Some(answer)),
                Ok(Watched::Ended) => {}
                Ok(Watched::Refused(error)) => {
                    watchable = false;
                    tracing::warn!(
                        cluster = %caller.cluster(),
                        namespace = %pod.namespace,
                        error = %chain(&error),
                        "the pod cannot be watched, so it is asked about again and again: later, \
                         and with more calls; where it is forbidden, give the role the verb \
                         `watch` on pods"
                    );
                }
                Err(_) => return Ok(None),
            }
        }
        if !patience.again().await {
            return Ok(None);
        }
    }
}

/// Reads the pod. A wait may outlive a minted token: its caller is another after a while.
async fn read<'c>(
    cluster: &'c KubeCluster,
    step: &mut Option<(Caller<'c>, Instant)>,
    place: &Place<'_>,
) -> Result<Option<Value>, ClusterError> {
    let caller = match step.take() {
        Some((caller, since)) if since.elapsed() < CALLER_LIVES => (caller, since),
        Some(_) | None => (cluster.reach.caller().await?, Instant::now()),
    };
    let (caller, _) = step.insert(caller);
    place.get(caller).await
}

/// Whether this is the pod that is meant, and not another of its name (C-26).
pub(crate) fn is(pod: &PodRef, found: &Value) -> bool {
    pod.uid
        .as_deref()
        .is_none_or(|wanted| uid(found) == Some(wanted))
}

async fn watch<T: Send>(
    caller: &Caller<'_>,
    place: &Place<'_>,
    pod: &PodRef,
    version: &str,
    judge: &mut (impl FnMut(Option<&Value>) -> Option<T> + Send),
) -> Watched<T> {
    let params = WatchParams {
        field_selector: Some(format!("metadata.name={}", place.name)),
        timeout: u32::try_from(WATCH_SECONDS).ok(),
        ..WatchParams::default()
    };
    let opened = caller
        .open(place.collection.watch(&params, version), "a watch")
        .await;
    let body = match opened {
        Ok(response) => response.into_body(),
        Err(ClusterError::Away { .. } | ClusterError::Unexpected { .. }) => return Watched::Ended,
        Err(error) => return Watched::Refused(error),
    };
    let mut events = Events {
        body,
        buffer: BytesMut::new(),
    };
    // A server that neither speaks nor ends the watch is left a moment after it should have.
    let patience = Duration::from_secs(WATCH_SECONDS + 5);
    let watching = async {
        while let Ok(Some(event)) = events.next(caller.cluster()).await {
            let now = match event.kind.as_str() {
                "ADDED" | "MODIFIED" => Some(&event.object).filter(|found| is(pod, found)),
                "DELETED" if is(pod, &event.object) => None,
                // Bookmarks say nothing; the deletion of a namesake says nothing of ours.
                "BOOKMARK" | "DELETED" => continue,
                // An error: too old, most of all. The pod is read again.
                _ => return Watched::Ended,
            };
            if let Some(answer) = judge(now) {
                return Watched::Decided(answer);
            }
        }
        Watched::Ended
    };
    tokio::time::timeout(patience, watching)
        .await
        .unwrap_or(Watched::Ended)
}

/// A watch's body: one JSON object a line.
struct Events {
    body: Body,
    buffer: BytesMut,
}

impl Events {
    async fn next(&mut self, cluster: &str) -> Result<Option<Event>, ClusterError> {
        loop {
            if let Some(event) = take_event(&mut self.buffer, cluster)? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error::away(cluster, error::why(&error))),
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

fn take_event(buffer: &mut BytesMut, cluster: &str) -> Result<Option<Event>, ClusterError> {
    while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
        let line = buffer.split_to(end);
        buffer.advance(1);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let event = serde_json::from_slice(&line);
        return event
            .map(Some)
            .map_err(|_| unexpected(cluster, "a watch event that is not JSON"));
    }
    if buffer.len() > EVENT_MAX {
        return Err(unexpected(cluster, "a watch event without an end"));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_line_by_line_however_they_are_cut() {
        let mut buffer = BytesMut::from(&b"{\"type\":\"ADDED\",\"obj"[..]);
        assert!(take_event(&mut buffer, "c").expect("no error").is_none());
        buffer.extend_from_slice(b"ect\":{}}\n\n{\"type\":\"BOOKMARK\",\"object\":{}}\n{");
        let kinds: Vec<String> = std::iter::from_fn(|| take_event(&mut buffer, "c").ok().flatten())
            .map(|event| event.kind)
            .collect();
        assert_eq!(kinds, ["ADDED", "BOOKMARK"]);
        assert_eq!(&buffer[..], b"{");
    }

    #[test]
    fn a_line_that_never_ends_is_refused() {
        let mut buffer = BytesMut::from(vec![b'x'; EVENT_MAX + 1].as_slice());
        assert!(take_event(&mut buffer, "c").is_err());
        assert!(take_event(&mut BytesMut::from(&b"x\n"[..]), "c").is_err());
    }
}
