//! The port, on the fake's state.

use super::state::{COPY, EITHER, Fault, LIVE, State, Step, shell_key};
use super::{FakeCluster, FakeShell};
use crate::cluster::leftovers::leftover;
use crate::cluster::object::{self, made, meta, uid};
use crate::cluster::pods::{gone, is_copy, starting, too_late, without_uid};
use crate::cluster::{controller, debug_container, grant, may_be_attached, watch};
use crate::ports::ClusterError;
use crate::ports::cluster::{
    Cluster, ControllerFacts, Deleted, Leftover, MadeObject, ObjectKind, PodRef, Shell, TargetFacts,
};
use async_trait::async_trait;
use decisions::names;
use decisions::session::SessionId;
use serde_json::{Value, json};
use std::time::Duration;

impl FakeCluster {
    /// Does a step, unless it was told to fail.
    fn step<T>(
        &self,
        step: Step,
        act: impl FnOnce(&mut State) -> Result<T, ClusterError> + Send + 'static,
    ) -> Result<T, ClusterError> {
        self.change(|state| match state.take_fault(step) {
            None => act(state),
            Some(Fault::Refused(refusal)) => Err(refusal.error()),
            Some(Fault::Unreachable) => Err(state.away_error()),
            Some(Fault::AnswerLost) => {
                // Its outcome is what nobody gets to know.
                let _ = act(state);
                Err(state.away_error())
            }
            Some(Fault::LandsLate) => {
                state.late.push(Box::new(|state| {
                    let _ = act(state);
                }));
                Err(state.away_error())
            }
        })
    }

