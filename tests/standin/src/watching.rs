//! Watches of pods: every event after a version, in order, or a 410.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch as signal;
use tokio::time::Instant;

use crate::http_io::Body;
use crate::patch::{fields_match, labels_match};
use crate::refusal::Refusal;
use crate::route::{Action, Query};
use crate::world::{Event, State, World};

/// Without `timeoutSeconds`, a watch lasts this long.
const LASTS: Duration = Duration::from_secs(1800);

struct Watch {
    world: World,
    namespace: Option<String>,
    labels: String,
    fields: String,
    after: u64,
    /// Events to be sent before those of the record: what there was at the start.
    first: Vec<Value>,
    until: Instant,
    changes: signal::Receiver<u64>,
    ends: signal::Receiver<(u64, bool)>,
    /// Ends at once, with a 410 if true.
    doomed: Option<bool>,
    done: bool,
}

/// Answers a watch with a stream of events.
pub(crate) fn watch(
    world: &World,
    action: &Action,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let text = |name: &str| query.get(name).cloned().unwrap_or_default();
    let labels = text("labelSelector");
    let mut fields = text("fieldSelector");
    if let Some(name) = &action.name {
        fields = format!("metadata.name={name}");
    }
    // A selector that cannot be read is refused before the stream begins.
    labels_match(&labels, &Value::Null)?;
    fields_match(&fields, &Value::Null)?;
    let seconds = query
        .get("timeoutSeconds")
        .and_then(|text| text.parse().ok());
    let changes = world.changes();
    let mut state = world.read();
    let doomed = state.faults.next_watch();
    let ends = state.faults.watch_ends.subscribe();
    let since = text("resourceVersion");
    let mut watch = Watch {
        world: world.clone(),
        namespace: action.namespace.clone(),
        labels,
        fields,
        after: since.parse().unwrap_or(0),
        first: Vec::new(),
        until: Instant::now() + seconds.map_or(LASTS, Duration::from_secs),
        changes,
        ends,
        doomed,
        done: false,
    };
    if watch.after == 0 {
        watch.first = initial(&watch, &state);
        watch.after = state.version;
    }
    drop(state);
    let frames = stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(chunk)), watch))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

fn initial(watch: &Watch, state: &State) -> Vec<Value> {
    let pods = state.pods.values().map(|pod| &pod.object);
    pods.filter(|object| watch.wants(object))
        .map(|object| json!({ "type": "ADDED", "object": object }))
        .collect()
}

impl Watch {
    fn wants(&self, object: &Value) -> bool {
        let here = self
            .namespace
            .as_deref()
            .is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
        here && labels_match(&self.labels, object) == Ok(true)
            && fields_match(&self.fields, object) == Ok(true)
    }

    /// The next lines of the stream; None at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            if let Some(expired) = self.doomed {
                self.done = true;
                return expired.then(gone);
            }
            self.changes.mark_unchanged();
            match self.collect() {
                Err(lines) => {
                    self.done = true;
                    return Some(lines);
                }
                Ok(Some(lines)) => return Some(lines),
                Ok(None) => {}
            }
            let stop = self.world.stop().clone();
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                ended = self.ends.changed() => {
                    ended.ok()?;
                    self.doomed = Some(self.ends.borrow().1);
                }
                () = tokio::time::sleep_until(self.until) => return None,
                () = stop.cancelled() => return None,
            }
        }
    }

    /// What there is to send; Err with the last line where the version is too old.
    fn collect(&mut self) -> Result<Option<Bytes>, Bytes> {
        let mut lines = String::new();
        for event in std::mem::take(&mut self.first) {
            lines.push_str(&event.to_string());
            lines.push('\n');
        }
        let state = self.world.read();
        if self.after < state.forgotten {
            return Err(gone());
        }
        let from = state
            .events
            .partition_point(|event| event.version <= self.after);
        for Event { kind, object, .. } in state.events.range(from..) {
            if self.wants(object) {
                lines.push_str(&json!({ "type": kind, "object": object }).to_string());
                lines.push('\n');
            }
        }
        if let Some(last) = state.events.back() {
            self.after = self.after.max(last.version);
        }
        Ok((!lines.is_empty()).then(|| lines.into()))
    }
}

fn gone() -> Bytes {
    let status = Refusal::new(410, "Expired", "too old resource version").body();
    format!("{}\n", json!({ "type": "ERROR", "object": status })).into()
}
