//! What goes wrong on command.
//!
//! A [`Fault`] is data: tests in this process apply it through [`Faults`], others send the same
//! JSON to `POST /standin/faults` with the admin token. A request fault is consumed by the
//! requests that it matches, oldest fault first.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::kubelet;
use crate::route::Action;
use crate::stream::StreamMode;
use crate::workload;
use crate::world::{Key, World};

/// Which requests a fault meets: those that agree with everything that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestMatch {
    /// The RBAC verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: Option<String>,
    /// `pods`, `rolebindings`…; without the subresource.
    pub resource: Option<String>,
    /// `attach`, `ephemeralcontainers`, `token`; an empty text matches only requests without one.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: Option<String>,
    /// The caller's name.
    pub user: Option<String>,
}

impl RequestMatch {
    /// Requests with `verb` on `resource` (`pods/attach` names the subresource).
    #[must_use]
    pub fn on(verb: &str, resource: &str) -> Self {
        let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
        Self {
            verb: Some(verb.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(sub.to_owned()),
            ..Self::default()
        }
    }

    fn meets(&self, action: &Action, user: &str) -> bool {
        let same = |wanted: &Option<String>, seen: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| wanted == seen.unwrap_or_default())
        };
        same(&self.verb, Some(action.verb))
            && same(&self.resource, Some(&action.resource))
            && same(&self.subresource, action.subresource.as_deref())
            && same(&self.namespace, action.namespace.as_deref())
            && same(&self.name, action.name.as_deref())
            && same(&self.user, Some(user))
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "do")]
#[serde(deny_unknown_fields)]
pub enum RequestFault {
    /// Answered with this Status, nothing done.
    Answer {
        /// The HTTP status.
        code: u16,
        /// The Status' reason, as `Forbidden`.
        reason: String,
        /// The Status' message.
        message: String,
    },
    /// Nothing happens until [`Fault::Release`]; then it is done if the caller still waits.
    Hang,
    /// As `Hang`, but done at the release even if the caller has left (it lands late, C-10a).
    Late,
    /// Done, and the answer is held until [`Fault::Release`].
    PerformThenHang,
    /// Done, and the connection breaks instead of an answer.
    PerformThenCut,
    /// The connection breaks, nothing done.
    Cut,
}

