//! A cluster in memory that fails on command: for simulations and for tests of use cases.
//!
//! Invariants: it refuses what a real cluster refuses (no step without its grant, C-2a; no object
//! but the one with the UID, C-26); every effect can be seen; nothing depends on real time.

mod port;
mod shell;
mod state;

pub use shell::FakeShell;
pub use state::{Effect, Fault, Refusal, Start, Step};

use crate::cluster::object;
use crate::ports::cluster::PodRef;
use bytes::Bytes;
use decisions::names;
use serde_json::{Value, json};
use state::State;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// A cluster in memory. Clones are the same cluster.
#[derive(Clone)]
pub struct FakeCluster {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

impl FakeCluster {
    /// An empty cluster of that name, used by that installation.
    pub fn new(name: &str, installation: &str) -> Self {
        let state = Mutex::new(State::new(name, installation));
        Self {
            shared: Arc::new(Shared {
                state,
                changed: watch::Sender::new(0),
            }),
        }
    }

    fn read(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and tells everyone who waits for it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.read());
        self.shared.changed.send_modify(|version| *version += 1);
        result
    }

    /// Who the backend is there (C-1).
    pub fn set_username(&self, username: &str) {
        self.change(|state| username.clone_into(&mut state.username));
    }

    /// Adds a namespace, or replaces its labels.
    pub fn set_namespace(&self, namespace: &str, labels: &[(&str, &str)]) {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let labels: BTreeMap<String, String> = labels.iter().map(owned).collect();
        self.change(|state| state.namespaces.insert(namespace.to_owned(), labels));
    }

    /// Adds a running, ready pod with one container `app`. `controller` names the one that owns it
    /// and replaces it; without it nothing does.
    pub fn add_pod(&self, namespace: &str, name: &str, controller: Option<&str>) -> PodRef {
        self.change(|state| state.add_pod(namespace, name, controller))
    }

    /// Puts a pod as it is given; its UID is made where it has none.
    pub fn put_pod(&self, pod: Value) -> PodRef {
        self.change(|state| state.put_pod(pod))
    }

    /// Changes a pod in place, as its controller or kubelet might.
    pub fn edit_pod(&self, pod: &PodRef, edit: impl FnOnce(&mut Value)) {
        self.change(|state| {
            if let Some(found) = state
                .pods
                .get_mut(&(pod.namespace.clone(), pod.name.clone()))
            {
                edit(found);
            }
        });
    }

    /// A pod goes without our doing: evicted, deleted by hand, its node lost (C-24). Streams into
    /// it end; a controller replaces it.
    pub fn lose_pod(&self, pod: &PodRef) {
        self.change(|state| state.remove_pod(&pod.namespace, &pod.name));
    }

    /// The same, and another pod takes its name (a StatefulSet, C-26).
    pub fn replace_pod(&self, pod: &PodRef) -> PodRef {
        self.change(|state| state.replace_pod(&pod.namespace, &pod.name))
    }

    /// Adds a PodDisruptionBudget for the pods with these labels.
    pub fn add_budget(&self, namespace: &str, labels: &[(&str, &str)], allowed: u32) {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let budget = json!({
            "metadata": { "namespace": namespace },
            "spec": { "selector": { "matchLabels": labels } },
            "status": { "disruptionsAllowed": allowed },
        });
        self.change(|state| state.budgets.push(budget));
    }

    /// Makes a RoleBinding that is not ours, whatever its name.
    pub fn put_binding(&self, binding: Value) -> String {
        self.change(|state| state.put_binding(binding))
    }

    /// The next call of this step fails so; several queue up.
    pub fn fail_next(&self, step: Step, fault: Fault) {
        self.change(|state| state.faults.push_back((step, fault)));
    }

    /// Every call of this step fails so, or none does any more.
    pub fn fail_always(&self, step: Step, fault: Option<Fault>) {
        self.change(|state| match fault {
            Some(fault) => state.standing_faults.insert(step, fault),
            None => state.standing_faults.remove(&step),
        });
    }

