//! What the decisions read of a Pod, as the API server sends it.
//!
//! Invariant: reading is lenient where a newer API server may differ (unknown fields are ignored,
//! an absent or null list is empty) and strict where it must not (a known field of another type
//! refuses the pod). `Debug` shows names only: an environment or a command may hold a secret.

use crate::names;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The text could not be read as a Pod.
#[derive(Debug, thiserror::Error)]
#[error("the cluster's answer is not a pod that this version can read")]
pub struct NotAPod(#[source] serde_json::Error);

/// A Pod, as far as the decisions look at it.
#[derive(Clone, PartialEq, Deserialize)]
pub struct PodFacts {
    /// Name, identity and marks.
    pub metadata: Metadata,
    /// What was asked for.
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpec,
    /// What runs.
    #[serde(default, deserialize_with = "nullable")]
    pub status: PodStatus,
}

/// A Pod's `metadata`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Metadata {
    pub name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    pub resource_version: Option<String>,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "nullable")]
    pub owner_references: Vec<OwnerReference>,
}

/// One owner of a Pod.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct OwnerReference {
    pub kind: String,
    pub name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    #[serde(default, deserialize_with = "nullable")]
    pub controller: bool,
}

/// A Pod's `spec`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct PodSpec {
    #[serde(default, deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    #[serde(default, deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    #[serde(default, deserialize_with = "nullable")]
    pub ephemeral_containers: Vec<Container>,
    #[serde(default, deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    #[serde(default, deserialize_with = "nullable")]
    pub share_process_namespace: bool,
    #[serde(default, deserialize_with = "nullable")]
    pub host_network: bool,
    #[serde(default, rename = "hostPID", deserialize_with = "nullable")]
    pub host_pid: bool,
    #[serde(default, rename = "hostIPC", deserialize_with = "nullable")]
    pub host_ipc: bool,
    pub host_users: Option<bool>,
    pub node_name: Option<String>,
    pub os: Option<PodOs>,
    pub security_context: Option<PodSecurityContext>,
    pub affinity: Option<Value>,
    pub node_selector: Option<Value>,
    pub tolerations: Option<Value>,
    pub image_pull_secrets: Option<Value>,
    pub dns_policy: Option<String>,
    pub dns_config: Option<Value>,
    pub host_aliases: Option<Value>,
    pub runtime_class_name: Option<String>,
    pub resource_claims: Option<Value>,
}

/// The operating system that a Pod declares.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct PodOs {
    /// `linux` or `windows`.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
}

/// A Pod's security context: the fields that a copy keeps.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct PodSecurityContext {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_non_root: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs_group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs_group_change_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplemental_groups: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supplemental_groups_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub se_linux_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp_profile: Option<Profile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_armor_profile: Option<Profile>,
    #[serde(skip_serializing)]
    pub sysctls: Option<Value>,
}

/// A seccomp or AppArmor profile.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Profile {
    #[serde(rename = "type", default, deserialize_with = "nullable")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub localhost_profile: Option<String>,
}

/// A container of any kind: regular, init or ephemeral.
#[derive(Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Container {
    pub name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub image: String,
    pub command: Option<Vec<String>>,
    pub args: Option<Vec<String>>,
    pub working_dir: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub env: Vec<EnvVar>,
    #[serde(default, deserialize_with = "nullable")]
    pub env_from: Vec<EnvFrom>,
    #[serde(default, deserialize_with = "nullable")]
    pub volume_mounts: Vec<AppMount>,
    #[serde(default, deserialize_with = "nullable")]
    pub volume_devices: Vec<Value>,
    #[serde(default, deserialize_with = "nullable")]
    pub ports: Vec<Port>,
    pub resources: Option<Resources>,
    pub security_context: Option<SecurityContext>,
    pub restart_policy: Option<String>,
    pub target_container_name: Option<String>,
    pub liveness_probe: Option<Value>,
    pub readiness_probe: Option<Value>,
    pub startup_probe: Option<Value>,
    pub lifecycle: Option<Value>,
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container")
            .field("name", &self.name)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// One environment variable. Not `Debug`: its value may be a secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct EnvVar {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

/// A source of many environment variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct EnvFrom {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<Value>,
}

/// Where an app's container mounts a volume.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct AppMount {
    pub name: String,
    pub mount_path: String,
    #[serde(default, deserialize_with = "nullable")]
    pub read_only: bool,
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub sub_path: String,
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "String::is_empty"
    )]
    pub sub_path_expr: String,
}