    /// Looks at the state until there is an answer; `None` when the bound passes first.
    async fn until<T>(&self, bound: Duration, look: impl Fn(&State) -> Option<T>) -> Option<T> {
        let mut changed = self.shared.changed.subscribe();
        let waiting = async {
            loop {
                changed.borrow_and_update();
                if let Some(answer) = look(&self.read()) {
                    return Some(answer);
                }
                if changed.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(bound, waiting).await.ok().flatten()
    }
}

impl State {
    fn find(&self, pod: &PodRef) -> Option<&Value> {
        let found = self.pods.get(&(pod.namespace.clone(), pod.name.clone()));
        found.filter(|found| watch::is(pod, found))
    }

    fn look_at(&self, namespace: &str, pod: &str) -> TargetFacts {
        TargetFacts {
            namespace_labels: self.namespaces.get(namespace).cloned(),
            pod: self
                .pods
                .get(&(namespace.to_owned(), pod.to_owned()))
                .cloned(),
        }
    }

    fn create_grant(&mut self, id: &SessionId, wanted: Value) -> Result<MadeObject, ClusterError> {
        let text = |field| meta(&wanted, field).unwrap_or_default().to_owned();
        let key = (text("namespace"), text("name"));
        if let Some(there) = self.bindings.get(&key) {
            if !grant::stands(&self.installation, id, there, Some(&wanted)) {
                let message = format!("rolebindings `{}` already exists", key.1);
                return Err(ClusterError::Conflict { message });
            }
        } else {
            self.put_binding(wanted);
            self.did(Step::CreateGrant, &key.1);
        }
        let found = self.bindings.get(&key);
        let made = found.and_then(|it| made(&self.name, id, ObjectKind::RoleBinding, it));
        made.ok_or(ClusterError::Invalid {
            message: "a grant without a name".to_owned(),
        })
    }

    fn delete_grant(&mut self, object: &MadeObject) -> Deleted {
        let key = (object.namespace.clone(), object.name.clone());
        match self.bindings.get(&key).map(uid) {
            None => Deleted::Gone,
            Some(found) if found != Some(object.uid.as_str()) => Deleted::Replaced,
            Some(_) => {
                self.bindings.remove(&key);
                self.did(Step::DeleteGrant, &object.name);
                Deleted::Gone
            }
        }
    }

    fn find_grants(&self, namespace: &str, id: &SessionId) -> Vec<MadeObject> {
        let known = [names::grant_name(id), names::second_grant_name(id)];
        let keys = known.map(|name| (namespace.to_owned(), name));
        let found = keys.iter().filter_map(|key| self.bindings.get(key));
        let ours = found.filter(|it| grant::stands(&self.installation, id, it, None));
        ours.filter_map(|it| made(&self.name, id, ObjectKind::RoleBinding, it))
            .collect()
    }

    fn annotate(&mut self, pod: &PodRef, id: Option<&SessionId>) -> Result<(), ClusterError> {
        self.granted(&pod.namespace, LIVE)?;
        if self.find(pod).is_none() {
            return if id.is_none() { Ok(()) } else { Err(gone(pod)) };
        }
        let found = self
            .pods
            .get_mut(&(pod.namespace.clone(), pod.name.clone()));
        if let Some(found) = found {
            let marks = &mut found["metadata"]["annotations"];
            match (id, marks.as_object_mut()) {
                (Some(id), Some(marks)) => {
                    marks.insert(names::PROCESS_ACCESS.to_owned(), id.as_str().into());
                }
                (Some(id), None) => *marks = json!({ names::PROCESS_ACCESS: id.as_str() }),
                (None, Some(marks)) => {
                    marks.remove(names::PROCESS_ACCESS);
                }
                (None, None) => {}
            }
        }
        self.did(Step::AnnotateProcessAccess, &pod.name);
        Ok(())
    }

    fn add(&mut self, pod: &PodRef, container: &Value) -> Result<(), ClusterError> {
        self.granted(&pod.namespace, LIVE)?;
        let name = container["name"].as_str().unwrap_or_default();
        let found = self.find(pod).ok_or_else(|| gone(pod))?;
        if !debug_container::has(found, name) {
            self.add_container(&(pod.namespace.clone(), pod.name.clone()), container);
            self.did(Step::AddDebugContainer, name);
        }
        Ok(())
    }

    fn create_copy(&mut self, id: &SessionId, mut pod: Value) -> Result<MadeObject, ClusterError> {
        let text = |field| meta(&pod, field).unwrap_or_default().to_owned();
        let key = (text("namespace"), text("name"));
        self.granted(&key.0, COPY)?;
        if let Some(there) = self.pods.get(&key) {
            if !is_copy(&self.installation, id, there) {
                let message = format!("pods `{}` already exists", key.1);
                return Err(ClusterError::Conflict { message });
            }
        } else {
            self.start_pod(&mut pod);
            self.put_pod(pod);
            self.did(Step::CreateCopyPod, &key.1);
        }
        let made = self
            .pods
            .get(&key)
            .and_then(|it| made(&self.name, id, ObjectKind::CopyPod, it));
        made.ok_or(ClusterError::Invalid {
            message: "a copy without a name".to_owned(),
        })
    }

    fn delete_pod(&mut self, pod: &PodRef) -> Result<Deleted, ClusterError> {
        if pod.uid.is_none() {
            return Err(without_uid(pod));
        }
        self.granted(&pod.namespace, EITHER)?;
        if self.find(pod).is_some() {
            self.remove_pod(&pod.namespace, &pod.name);
            self.did(Step::DeletePod, &pod.name);
            return Ok(Deleted::Gone);
        }
        let taken = self
            .pods
            .contains_key(&(pod.namespace.clone(), pod.name.clone()));
        Ok(if taken {
            Deleted::Replaced
        } else {
            Deleted::Gone
        })
    }

    fn controller_facts(&self, pod: &Value) -> Result<ControllerFacts, ClusterError> {
        let namespace = meta(pod, "namespace").unwrap_or_default();
        self.granted(namespace, EITHER)?;
        let here = self
            .pods
            .iter()
            .filter(|((inside, _), _)| inside == namespace);
        let others = here
            .filter(|(_, other)| controller::is_ready_sibling(other, pod))
            .count();
        let budgets = self
            .budgets
            .iter()
            .filter(|budget| meta(budget, "namespace") == Some(namespace));
        let allowed = budgets
            .map(|budget| controller::allowed_by(budget, pod))
            .fold(None, controller::fewer)
            .filter(|_| self.budgets_readable);
        Ok(ControllerFacts {
            other_ready_pods: u32::try_from(others).ok(),
            disruptions_allowed: allowed,
        })
    }

    fn leftovers(&self) -> Vec<Leftover> {
        let ours =
            |it: &Value| names::our_session(&object::texts(it, "labels"), &self.installation);
        let found = |kind, it: &Value| leftover(&self.name, &ours(it)?, kind, it);
        let grants = self
            .bindings
            .values()
            .filter_map(|it| found(ObjectKind::RoleBinding, it));
        let visible = self
            .pods
            .iter()
            .filter(|((ns, _), _)| self.granted(ns, EITHER).is_ok());
        grants
            .chain(visible.filter_map(|(_, pod)| found(ObjectKind::CopyPod, pod)))
            .collect()
    }
}

#[async_trait]
impl Cluster for FakeCluster {
    async fn username(&self) -> Result<String, ClusterError> {
        self.step(Step::Username, |state| Ok(state.username.clone()))
    }

    async fn look_at(&self, namespace: &str, pod: &str) -> Result<TargetFacts, ClusterError> {
        let (namespace, pod) = (namespace.to_owned(), pod.to_owned());
        self.step(Step::LookAt, move |state| {
            Ok(state.look_at(&namespace, &pod))
        })
    }

    async fn create_grant(
        &self,
        session: &SessionId,
        binding: &Value,
    ) -> Result<MadeObject, ClusterError> {
        let (session, binding) = (session.clone(), binding.clone());
        self.step(Step::CreateGrant, move |state| {
            state.create_grant(&session, binding)
        })
    }

    async fn delete_grant(&self, object: &MadeObject) -> Result<Deleted, ClusterError> {
        let object = object.clone();
        self.step(Step::DeleteGrant, move |state| {
            Ok(state.delete_grant(&object))
        })
    }

    async fn find_grants(
        &self,
        namespace: &str,
        session: &SessionId,
    ) -> Result<Vec<MadeObject>, ClusterError> {
        let (namespace, session) = (namespace.to_owned(), session.clone());
        self.step(Step::FindGrants, move |state| {
            Ok(state.find_grants(&namespace, &session))
        })
    }

    async fn annotate_process_access(
        &self,
        pod: &PodRef,
        session: Option<&SessionId>,
    ) -> Result<(), ClusterError> {
        let (pod, session) = (pod.clone(), session.cloned());
        self.step(Step::AnnotateProcessAccess, move |state| {
            state.annotate(&pod, session.as_ref())
        })
    }

    async fn add_debug_container(
        &self,
        pod: &PodRef,
        container: &Value,
    ) -> Result<(), ClusterError> {
        let (pod, container) = (pod.clone(), container.clone());
        self.step(Step::AddDebugContainer, move |state| {
            state.add(&pod, &container)
        })
    }

    async fn create_copy_pod(
        &self,
        session: &SessionId,
        pod: &Value,
    ) -> Result<MadeObject, ClusterError> {
        let (session, pod) = (session.clone(), pod.clone());
        self.step(Step::CreateCopyPod, move |state| {
            state.create_copy(&session, pod)
        })
    }

    async fn await_running(
        &self,
        pod: &PodRef,
        container: &str,
        bound: Duration,
    ) -> Result<(), ClusterError> {
        self.step(Step::AwaitRunning, |_| Ok(()))?;
        let judged = self.until(bound, |state| {
            if state.away {
                return Some(Err(state.away_error()));
            }
            let Some(found) = state.find(pod) else {
                return Some(Err(gone(pod)));
            };
            starting(found, container, &mut String::new())
        });
        judged
            .await
            .unwrap_or_else(|| Err(too_late(container, bound, "")))
    }

    async fn read_pod(&self, pod: &PodRef) -> Result<Option<Value>, ClusterError> {
        let pod = pod.clone();
        self.step(Step::ReadPod, move |state| Ok(state.find(&pod).cloned()))
    }

    async fn attach(&self, pod: &PodRef, container: &str) -> Result<Box<dyn Shell>, ClusterError> {
        let (pod, container) = (pod.clone(), container.to_owned());
        let shell = self.step(Step::Attach, move |state| {
            state.granted(&pod.namespace, EITHER)?;
            may_be_attached(state.find(&pod).ok_or_else(|| gone(&pod))?, &container)?;
            state.did(Step::Attach, &container);
            Ok(shell_key(&pod.namespace, &pod.name, &container))
        })?;
        Ok(Box::new(FakeShell::open(self, shell)))
    }

    async fn controller_facts(&self, pod: &Value) -> Result<ControllerFacts, ClusterError> {
        let pod = pod.clone();
        self.step(Step::ControllerFacts, move |state| {
            state.controller_facts(&pod)
        })
    }

    async fn delete_pod(&self, pod: &PodRef, _: Option<Duration>) -> Result<Deleted, ClusterError> {
        let pod = pod.clone();
        self.step(Step::DeletePod, move |state| state.delete_pod(&pod))
    }

    async fn await_gone(&self, pod: &PodRef, bound: Duration) -> Result<Deleted, ClusterError> {
        self.step(Step::AwaitGone, |_| Ok(()))?;
        if pod.uid.is_none() {
            return Err(without_uid(pod));
        }
        let gone = |state: &State| state.find(pod).is_none().then_some(Deleted::Gone);
        Ok(self
            .until(bound, gone)
            .await
            .unwrap_or(Deleted::Terminating))
    }

    async fn leftovers(&self) -> Result<Vec<Leftover>, ClusterError> {
        self.step(Step::Leftovers, |state| Ok(state.leftovers()))
    }
}
