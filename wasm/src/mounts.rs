//! Which of a container's volumes the debug container gets, and where (C-5), and whether that lets
//! anyone read Secrets (C-13).
//!
//! Invariant: every mount is read-only and of a whole volume; no two share a path; none covers a
//! folder that the debug image needs; nothing that proves an identity, and nothing of the node's,
//! is ever among them. The same pod gives the same answer.

use crate::names::is_label_value;
use crate::pod::{AppMount, EnvVar, PodFacts, Volume};
use crate::session::MountedVolume;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;
use serde_json::Value;

/// One mount of a debug container, as Kubernetes reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// The volume's name in the pod.
    pub name: String,
    /// Where the debug container sees it.
    pub mount_path: String,
    /// Always true.
    pub read_only: bool,
    /// Mounts within the volume are read-only too, where the node can do that.
    pub recursive_read_only: &'static str,
}

/// A debug container's mounts, and what people are told about them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    /// For the debug container.
    pub mounts: Vec<VolumeMount>,
    /// For the session's row: one for each place where the app sees a volume.
    pub told: Vec<MountedVolume>,
    /// Sentences about the volumes that were not mounted, except for tokens.
    pub left_out: Vec<String>,
}

/// Where a volume goes that cannot be where the app sees it.
const ELSEWHERE: &str = "/volumes";

/// Folders of the debug image: a mount on one of them, within it or around it goes elsewhere.
const IMAGE_TREES: [&str; 19] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc/alternatives",
    "/etc/bash_completion.d",
    "/etc/ca-certificates",
    "/etc/pki",
    "/etc/profile.d",
    "/etc/ssl",
    "/etc/terminfo",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    ELSEWHERE,
];

/// Folders of the debug image that hold an app's own folders as often: only a mount on one of
/// them or around it goes elsewhere.
const IMAGE_FOLDERS: [&str; 17] = [
    "/etc",
    "/etc/group",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/profile",
    "/etc/resolv.conf",
    "/home",
    "/home/nonroot",
    "/opt",
    "/root",
    "/run",
    "/tmp",
    "/var/lib",
    "/var/run",
    "/var/tmp",
];

/// Where a pod finds its own token, whatever the volume is called.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Projected sources and drivers that prove the pod's identity to others.
const IDENTITY_SOURCES: [&str; 2] = ["serviceAccountToken", "podCertificate"];
const IDENTITY_DRIVERS: [&str; 3] = [
    "csi.spiffe.io",
    "csi.cert-manager.io",
    "spiffe.csi.cert-manager.io",
];

/// Whether a volume proves the pod's identity: a service account's token, or its like (C-5).
pub(crate) fn is_identity(pod: &PodFacts, volume: &Volume) -> bool {
    let at_token_path = |mount: &AppMount| {
        mount.name == volume.name && clean(&mount.mount_path).as_deref() == Some(TOKEN_PATH)
    };
    volume.name.starts_with("kube-api-access-")
        || projected(volume).any(is_identity_source)
        || driver(volume).is_some_and(|driver| IDENTITY_DRIVERS.contains(&driver))
        || pod
            .app_containers()
            .flat_map(|c| &c.volume_mounts)
            .any(at_token_path)
}

/// Whether one source of a projected volume proves the pod's identity.
pub(crate) fn is_identity_source(source: &Value) -> bool {
    IDENTITY_SOURCES
        .iter()
        .any(|kind| source.get(kind).is_some_and(|v| !v.is_null()))
}

/// Whether a volume holds what a Secret holds. What a CSI driver fetches counts: nobody here can
/// know, and secret stores are what such volumes are for.
fn is_secret(volume: &Volume) -> bool {
    let of = |kind: &str| volume.source.get(kind).is_some_and(|v| !v.is_null());
    let from_secret = |s: &Value| s.get("secret").is_some_and(|v| !v.is_null());
    of("secret") || of("csi") || projected(volume).any(from_secret)
}

fn projected(volume: &Volume) -> impl Iterator<Item = &Value> {
    let sources = volume
        .source
        .get("projected")
        .and_then(|p| p.get("sources"));
    sources.and_then(Value::as_array).into_iter().flatten()
}

fn driver(volume: &Volume) -> Option<&str> {
    volume.source.get("csi")?.get("driver")?.as_str()
}