/// What keeps a container from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "do")]
#[serde(deny_unknown_fields)]
pub enum StartFault {
    /// `ErrImagePull`, then `ImagePullBackOff`, with this message.
    ImagePull {
        /// The kubelet's message.
        message: String,
    },
    /// `CreateContainerConfigError` with this message.
    ConfigError {
        /// The kubelet's message.
        message: String,
    },
    /// It waits for ever.
    Never,
    /// It takes this much longer.
    Slow {
        /// Beyond the usual delay.
        milliseconds: u64,
    },
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "kind"
)]
#[serde(deny_unknown_fields)]
pub enum Fault {
    /// The next `times` requests that match.
    Request {
        /// Which.
        #[serde(default)]
        matching: RequestMatch,
        /// What happens to them.
        fault: RequestFault,
        /// How many.
        #[serde(default = "once")]
        times: u32,
    },
    /// Lets every held request go on.
    Release,
    /// The next `times` containers that start (of images that contain `image`, if given).
    Start {
        /// A part of the image reference.
        #[serde(default)]
        image: Option<String>,
        /// What keeps them.
        fault: StartFault,
        /// How many.
        #[serde(default = "once")]
        times: u32,
    },
    /// Attach streams, open ones and the next `future` ones, of one pod or of all.
    Streams {
        /// What they do.
        mode: StreamMode,
        /// Only streams into the pod of this name.
        #[serde(default)]
        pod: Option<String>,
        /// How many streams that open later do the same.
        #[serde(default)]
        future: u32,
    },
    /// Open watches end; the next `future` ones end at once.
    Watches {
        /// With an ERROR event of code 410 first.
        #[serde(default)]
        expired: bool,
        /// How many later watches do the same.
        #[serde(default)]
        future: u32,
    },
    /// The pod is replaced by one of the same name and another UID.
    ReplacePod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The pod is deleted at once; its controller makes another.
    DeletePod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The kubelet evicts the pod: phase `Failed`, reason `Evicted`, processes dead.
    EvictPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The pod's node is lost: phase `Unknown`, its streams half-open, attach fails.
    LoseNode {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// With `true` no connection is taken and open ones break, until `false`.
    Unreachable {
        /// Whether it is.
        on: bool,
    },
    /// Drops every fault not yet met, lets held requests go on and streams flow.
    Clear,
}

fn once() -> u32 {
    1
}

/// The faults that wait to be met.
pub(crate) struct FaultBook {
    requests: Vec<(RequestMatch, RequestFault, u32)>,
    starts: Vec<(Option<String>, StartFault, u32)>,
    streams: Vec<(Option<String>, StreamMode, u32)>,
    watches: VecDeque<bool>,
    pub(crate) releases: watch::Sender<u64>,
    /// Counts the orders to end open watches; the last one's `expired`.
    pub(crate) watch_ends: watch::Sender<(u64, bool)>,
    pub(crate) unreachable: watch::Sender<bool>,
}

impl Default for FaultBook {
    fn default() -> Self {
        Self {
            requests: Vec::new(),
            starts: Vec::new(),
            streams: Vec::new(),
            watches: VecDeque::new(),
            releases: watch::Sender::new(0),
            watch_ends: watch::Sender::new((0, false)),
            unreachable: watch::Sender::new(false),
        }
    }
}

/// Takes the first entry that `meets`, once.
fn take<M, F: Clone>(
    list: &mut Vec<(M, F, u32)>,
    mut meets: impl FnMut(&M, &F) -> bool,
) -> Option<F> {
    let at = list
        .iter()
        .position(|(matching, fault, _)| meets(matching, fault))?;
    let entry = &mut list[at];
    entry.2 -= 1;
    let fault = entry.1.clone();
    if entry.2 == 0 {
        list.remove(at);
    }
    Some(fault)
}

impl FaultBook {
    /// What goes wrong with this request. One that RBAC refuses does not use up a fault whose point
    /// is that the request is done.
    pub(crate) fn request_fault(
        &mut self,
        action: &Action,
        user: &str,
        allowed: bool,
    ) -> Option<RequestFault> {
        take(&mut self.requests, |matching, fault| {
            let is_done = matches!(
                fault,
                RequestFault::Late | RequestFault::PerformThenHang | RequestFault::PerformThenCut
            );
            matching.meets(action, user) && (allowed || !is_done)
        })
    }

    pub(crate) fn start_fault(&mut self, image: &str) -> Option<StartFault> {
        take(&mut self.starts, |part, _| {
            part.as_deref().is_none_or(|part| image.contains(part))
        })
    }

    pub(crate) fn next_stream_mode(&mut self, key: &Key) -> StreamMode {
        take(&mut self.streams, |pod, _| {
            pod.as_ref().is_none_or(|pod| *pod == key.1)
        })
        .unwrap_or(StreamMode::Flowing)
    }

    /// Whether this watch is to end at once, and how.
    pub(crate) fn next_watch(&mut self) -> Option<bool> {
        self.watches.pop_front()
    }

    fn release(&self) {
        self.releases.send_modify(|count| *count += 1);
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.starts.clear();
        self.streams.clear();
        self.watches.clear();
        self.unreachable.send_replace(false);
        self.release();
    }
}

/// The stand-in's faults, from within the process.
#[derive(Clone)]
pub struct Faults {
    pub(crate) world: World,
}

impl Faults {
    /// Applies a fault. False where it names a pod that is not there.
    pub fn apply(&self, fault: Fault) -> bool {
        let world = &self.world;
        match fault {
            Fault::Request {
                matching,
                fault,
                times,
            } => world.change(|state| {
                push(&mut state.faults.requests, matching, fault, times);
            }),
            Fault::Start {
                image,
                fault,
                times,
            } => world.change(|state| {
                push(&mut state.faults.starts, image, fault, times);
            }),
            Fault::Release => world.change(|state| state.faults.release()),
            Fault::Streams { mode, pod, future } => self.set_streams(mode, pod, future),
            Fault::Watches { expired, future } => world.change(|state| {
                let later = std::iter::repeat_n(expired, future.min(1024) as usize);
                state.faults.watches.extend(later);
                state.faults.watch_ends.send_modify(|(count, last)| {
                    *count += 1;
                    *last = expired;
                });
            }),
            Fault::ReplacePod { namespace, name } => {
                return workload::replace_in_place(world, &(namespace, name));
            }
            Fault::DeletePod { namespace, name } => {
                return workload::remove_pod(world, &(namespace, name), None).is_some();
            }
            Fault::EvictPod { namespace, name } => return self.evict(&(namespace, name)),
            Fault::LoseNode { namespace, name } => {
                let key = (namespace, name);
                self.set_streams(StreamMode::HalfOpen, Some(key.1.clone()), 0);
                return kubelet::lose_node(world, &key);
            }
            Fault::Unreachable { on } => world.change(|state| {
                state.faults.unreachable.send_replace(on);
                if on {
                    for stream in state.streams.values() {
                        stream.mode.send_replace(StreamMode::Cut);
                    }
                }
            }),
            Fault::Clear => {
                self.set_streams(StreamMode::Flowing, None, 0);
                world.change(|state| state.faults.clear());
            }
        }
        true
    }

