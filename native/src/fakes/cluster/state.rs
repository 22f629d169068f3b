//! What the fake cluster holds, and what happens to it.

use crate::cluster::object::{meta, uid};
use crate::ports::ClusterError;
use crate::ports::cluster::{PodRef, ShellEvent};
use bytes::Bytes;
use decisions::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

/// The steps that can fail: the port's verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the port's verb of that name")]
pub enum Step {
    Username,
    LookAt,
    CreateGrant,
    DeleteGrant,
    FindGrants,
    AnnotateProcessAccess,
    AddDebugContainer,
    CreateCopyPod,
    AwaitRunning,
    ReadPod,
    Attach,
    ControllerFacts,
    DeletePod,
    AwaitGone,
    Leftovers,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The cluster says no; nothing was done.
    Refused(Refusal),
    /// Nobody answers; nothing was done.
    Unreachable,
    /// It was done, and the answer was lost.
    AnswerLost,
    /// Nobody answers; it is done later, at [`super::FakeCluster::land_late_calls`].
    LandsLate,
}

/// How the cluster says no.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the error of that name")]
pub enum Refusal {
    Policy(String),
    Forbidden,
    Unauthorized,
    Conflict,
    Invalid,
    NotFound,
    CannotStart(String),
}

/// How a debug container starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It waits until [`super::FakeCluster::run_container`].
    Waits,
    /// It cannot: the kubelet's reason and message.
    Fails(String, String),
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// By which step.
    pub step: Step,
    /// To what: the object's name.
    pub name: String,
}

pub(super) type Key = (String, String);
pub(super) type ShellKey = (String, String, String);
type Late = Box<dyn FnOnce(&mut State) + Send>;

pub(super) fn shell_key(namespace: &str, pod: &str, container: &str) -> ShellKey {
    (namespace.to_owned(), pod.to_owned(), container.to_owned())
}

/// One shell in one container.
#[derive(Default)]
pub(super) struct ShellState {
    pub(super) input: Vec<u8>,
    pub(super) size: Option<(u16, u16)>,
}

/// One attach.
pub(super) struct Stream {
    pub(super) shell: ShellKey,
    pub(super) events: VecDeque<Option<ShellEvent>>,
    pub(super) closed: bool,
    pub(super) wakers: Vec<Waker>,
}

impl Stream {
    pub(super) fn is_open(&self) -> bool {
        !self.closed
    }

    fn push(&mut self, event: Option<ShellEvent>) {
        if !self.closed {
            self.events.push_back(event);
            self.wake();
        }
    }

    pub(super) fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

pub(super) struct State {
    pub(super) name: String,
    pub(super) installation: String,
    pub(super) username: String,
    pub(super) away: bool,
    pub(super) stuck: bool,
    pub(super) budgets_readable: bool,
    pub(super) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) pods: BTreeMap<Key, Value>,
    pub(super) bindings: BTreeMap<Key, Value>,
    pub(super) budgets: Vec<Value>,
    pub(super) faults: VecDeque<(Step, Fault)>,
    pub(super) standing_faults: BTreeMap<Step, Fault>,
    pub(super) late: Vec<Late>,
    pub(super) starts: VecDeque<Start>,
    pub(super) effects: Vec<Effect>,
    pub(super) shells: BTreeMap<ShellKey, ShellState>,
    pub(super) streams: BTreeMap<u64, Stream>,
    made: u64,
}