/// The mounts that show a debug container what `container` sees (C-5). No such container: none.
pub fn volume_mounts(pod: &PodFacts, container: &str) -> Mounts {
    let mut out = Mounts::default();
    let Some(container) = pod.container(container) else {
        return out;
    };
    let mut moved: Vec<(&AppMount, String)> = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for mount in &container.volume_mounts {
        let Some(volume) = pod.volume(&mount.name) else {
            continue;
        };
        // The name becomes part of a path: no pod of an API server has another kind.
        if is_identity(pod, volume) || !is_label_value(&volume.name) {
            continue;
        }
        if volume.source.contains_key("hostPath") {
            out.left_out.push(format!(
                "`{}` is a folder of the node and is not mounted",
                mount.name
            ));
            continue;
        }
        match place(mount) {
            Place::Here(path) if taken.insert(path.clone()) => out.add(mount, path, None),
            Place::Here(path) => {
                moved.push((mount, format!("another volume is mounted at `{path}`")));
            }
            Place::Elsewhere(why) => moved.push((mount, why)),
        }
    }
    for (mount, why) in moved {
        out.add(mount, format!("{ELSEWHERE}/{}", mount.name), Some(why));
    }
    out
}

enum Place {
    Here(String),
    Elsewhere(String),
}

/// Where one mount of the app's can go, seen alone.
fn place(mount: &AppMount) -> Place {
    let part = if mount.sub_path.is_empty() {
        &mount.sub_path_expr
    } else {
        &mount.sub_path
    };
    if !part.is_empty() {
        return Place::Elsewhere(format!("the whole volume; the app sees its `{part}`"));
    }
    match clean(&mount.mount_path) {
        None => Place::Elsewhere("the app's path cannot be used here".to_owned()),
        Some(path) if shadows(&path) => {
            Place::Elsewhere(format!("`{path}` belongs to the debug image"))
        }
        Some(path) => Place::Here(path),
    }
}

impl Mounts {
    fn add(&mut self, mount: &AppMount, mount_path: String, note: Option<String>) {
        // Two parts of one volume: it is there once, whole.
        if !self.mounts.iter().any(|m| m.mount_path == mount_path) {
            self.mounts.push(VolumeMount {
                name: mount.name.clone(),
                mount_path: mount_path.clone(),
                read_only: true,
                recursive_read_only: "IfPossible",
            });
        }
        self.told.push(MountedVolume {
            name: mount.name.clone(),
            mount_path,
            app_path: mount.mount_path.clone(),
            note,
        });
    }

    /// Takes away a volume that the pod in question does not have.
    pub(crate) fn leave_out(&mut self, volume: &str) {
        self.mounts.retain(|m| m.name != volume);
        self.told.retain(|t| t.name != volume);
    }
}

/// An absolute path without empty, `.` or trailing parts; `None` for what Kubernetes would refuse
/// or what could lead elsewhere.
fn clean(path: &str) -> Option<String> {
    if !path.starts_with('/') || path.contains([':', '\0']) {
        return None;
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|p| !p.is_empty() && *p != ".")
        .collect();
    let usable = !parts.contains(&"..");
    usable.then(|| format!("/{}", parts.join("/")))
}

fn shadows(path: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        outer == "/"
            || inner == outer
            || inner
                .strip_prefix(outer)
                .is_some_and(|r| r.starts_with('/'))
    };
    IMAGE_TREES
        .iter()
        .any(|tree| within(path, tree) || within(tree, path))
        || IMAGE_FOLDERS.iter().any(|folder| within(folder, path))
}

/// Whether a session could read Secrets (C-13): one is mounted, or it may look into a process that
/// has them in its environment or its volumes. In doubt, it could.
pub fn sensitive(pod: &PodFacts, container: &str, process_access: bool, mounts: &Mounts) -> bool {
    let mounted = |name: &str| {
        pod.volume(name)
            .is_none_or(|v| is_secret(v) || is_identity(pod, v))
    };
    if mounts.mounts.iter().any(|m| mounted(&m.name)) {
        return true;
    }
    if !process_access {
        return false;
    }
    let Some(target) = pod.container(container) else {
        return true;
    };
    // With one process namespace for all, every container's processes are in sight.
    let everyone = pod.spec.share_process_namespace || pod.spec.host_pid;
    pod.app_containers()
        .filter(|c| everyone || c.name == target.name)
        .any(|c| {
            let secret_key = |e: &EnvVar| {
                e.value_from
                    .as_ref()
                    .is_some_and(|from| from.get("secretKeyRef").is_some())
            };
            c.env.iter().any(secret_key)
                || c.env_from.iter().any(|from| from.secret_ref.is_some())
                || c.volume_mounts.iter().any(|m| mounted(&m.name))
        })
}

#[cfg(test)]
mod tests;