    /// Nothing answers, or everything does again (C-24).
    pub fn set_away(&self, away: bool) {
        self.change(|state| state.away = away);
    }

    /// What was sent and never answered ([`Fault::LandsLate`]) takes effect (C-10a).
    pub fn land_late_calls(&self) {
        self.change(|state| {
            for call in std::mem::take(&mut state.late) {
                call(state);
            }
        });
    }

    /// How the next debug container starts; several queue up. Without one it runs at once.
    pub fn next_start(&self, start: Start) {
        self.change(|state| state.starts.push_back(start));
    }

    /// A container that waits runs ([`Start::Waits`]).
    pub fn run_container(&self, pod: &PodRef, container: &str) {
        let running = json!({ "running": {} });
        self.change(|state| state.set_container(&pod.namespace, &pod.name, container, running));
    }

    /// The shell in a container exits; streams to it get its status and end.
    pub fn exit_container(&self, pod: &PodRef, container: &str, code: i32) {
        self.change(|state| state.exit(&pod.namespace, &pod.name, container, code));
    }

    /// The shell writes.
    pub fn write(&self, pod: &PodRef, container: &str, output: &'static str) {
        let output = Bytes::from_static(output.as_bytes());
        self.change(|state| state.output(&pod.namespace, &pod.name, container, &output));
    }

    /// Every open stream is cut, as by a proxy or a network; the shells live on (C-25).
    pub fn cut_streams(&self) {
        self.change(State::cut_streams);
    }

    /// Shells take no input, or do again: the stream is full (T-14).
    pub fn set_stuck(&self, stuck: bool) {
        self.change(|state| {
            state.stuck = stuck;
            state.wake_all();
        });
    }

    /// Whether PodDisruptionBudgets may be read; at first they may.
    pub fn set_budgets_readable(&self, readable: bool) {
        self.change(|state| state.budgets_readable = readable);
    }

    /// What was done here, oldest first. What failed is not in it.
    pub fn effects(&self) -> Vec<Effect> {
        self.read().effects.clone()
    }

    /// The names of the RoleBindings with our label.
    pub fn grants(&self) -> Vec<String> {
        let state = self.read();
        let ours = state
            .bindings
            .values()
            .filter(|binding| object::texts(binding, "labels").contains_key(names::SESSION));
        ours.filter_map(|binding| object::meta(binding, "name"))
            .map(str::to_owned)
            .collect()
    }

    /// Whether a RoleBinding of that name is there.
    pub fn has_binding(&self, namespace: &str, name: &str) -> bool {
        self.read()
            .bindings
            .contains_key(&(namespace.to_owned(), name.to_owned()))
    }

    /// The pod of that name, whichever its UID.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        self.read()
            .pods
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    /// The names of the pods in a namespace.
    pub fn pods(&self, namespace: &str) -> Vec<String> {
        let state = self.read();
        let here = state.pods.keys().filter(|(inside, _)| inside == namespace);
        here.map(|(_, name)| name.clone()).collect()
    }

    /// The streams that are open.
    pub fn open_streams(&self) -> usize {
        self.read()
            .streams
            .values()
            .filter(|stream| stream.is_open())
            .count()
    }

    /// What a shell was sent as input so far, over all its streams.
    pub fn input(&self, pod: &PodRef, container: &str) -> Vec<u8> {
        let state = self.read();
        let shell = state
            .shells
            .get(&state::shell_key(&pod.namespace, &pod.name, container));
        shell.map(|shell| shell.input.clone()).unwrap_or_default()
    }

    /// The terminal's size as a shell was last told: columns and rows.
    pub fn size(&self, pod: &PodRef, container: &str) -> Option<(u16, u16)> {
        let state = self.read();
        state
            .shells
            .get(&state::shell_key(&pod.namespace, &pod.name, container))?
            .size
    }
}

#[cfg(test)]
mod tests;
