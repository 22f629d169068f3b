//! The kubelet: what a pod's status says, and the containers that run.
//!
//! What must hold: a container's state is only written while its pod is the one (by UID) that it
//! was started in; an ended ephemeral container stays ended.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::faults::StartFault;
use crate::pty::Program;
use crate::shell::Shell;
use crate::workload;
use crate::world::{Key, State, World, timestamp};

/// An unprivileged user, for a container that names none.
const NOBODY: u32 = 65_534;

/// Which of a pod's lists a container is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Regular,
    Ephemeral,
}

impl Kind {
    pub(crate) fn containers(self) -> &'static str {
        match self {
            Self::Regular => "containers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }

    pub(crate) fn statuses(self) -> &'static str {
        match self {
            Self::Regular => "containerStatuses",
            Self::Ephemeral => "ephemeralContainerStatuses",
        }
    }
}

/// Gives a pod the status of `phase`, its containers included.
pub(crate) fn set_phase(object: &mut Value, phase: &str) {
    let running = phase == "Running";
    let state = match phase {
        "Running" => json!({ "running": { "startedAt": timestamp() } }),
        "Succeeded" => terminated(0, "Completed"),
        "Failed" => terminated(1, "Error"),
        _ => json!({ "waiting": { "reason": "ContainerCreating" } }),
    };
    let containers = object["spec"]["containers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let statuses: Vec<Value> = containers
        .iter()
        .map(|container| container_status(object, container, &state, running))
        .collect();
    object["status"] = json!({
        "phase": phase, "qosClass": "BestEffort", "startTime": timestamp(),
        "hostIP": "10.0.0.1", "podIP": "10.1.0.7", "podIPs": [{ "ip": "10.1.0.7" }],
        "conditions": conditions(running), "containerStatuses": statuses,
    });
}

fn conditions(ready: bool) -> Value {
    let condition = |kind: &str, met: bool| {
        let status = if met { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastTransitionTime": timestamp() })
    };
    json!([
        condition("PodScheduled", true),
        condition("Initialized", true),
        condition("ContainersReady", ready),
        condition("Ready", ready),
    ])
}

fn container_status(object: &Value, container: &Value, state: &Value, ready: bool) -> Value {
    let image = container["image"].as_str().unwrap_or_default();
    let mut status = json!({
        "name": container["name"], "image": image, "imageID": image_id(image), "ready": ready,
        "started": ready, "restartCount": 0, "lastState": {}, "state": state,
        "containerID": format!("containerd://{:016x}", hash(&(object["metadata"]["uid"].as_str(),
            container["name"].as_str()))),
    });
    if state.get("running").is_some() {
        let (user, group) = identity(object, container);
        status["user"] = json!({ "linux": {
            "uid": user, "gid": group, "supplementalGroups": [group],
        } });
    }
    status
}

fn terminated(code: i32, reason: &str) -> Value {
    let at = timestamp();
    json!({ "terminated": {
        "exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at,
    } })
}

/// `image@sha256:…`: its own digest, or one that depends on the reference alone.
pub(crate) fn image_id(image: &str) -> String {
    if image.contains("@sha256:") {
        return image.to_owned();
    }
    let path_from = image.rfind('/').map_or(0, |at| at + 1);
    let name = match image[path_from..].find(':') {
        Some(colon) => &image[..path_from + colon],
        None => image,
    };
    let digest: String = (0..4)
        .map(|part| format!("{:016x}", hash(&(part, image))))
        .collect();
    format!("{name}@sha256:{digest}")
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The user and group that a container runs as, as declared; else the image's, which is 10001.
fn identity(object: &Value, container: &Value) -> (u64, u64) {
    let declared = |field: &str| {
        container["securityContext"][field]
            .as_u64()
            .or_else(|| object["spec"]["securityContext"][field].as_u64())
    };
    (
        declared("runAsUser").unwrap_or(10_001),
        declared("runAsGroup").unwrap_or(10_001),
    )
}

/// Starts every container of a created pod, and its own deadline.
pub(crate) fn run_pod(world: &World, key: &Key) {
    let (uid, names, deadline) = {
        let state = world.read();
        let Some(pod) = state.pods.get(key) else {
            return;
        };
        let containers = pod.object["spec"]["containers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let names: Vec<String> = containers
            .iter()
            .filter_map(|container| container["name"].as_str().map(str::to_owned))
            .collect();
        (
            pod.uid().to_owned(),
            names,
            pod.object["spec"]["activeDeadlineSeconds"].as_u64(),
        )
    };
    for name in names {
        start_container(world, key, &uid, &name, Kind::Regular);
    }
    if let Some(seconds) = deadline {
        let (world, key, uid) = (world.clone(), key.clone(), uid);
        world.clone().spawn(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            fail_pod(
                &world,
                &key,
                &uid,
                "DeadlineExceeded",
                "Pod was active on the node longer \
                than the specified deadline",
            );
        });
    }
}

/// Ends a pod on its node: its processes die and its phase is `Failed`.
pub(crate) fn fail_pod(world: &World, key: &Key, uid: &str, reason: &str, message: &str) -> bool {
    world.change(|state| {
        let Some(pod) = state.pod_mut(key, uid) else {
            return false;
        };
        for shell in pod.shells.values() {
            shell.kill();
        }
        pod.object["status"]["phase"] = "Failed".into();
        pod.object["status"]["reason"] = reason.into();
        pod.object["status"]["message"] = message.into();
        pod.object["status"]["conditions"] = conditions(false);
        state.publish("MODIFIED", key);
        true
    })
}

/// The node stopped answering: nobody knows how the pod is.
pub(crate) fn lose_node(world: &World, key: &Key) -> bool {
    world.change(|state| {
        let Some(pod) = state.pods.get_mut(key) else {
            return false;
        };
        pod.object["status"]["phase"] = "Unknown".into();
        pod.object["status"]["reason"] = "NodeLost".into();
        pod.object["status"]["message"] =
            "Node node-1 which was running pod is unresponsive".into();
        pod.object["status"]["conditions"] = conditions(false);
        state.publish("MODIFIED", key);
        true
    })
}

/// One container on its way.
struct Start {
    world: World,
    key: Key,
    uid: String,
    name: String,
    kind: Kind,
}

/// Starts a container of a pod in the background; its status tells how it goes.
pub(crate) fn start_container(world: &World, key: &Key, uid: &str, name: &str, kind: Kind) {
    let start = Start {
        world: world.clone(),
        key: key.clone(),
        uid: uid.to_owned(),
        name: name.to_owned(),
        kind,
    };
    world.spawn(async move {
        // None: the pod is gone, and with it whatever there was to report.
        let _: Option<()> = start.run().await;
    });
}

impl Start {
    async fn run(self) -> Option<()> {
        let reason = match self.kind {
            Kind::Regular => "ContainerCreating",
            Kind::Ephemeral => "PodInitializing",
        };
        self.report(&waiting(reason, ""))?;
        let container = self.container()?;
        let image = container["image"].as_str().unwrap_or_default().to_owned();
        let fault = self.world.change(|state| state.faults.start_fault(&image));
        let delays = self.world.options().delays.clone();
        let delay = if self.kind == Kind::Regular {
            delays.replace
        } else {
            delays.start
        };
        tokio::time::sleep(delay).await;
        match fault {
            None => {}
            Some(StartFault::Slow { milliseconds }) => {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            }
            Some(StartFault::Never) => return Some(()),
            Some(StartFault::ConfigError { message }) => {
                return self.report(&waiting("CreateContainerConfigError", &message));
            }
            Some(StartFault::ImagePull { message }) => {
                self.report(&waiting("ErrImagePull", &message))?;
                tokio::time::sleep(delays.pull_back_off).await;
                let again = format!("Back-off pulling image \"{image}\": ErrImagePull: {message}");
                return self.report(&waiting("ImagePullBackOff", &again));
            }
        }
        if let Some(message) = self.root_refused(&container) {
            return self.report(&waiting("CreateContainerConfigError", &message));
        }
        self.run_program(&container).await
    }

    async fn run_program(&self, container: &Value) -> Option<()> {
        let real = self.kind == Kind::Ephemeral
            || (container["stdin"] == true && container["tty"] == true);
        if !real {
            return self.report(&json!({ "running": { "startedAt": timestamp() } }));
        }
        let shell = match Shell::start(self.program(container)) {
            Ok(shell) => shell,
            Err(error) => {
                let message = format!("failed to create containerd task: {error}");
                let mut state = terminated(128, "StartError");
                state["terminated"]["message"] = message.into();
                return self.report(&state);
            }
        };
        if self.adopt(&shell).is_none() {
            shell.kill();
            return None;
        }
        let started_at = timestamp();
        self.report(&json!({ "running": { "startedAt": started_at } }))?;
        let code = shell.ended().await;
        tokio::time::sleep(self.world.options().delays.report_exit).await;
        let mut state = terminated(code, if code == 0 { "Completed" } else { "Error" });
        state["terminated"]["startedAt"] = started_at.into();
        self.report(&state)
    }

    fn container(&self) -> Option<Value> {
        let mut state = self.world.read();
        let pod = state.pod_mut(&self.key, &self.uid)?;
        let containers = pod.object["spec"][self.kind.containers()].as_array()?;
        containers
            .iter()
            .find(|one| one["name"] == self.name.as_str())
            .cloned()
    }

    fn program(&self, container: &Value) -> Program {
        let words = |field: &str| {
            let words = container[field].as_array().cloned().unwrap_or_default();
            words
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let mut command: Vec<String> = words("command");
        if command.is_empty() {
            command.push("/bin/sh".to_owned());
        }
        command.extend(words("args"));
        let state = self.world.read();
        let pod = state
            .pods
            .get(&self.key)
            .map(|pod| &pod.object)
            .unwrap_or(&Value::Null);
        let (user, group) = identity(pod, container);
        let unprivileged = |id: u64| match u32::try_from(id) {
            Ok(id) if id > 0 => id,
            _ => NOBODY,
        };
        Program {
            command,
            user: unprivileged(user),
            group: unprivileged(group),
            mark: crate::world::new_uid(),
        }
    }

    fn root_refused(&self, container: &Value) -> Option<String> {
        let state = self.world.read();
        let pod = &state.pods.get(&self.key)?.object;
        let non_root = container["securityContext"]["runAsNonRoot"]
            .as_bool()
            .or_else(|| pod["spec"]["securityContext"]["runAsNonRoot"].as_bool());
        (non_root == Some(true) && identity(pod, container).0 == 0)
            .then(|| "container's runAsUser breaks non-root policy".to_owned())
    }

    fn adopt(&self, shell: &Arc<Shell>) -> Option<()> {
        let mut state = self.world.read();
        let pod = state.pod_mut(&self.key, &self.uid)?;
        pod.shells.insert(self.name.clone(), shell.clone());
        Some(())
    }

    /// Writes the container's state into its pod; None if the pod is gone.
    fn report(&self, state: &Value) -> Option<()> {
        self.world.change(|world| {
            let pod = world.pod_mut(&self.key, &self.uid)?;
            let object = &mut pod.object;
            let containers = object["spec"][self.kind.containers()].as_array()?;
            let container = containers
                .iter()
                .find(|one| one["name"] == self.name.as_str())?
                .clone();
            let ready = self.kind == Kind::Regular && state.get("running").is_some();
            let status = container_status(object, &container, state, ready);
            put_status(object, self.kind, status);
            if self.kind == Kind::Regular {
                settle_phase(object);
            }
            world.publish("MODIFIED", &self.key);
            Some(())
        })
    }
}

fn waiting(reason: &str, message: &str) -> Value {
    let mut state = json!({ "waiting": { "reason": reason } });
    if !message.is_empty() {
        state["waiting"]["message"] = message.into();
    }
    state
}

fn put_status(object: &mut Value, kind: Kind, status: Value) {
    let list = &mut object["status"][kind.statuses()];
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|one| one["name"] == status["name"]) {
        Some(one) => *one = status,
        None => list.push(status),
    }
}

/// A pod's phase follows its containers.
fn settle_phase(object: &mut Value) {
    // A pod that failed by its deadline or its node keeps that verdict.
    if object["status"]["reason"].is_string() {
        return;
    }
    let statuses = object["status"]["containerStatuses"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let all = |state: &str| statuses.iter().all(|one| one["state"].get(state).is_some());
    let any = |state: &str| statuses.iter().any(|one| one["state"].get(state).is_some());
    let failed = statuses.iter().any(|one| {
        one["state"]["terminated"]["exitCode"]
            .as_i64()
            .is_some_and(|code| code != 0)
    });
    let phase = match () {
        () if all("terminated") && failed => "Failed",
        () if all("terminated") => "Succeeded",
        () if any("running") && !any("waiting") => "Running",
        () => "Pending",
    };
    object["status"]["phase"] = phase.into();
    object["status"]["conditions"] = conditions(all("running"));
}

/// Deletes a pod as asked: at once with a grace period of 0, else after the node has stopped it.
pub(crate) fn delete_pod(world: &World, key: &Key, grace_seconds: u64) {
    if grace_seconds == 0 {
        workload::remove_pod(world, key, None);
        return;
    }
    let uid = world.change(|state: &mut State| {
        let pod = state.pods.get_mut(key)?;
        let uid = pod.uid().to_owned();
        let metadata = &mut pod.object["metadata"];
        if !metadata["deletionTimestamp"].is_null() {
            return None;
        }
        let seconds = i64::try_from(grace_seconds).unwrap_or(i64::MAX);
        metadata["deletionTimestamp"] = crate::world::timestamp_in(seconds).into();
        metadata["deletionGracePeriodSeconds"] = grace_seconds.into();
        state.publish("MODIFIED", key);
        Some(uid)
    });
    let Some(uid) = uid else { return };
    let (world, key) = (world.clone(), key.clone());
    let stop = world
        .options()
        .delays
        .stop
        .min(Duration::from_secs(grace_seconds));
    world.clone().spawn(async move {
        tokio::time::sleep(stop).await;
        workload::remove_pod(&world, &key, Some(&uid));
    });
}