impl State {
    pub(super) fn new(name: &str, installation: &str) -> Self {
        Self {
            name: name.to_owned(),
            installation: installation.to_owned(),
            username: "system:serviceaccount:tower:breakglass".to_owned(),
            away: false,
            stuck: false,
            budgets_readable: true,
            namespaces: BTreeMap::new(),
            pods: BTreeMap::new(),
            bindings: BTreeMap::new(),
            budgets: Vec::new(),
            faults: VecDeque::new(),
            standing_faults: BTreeMap::new(),
            late: Vec::new(),
            starts: VecDeque::new(),
            effects: Vec::new(),
            shells: BTreeMap::new(),
            streams: BTreeMap::new(),
            made: 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(super) fn take_fault(&mut self, step: Step) -> Option<Fault> {
        if self.away {
            return Some(Fault::Unreachable);
        }
        let queued = self.faults.iter().position(|(wanted, _)| *wanted == step);
        let next = queued
            .and_then(|at| self.faults.remove(at))
            .map(|(_, fault)| fault);
        next.or_else(|| self.standing_faults.get(&step).cloned())
    }

    pub(super) fn did(&mut self, step: Step, name: &str) {
        self.effects.push(Effect {
            step,
            name: name.to_owned(),
        });
    }

    pub(super) fn away_error(&self) -> ClusterError {
        ClusterError::Away {
            cluster: self.name.clone(),
            why: "cannot be reached: the fake does not answer".to_owned(),
        }
    }

    /// Whether a grant of one of these roles is in the namespace (C-2a).
    pub(super) fn granted(&self, namespace: &str, roles: &[&str]) -> Result<(), ClusterError> {
        let here = self
            .bindings
            .iter()
            .filter(|((inside, _), _)| inside == namespace);
        let mut given = here.filter_map(|(_, b)| b.pointer("/roleRef/name")?.as_str());
        if given.any(|role| roles.contains(&role)) {
            return Ok(());
        }
        let message = format!(
            "`{}` has no grant in namespace `{namespace}`",
            self.username
        );
        Err(ClusterError::Forbidden { message })
    }

    pub(super) fn add_pod(&mut self, ns: &str, name: &str, controller: Option<&str>) -> PodRef {
        let owners: Vec<Value> = controller
            .map(|owner| {
                json!({
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
                    "uid": format!("uid-of-{owner}"), "controller": true,
                })
            })
            .into_iter()
            .collect();
        self.put_pod(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": ns, "name": name, "ownerReferences": owners,
                "labels": { "app": controller.unwrap_or(name) },
            },
            "spec": { "nodeName": "node-1", "containers": [{
                "name": "app", "image": "ghcr.io/hangar/app:1",
                "securityContext": { "runAsUser": 10001, "runAsGroup": 10001 },
            }] },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [{
                    "name": "app", "image": "ghcr.io/hangar/app:1", "ready": true,
                    "imageID": "ghcr.io/hangar/app@sha256:00", "state": { "running": {} },
                }],
            },
        }))
    }

    pub(super) fn put_pod(&mut self, mut pod: Value) -> PodRef {
        self.stamp(&mut pod);
        let text = |field| meta(&pod, field).unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let made = PodRef {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid(&pod).map(str::to_owned),
        };
        self.namespaces.entry(namespace.clone()).or_default();
        self.pods.insert((namespace, name), pod);
        made
    }

    pub(super) fn put_binding(&mut self, mut binding: Value) -> String {
        self.stamp(&mut binding);
        let text = |field| meta(&binding, field).unwrap_or_default().to_owned();
        let (key, made) = ((text("namespace"), text("name")), text("uid"));
        self.bindings.insert(key, binding);
        made
    }

    fn stamp(&mut self, object: &mut Value) {
        let number = self.number();
        if uid(object).is_none() {
            object["metadata"]["uid"] = format!("uid-{number}").into();
        }
        object["metadata"]["resourceVersion"] = number.to_string().into();
    }

    /// Removes a pod; its streams end and its controller makes another.
    pub(super) fn remove_pod(&mut self, namespace: &str, name: &str) -> Option<Value> {
        let gone = self.pods.remove(&(namespace.to_owned(), name.to_owned()))?;
        self.shells
            .retain(|(ns, pod, _), _| ns != namespace || pod != name);
        for stream in self.streams.values_mut() {
            if stream.shell.0 == namespace && stream.shell.1 == name {
                stream.push(None);
            }
        }
        let owners = gone
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let owner = owners
            .into_iter()
            .flatten()
            .find(|owner| owner["controller"] == true);
        if let Some(owner) = owner.and_then(|owner| owner["name"].as_str()) {
            let successor = format!("{owner}-{}", self.number());
            self.add_pod(namespace, &successor, Some(owner));
        }
        Some(gone)
    }

    pub(super) fn replace_pod(&mut self, namespace: &str, name: &str) -> PodRef {
        let mut next = self.remove_pod(namespace, name).unwrap_or_default();
        if let Some(metadata) = next["metadata"].as_object_mut() {
            metadata.remove("uid");
            metadata.remove("deletionTimestamp");
        }
        if let Some(spec) = next["spec"].as_object_mut() {
            spec.remove("ephemeralContainers");
        }
        if let Some(status) = next["status"].as_object_mut() {
            status.remove("ephemeralContainerStatuses");
        }
        self.put_pod(next)
    }

    /// Sets a container's state, wherever in the pod it is.
    pub(super) fn set_container(&mut self, ns: &str, name: &str, container: &str, state: Value) {
        let Some(pod) = self.pods.get_mut(&(ns.to_owned(), name.to_owned())) else {
            return;
        };
        let status = &mut pod["status"];
        for list in ["containerStatuses", "ephemeralContainerStatuses"] {
            let all = status[list].as_array_mut().into_iter().flatten();
            for one in all.filter(|one| one["name"] == container) {
                one["state"] = state.clone();
            }
        }
    }

    fn next_start(&mut self) -> Value {
        match self.starts.pop_front() {
            None => json!({ "running": {} }),
            Some(Start::Waits) => json!({ "waiting": { "reason": "ContainerCreating" } }),
            Some(Start::Fails(reason, message)) => {
                json!({ "waiting": { "reason": reason, "message": message } })
            }
        }
    }

    pub(super) fn add_container(&mut self, key: &Key, container: &Value) {
        let state = self.next_start();
        let Some(pod) = self.pods.get_mut(key) else {
            return;
        };
        push(&mut pod["spec"]["ephemeralContainers"], container.clone());
        let status = json!({ "name": container["name"], "state": state });
        push(&mut pod["status"]["ephemeralContainerStatuses"], status);
    }

    pub(super) fn output(&mut self, ns: &str, pod: &str, container: &str, output: &Bytes) {
        let shell = shell_key(ns, pod, container);
        for stream in self
            .streams
            .values_mut()
            .filter(|stream| stream.shell == shell)
        {
            stream.push(Some(ShellEvent::Output(output.clone())));
        }
    }

    pub(super) fn exit(&mut self, ns: &str, pod: &str, container: &str, code: i32) {
        let over = json!({ "terminated": { "exitCode": code, "reason": "Completed" } });
        self.set_container(ns, pod, container, over);
        let status = (code != 0).then(|| format!("the shell exited with {code}"));
        let shell = shell_key(ns, pod, container);
        for stream in self
            .streams
            .values_mut()
            .filter(|stream| stream.shell == shell)
        {
            stream.push(Some(ShellEvent::Status(status.clone())));
            stream.push(None);
        }
    }

    pub(super) fn cut_streams(&mut self) {
        self.streams
            .values_mut()
            .for_each(|stream| stream.push(None));
    }

    pub(super) fn wake_all(&mut self) {
        self.streams.values_mut().for_each(Stream::wake);
    }

    /// What a copy pod of ours looks like once it runs.
    pub(super) fn start_pod(&mut self, pod: &mut Value) {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
        let names = containers
            .into_iter()
            .flatten()
            .map(|one| one["name"].clone());
        let names: Vec<Value> = names.collect();
        let state = self.next_start();
        let statuses: Vec<Value> = names
            .into_iter()
            .map(|name| json!({ "name": name, "state": state }))
            .collect();
        pod["status"] = json!({ "phase": "Running", "containerStatuses": statuses });
    }
}

impl Refusal {
    pub(super) fn error(self) -> ClusterError {
        let message = "the fake was told to refuse".to_owned();
        match self {
            Self::Policy(message) => ClusterError::RefusedByPolicy { message },
            Self::Forbidden => ClusterError::Forbidden { message },
            Self::Unauthorized => ClusterError::Unauthorized { message },
            Self::Conflict => ClusterError::Conflict { message },
            Self::Invalid => ClusterError::Invalid { message },
            Self::NotFound => ClusterError::NotFound { what: message },
            Self::CannotStart(reason) => ClusterError::CannotStart { reason },
        }
    }
}

pub(super) const LIVE: &[&str] = &[names::DEBUG_LIVE_ROLE];
pub(super) const COPY: &[&str] = &[names::DEBUG_COPY_ROLE];
pub(super) const EITHER: &[&str] = &[names::DEBUG_LIVE_ROLE, names::DEBUG_COPY_ROLE];

fn push(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}