    /// The next request that `matching` meets is answered with this code, reason and message.
    pub fn answer_once(&self, matching: RequestMatch, code: u16, reason: &str, message: &str) {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        self.next_request(
            matching,
            RequestFault::Answer {
                code,
                reason,
                message,
            },
        );
    }

    /// The next request that `matching` meets suffers `fault`.
    pub fn next_request(&self, matching: RequestMatch, fault: RequestFault) {
        self.apply(Fault::Request {
            matching,
            fault,
            times: 1,
        });
    }

    /// The next container that starts suffers `fault`.
    pub fn next_start(&self, fault: StartFault) {
        self.apply(Fault::Start {
            image: None,
            fault,
            times: 1,
        });
    }

    /// Sets what every open attach stream does.
    pub fn streams(&self, mode: StreamMode) {
        self.set_streams(mode, None, 0);
    }

    /// Lets every held request go on.
    pub fn release(&self) {
        self.apply(Fault::Release);
    }

    fn set_streams(&self, mode: StreamMode, pod: Option<String>, future: u32) {
        self.world.change(|state| {
            for stream in state.streams.values() {
                if pod.as_ref().is_none_or(|pod| *pod == stream.key.1) {
                    stream.mode.send_replace(mode);
                }
            }
            push(&mut state.faults.streams, pod, mode, future);
        });
    }

    fn evict(&self, key: &Key) -> bool {
        let uid = self
            .world
            .read()
            .pods
            .get(key)
            .map(|pod| pod.uid().to_owned());
        let message = "The node was low on resource: memory.";
        uid.is_some_and(|uid| kubelet::fail_pod(&self.world, key, &uid, "Evicted", message))
    }
}

fn push<M, F>(list: &mut Vec<(M, F, u32)>, matching: M, fault: F, times: u32) {
    if times > 0 {
        list.push((matching, fault, times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &Fault) {
        assert_eq!(&serde_json::from_str::<Fault>(text).unwrap(), expected);
    }

    #[test]
    fn a_request_fault_reads_from_json() {
        check(
            r#"{"kind":"request","matching":{"verb":"patch","resource":"pods"},
                "fault":{"do":"answer","code":409,"reason":"Conflict","message":"again"}}"#,
            &Fault::Request {
                matching: RequestMatch {
                    verb: Some("patch".to_owned()),
                    resource: Some("pods".to_owned()),
                    ..RequestMatch::default()
                },
                fault: RequestFault::Answer {
                    code: 409,
                    reason: "Conflict".to_owned(),
                    message: "again".to_owned(),
                },
                times: 1,
            },
        );
    }

    #[test]
    fn a_stream_fault_reads_from_json() {
        check(
            r#"{"kind":"streams","mode":"halfOpen","future":2}"#,
            &Fault::Streams {
                mode: StreamMode::HalfOpen,
                pod: None,
                future: 2,
            },
        );
    }

    #[test]
    fn an_unknown_fault_is_refused() {
        assert!(serde_json::from_str::<Fault>(r#"{"kind":"meteor"}"#).is_err());
        assert!(serde_json::from_str::<Fault>(r#"{"kind":"unreachable","on":1}"#).is_err());
    }

    #[test]
    fn a_fault_is_met_as_often_as_it_says_and_the_oldest_first() {
        let mut list = Vec::new();
        push(&mut list, 1, "first", 2);
        push(&mut list, 1, "second", 1);
        push(&mut list, 1, "never", 0);
        let met: Vec<_> = std::iter::from_fn(|| take(&mut list, |&one, _| one == 1)).collect();
        assert_eq!(met, ["first", "first", "second"]);
    }
}
