//! A Pod's `status`, as far as the decisions read it.
//!
//! Invariant: as for the rest of the Pod: lenient where lists are absent, strict about types.

use super::nullable;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Deserialize;

/// A Pod's `status`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct PodStatus {
    #[serde(default, deserialize_with = "nullable")]
    pub phase: String,
    #[serde(default, deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
    #[serde(default, deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(default, deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(default, deserialize_with = "nullable")]
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// One condition of a Pod.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}

/// What the kubelet says about one container.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct ContainerStatus {
    pub name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub image: String,
    #[serde(default, rename = "imageID", deserialize_with = "nullable")]
    pub image_id: String,
    #[serde(default, deserialize_with = "nullable")]
    pub ready: bool,
    #[serde(default, deserialize_with = "nullable")]
    pub state: ReportedState,
    pub user: Option<ReportedUser>,
}

/// A container's state as the API writes it: at most one of the three is set.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct ReportedState {
    pub waiting: Option<StateDetail>,
    pub running: Option<StateDetail>,
    pub terminated: Option<StateDetail>,
}

/// The details of one state.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct StateDetail {
    #[serde(default, deserialize_with = "nullable")]
    pub reason: String,
    #[serde(default, deserialize_with = "nullable")]
    pub message: String,
    pub started_at: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    pub exit_code: i64,
}

/// The user that a container really runs as.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct ReportedUser {
    /// On Linux.
    pub linux: Option<LinuxUser>,
}

/// A Linux user's numbers.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[expect(
    missing_docs,
    reason = "the Kubernetes API's own fields, under its own names"
)]
pub struct LinuxUser {
    pub uid: i64,
    pub gid: i64,
}
