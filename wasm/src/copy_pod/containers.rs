//! The app's own containers in a copy (C-12).
//!
//! Invariant: each runs the image that the original runs, without probes, hooks, ports, privilege,
//! a way to gain any, an added capability, a device of the node, or a terminal.

use super::volumes::CopiedVolumes;
use super::{CopyRefusal, CopySpec, confined, tame};
use crate::debug_container::{hard_deadline_seconds, is_pinned};
use crate::pod::SecurityContext;
use crate::pod::{AppMount, Container, EnvFrom, EnvVar, PodFacts, Profile, Resources};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::{Value, json};

/// An app's container as the copy has it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Copied<'a> {
    name: &'a str,
    image: String,
    image_pull_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_dir: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    env: &'a [EnvVar],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    env_from: &'a [EnvFrom],
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volume_mounts: Vec<AppMount>,
    security_context: Tamed,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_policy: Option<&'static str>,
}

/// The security context of an app's container in a copy.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tamed {
    allow_privilege_escalation: bool,
    privileged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_as_user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_as_group: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_as_non_root: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only_root_filesystem: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    se_linux_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seccomp_profile: Option<Profile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_armor_profile: Option<Profile>,
}

/// The copy's init containers and its others, without the debug container.
pub(super) fn copy_containers(
    spec: &CopySpec<'_>,
    volumes: &CopiedVolumes,
    notes: &mut Vec<String>,
) -> Result<(Vec<Value>, Vec<Value>), CopyRefusal> {
    let mut init = Vec::new();
    for container in &spec.pod.spec.init_containers {
        if spec.hold_app {
            notes.push(format!(
                "init container `{}` does not run in the copy",
                container.name
            ));
        } else if !added_capabilities(container).is_empty() {
            notes.push(format!(
                "init container `{}` does not run in the copy: it needs added capabilities",
                container.name
            ));
        } else {
            notes.push(format!(
                "init container `{}` runs again in the copy",
                container.name
            ));
            let mut copied = copied(spec, container, volumes)?;
            let stays = container.restart_policy.as_deref() == Some("Always");
            copied.restart_policy = stays.then_some("Always");
            init.push(json!(copied));
        }
    }
    let mut running = Vec::new();
    for container in &spec.pod.spec.containers {
        let added = added_capabilities(container);
        if !added.is_empty() {
            let added = added.join(", ");
            notes.push(format!(
                "`{}` runs without its added capabilities: {added}",
                container.name
            ));
        }
        let devices = tame::devices(container.resources.as_ref());
        if !devices.is_empty() {
            notes.push(format!(
                "`{}` runs without its devices: {}",
                container.name,
                devices.join(", ")
            ));
        }
        let mut copied = copied(spec, container, volumes)?;
        if spec.hold_app {
            let seconds = hard_deadline_seconds(spec.duration_minutes).to_string();
            copied.command = Some(vec!["sleep".to_owned(), seconds]);
            copied.args = None;
        }
        running.push(json!(copied));
    }
    Ok((init, running))
}

fn copied<'a>(
    spec: &CopySpec<'_>,
    container: &'a Container,
    volumes: &CopiedVolumes,
) -> Result<Copied<'a>, CopyRefusal> {
    let unknown = || CopyRefusal::ImageUnknown {
        container: container.name.clone(),
    };
    Ok(Copied {
        name: &container.name,
        image: running_image(spec.pod, container).ok_or_else(unknown)?,
        image_pull_policy: "IfNotPresent",
        command: container.command.clone(),
        args: container.args.as_deref(),
        working_dir: container.working_dir.as_deref(),
        env: &container.env,
        env_from: &container.env_from,
        resources: tame::resources(container.resources.as_ref()),
        volume_mounts: mounts(container, volumes),
        security_context: tamed(spec.pod, container.security_context.as_ref()),
        restart_policy: None,
    })
}

fn mounts(container: &Container, volumes: &CopiedVolumes) -> Vec<AppMount> {
    let kept = container
        .volume_mounts
        .iter()
        .filter(|m| volumes.has(&m.name));
    kept.cloned()
        .map(|mut mount| {
            mount.read_only |= volumes.is_lasting(&mount.name);
            mount
        })
        .collect()
}

fn added_capabilities(container: &Container) -> &[String] {
    let capabilities = container
        .security_context
        .as_ref()
        .and_then(|c| c.capabilities.as_ref());
    capabilities.map_or(&[], |c| &c.add)
}

fn tamed(pod: &PodFacts, from: Option<&SecurityContext>) -> Tamed {
    let drops = from.and_then(|c| c.capabilities.as_ref()).map(|c| &c.drop);
    let whole = pod.spec.security_context.as_ref();
    Tamed {
        allow_privilege_escalation: false,
        privileged: false,
        run_as_user: from.and_then(|c| c.run_as_user),
        run_as_group: from.and_then(|c| c.run_as_group),
        run_as_non_root: from.and_then(|c| c.run_as_non_root),
        read_only_root_filesystem: from.and_then(|c| c.read_only_root_filesystem),
        capabilities: drops
            .filter(|d| !d.is_empty())
            .map(|drop| json!({ "drop": drop })),
        se_linux_options: tame::se_linux(from.and_then(|c| c.se_linux_options.as_ref())),
        // Absent, the pod's own counts, which is never unconfined.
        seccomp_profile: confined(from.and_then(|c| c.seccomp_profile.clone())),
        // The pod's own profile is the app's alone: the debug container has the node's default.
        app_armor_profile: confined(from.and_then(|c| c.app_armor_profile.clone()))
            .or_else(|| confined(whole.and_then(|c| c.app_armor_profile.clone()))),
    }
}

/// The image that a container runs, by digest: as the pod names it, if it does so by digest, else
/// as its node reports it (`repository@sha256:…`). A bare `sha256:…` is the digest of a node's own
/// record, by which nobody else can pull.
fn running_image(pod: &PodFacts, container: &Container) -> Option<String> {
    if let Some((repository, digest)) = container.image.split_once('@') {
        let image = format!("{}@{digest}", without_tag(repository));
        return is_pinned(&image).then_some(image);
    }
    let reported = pod.status_of(&container.name)?.image_id.as_str();
    let image = reported
        .strip_prefix("docker-pullable://")
        .unwrap_or(reported);
    is_pinned(image).then(|| image.to_owned())
}

/// A repository's name without a tag; a colon before the last slash is a port's.
fn without_tag(repository: &str) -> &str {
    let name_at = repository.rfind('/').map_or(0, |slash| slash + 1);
    match repository[name_at..].find(':') {
        Some(colon) => &repository[..name_at + colon],
        None => repository,
    }
}