/// A port that a container declares.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    /// The node's port, if it takes one.
    #[serde(default, deserialize_with = "nullable")]
    pub host_port: i64,
}

/// What a container may use.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Resources {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Value>,
    #[serde(skip_serializing)]
    pub claims: Option<Value>,
}

/// A container's security context.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct SecurityContext {
    pub run_as_user: Option<i64>,
    pub run_as_group: Option<i64>,
    pub run_as_non_root: Option<bool>,
    pub read_only_root_filesystem: Option<bool>,
    pub privileged: Option<bool>,
    pub capabilities: Option<Capabilities>,
    pub se_linux_options: Option<Value>,
    pub seccomp_profile: Option<Profile>,
    pub app_armor_profile: Option<Profile>,
    pub windows_options: Option<Value>,
}

/// Capabilities that a container adds and drops.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Capabilities {
    #[serde(default, deserialize_with = "nullable")]
    pub add: Vec<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub drop: Vec<String>,
}

/// A volume: its name and its one source, under the source's own name (`configMap` …).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Volume {
    /// The volume's name in the pod.
    pub name: String,
    /// The source; more than one is never valid.
    #[serde(flatten)]
    pub source: BTreeMap<String, Value>,
}

/// `null` is how a Go program may write an empty list.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&String> = self.source.keys().collect();
        f.debug_struct("Volume")
            .field("name", &self.name)
            .field("source", &kinds)
            .finish()
    }
}

impl fmt::Debug for PodFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodFacts")
            .field("namespace", &self.metadata.namespace)
            .field("name", &self.metadata.name)
            .field("uid", &self.metadata.uid)
            .finish_non_exhaustive()
    }
}

impl PodFacts {
    /// Reads a Pod from the API server's JSON.
    pub fn read(pod: &Value) -> Result<Self, NotAPod> {
        Self::deserialize(pod).map_err(NotAPod)
    }

    /// The regular container or sidecar of that name: what a session can look at (S-14).
    pub fn container(&self, name: &str) -> Option<&Container> {
        let regular = self.spec.containers.iter().find(|c| c.name == name);
        regular.or_else(|| self.sidecars().find(|c| c.name == name))
    }

    /// Init containers that stay running beside the app.
    pub(crate) fn sidecars(&self) -> impl Iterator<Item = &Container> {
        self.spec
            .init_containers
            .iter()
            .filter(|c| c.restart_policy.as_deref() == Some("Always"))
    }

    /// Every container but the ephemeral ones.
    pub(crate) fn app_containers(&self) -> impl Iterator<Item = &Container> {
        self.spec
            .init_containers
            .iter()
            .chain(&self.spec.containers)
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.spec.volumes.iter().find(|v| v.name == name)
    }

    /// Whether the pod is ready to serve and not on its way out.
    pub fn is_ready(&self) -> bool {
        !self.is_terminating()
            && self
                .status
                .conditions
                .iter()
                .any(|c| c.kind == "Ready" && c.status == "True")
    }

    /// Whether the pod has been deleted and is still shutting down.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the pod's phase is Running (S-14).
    pub fn is_running(&self) -> bool {
        self.status.phase == "Running"
    }

    /// Our debug containers: ephemeral, and named as C-26a says. In the order they were added.
    pub fn debug_containers(&self) -> impl Iterator<Item = &Container> {
        let ephemeral = self.spec.ephemeral_containers.iter();
        ephemeral.filter(|c| names::debug_container_session(&c.name).is_some())
    }

    /// The owner that would replace the pod if it went. A node (of a static pod) would not.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.metadata
            .owner_references
            .iter()
            .find(|o| o.controller && o.kind != "Node")
    }

    /// The session that may see the pod's processes, as its annotation names it (C-8).
    pub fn process_access(&self) -> Option<&str> {
        self.metadata
            .annotations
            .get(names::PROCESS_ACCESS)
            .map(String::as_str)
    }

    /// What the kubelet says about a container of any kind.
    pub fn status_of(&self, name: &str) -> Option<&ContainerStatus> {
        let status = &self.status;
        let all = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses);
        all.chain(&status.ephemeral_container_statuses)
            .find(|s| s.name == name)
    }
}

pub mod state;
mod status;

pub use status::*;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
pub(crate) mod policy_table;
#[cfg(test)]
mod tests;
