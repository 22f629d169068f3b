//! The copy: a hardened twin of a pod, with a debug container, for one session (C-12, C-14).
//!
//! Invariant: the copy is built from the fields named here and nothing else of the pod, so that a
//! field of a later Kubernetes is left out and not trusted. It belongs to nobody (no owner, no
//! label of the app's), proves no identity (no token, no service account of the app's), writes
//! nothing that lasts, runs the images that the original runs, and ends by itself.
//!
//! What runs in it:
//! - Held, the app's containers sleep, and its init containers are left out: what they prepare is
//!   for an app that does not run, and a migration must not run twice unasked.
//! - Not held, the app runs for real, and so do its init containers and sidecars, for it may need
//!   what they prepare; a note says so.
//! - Probes and hooks are left out either way: the copy serves nobody, a failing probe would kill
//!   it, and a hook could register it where the app's pods are registered.

use crate::debug_container::{
    DebugContainer, DebugRefusal, DebugSpec, DebugUser, debug_container, hard_deadline_seconds,
};
use crate::grant::{grant_ttl_minutes, whole_seconds};
use crate::mounts::{Mounts, sensitive, volume_mounts};
use crate::names::{self, TRUE};
use crate::pod::{PodFacts, PodSecurityContext, Profile};
use crate::session::{MountedVolume, SessionId, UserRef};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

mod containers;
mod tame;
mod volumes;

use volumes::{CopiedVolumes, copy_volumes};

/// What a copy is made of.
#[derive(Debug, Clone, Copy)]
pub struct CopySpec<'a> {
    /// The session.
    pub id: &'a SessionId,
    /// This installation's name (C-2c).
    pub installation: &'a str,
    /// Who asked.
    pub requester: &'a UserRef,
    /// The session's deadline, for whoever finds the copy left over (C-23).
    pub expires_at: Timestamp,
    /// The session's duration in minutes; the copy's own end allows for one extension.
    pub duration_minutes: u32,
    /// The original.
    pub pod: &'a PodFacts,
    /// The app's container that the session is about.
    pub container: &'a str,
    /// Whether the app's containers only sleep.
    pub hold_app: bool,
    /// Whether the debug container sees that container's volumes.
    pub volume_access: bool,
    /// The debug image, by digest.
    pub image: &'a str,
    /// The debug container's user.
    pub user: DebugUser,
    /// The pod's persistent volume claims by name, as far as they may be read.
    pub claims: &'a BTreeMap<String, ClaimFacts>,
}

/// What is known of a persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimFacts {
    /// `ReadWriteOnce` and its like.
    pub access_modes: Vec<String>,
}

/// A copy, ready to be created.
#[derive(Clone, PartialEq)]
pub struct CopyPod {
    /// Its name.
    pub name: String,
    /// The Pod.
    pub manifest: Value,
    /// The volumes that the debug container sees, for the session's row (C-5).
    pub volumes: Vec<MountedVolume>,
    /// Whether the session could read Secrets (C-13).
    pub sensitive: bool,
    /// Sentences for people: how the copy differs from the original.
    pub notes: Vec<String>,
}

impl fmt::Debug for CopyPod {
    /// Without the manifest: an environment may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyPod")
            .field("name", &self.name)
            .field("volumes", &self.volumes)
            .field("sensitive", &self.sensitive)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

/// Why a pod cannot be copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefusal {
    /// No debug container is possible in it.
    #[error(transparent)]
    Debug(#[from] DebugRefusal),
    /// The pod uses a namespace of its node.
    #[error("the pod uses its node's own namespace (`{field}`), which no copy may")]
    HostNamespace {
        /// The field that says so.
        field: &'static str,
    },
    /// A volume is a folder of the node.
    #[error("volume `{volume}` is a folder of the node (`hostPath`), which no copy may have")]
    HostPath {
        /// The volume.
        volume: String,
    },
    /// A container takes a port of the node.
    #[error("`{container}` takes a port of the node (`hostPort`), which no copy may")]
    HostPort {
        /// The container.
        container: String,
    },
    /// A container is privileged.
    #[error("`{container}` is privileged, which no container of a copy may be")]
    Privileged {
        /// The container.
        container: String,
    },
    /// Nobody says what content the container's image has.
    #[error(
        "the digest of the image that `{container}` runs is not known, so the copy could run \
         another"
    )]
    ImageUnknown {
        /// The container.
        container: String,
    },
}

/// Seconds that the app's containers get to end; the copy is deleted without waiting anyway.
const GRACE_SECONDS: u32 = 5;

/// The copy of a pod, or why there can be none (C-12).
pub fn copy_pod(spec: &CopySpec<'_>) -> Result<CopyPod, CopyRefusal> {
    refuse_the_nodes_own(spec.pod)?;
    let volumes = copy_volumes(spec.pod, spec.claims)?;
    let mut notes = volumes.notes.clone();
    let mounts = if spec.volume_access {
        mounts_within(spec, &volumes)
    } else {
        Mounts::default()
    };
    let debug = debug_in_copy(spec, &mounts)?;
    let (init, mut running) = containers::copy_containers(spec, &volumes, &mut notes)?;
    running.push(with_resources(&debug));

    let name = names::copy_pod_name(&spec.pod.metadata.name, spec.id);
    let mut pod_spec = pod_fields(spec.pod, &volumes, &mut notes);
    let mut put = |field: &str, value: Value| pod_spec.insert(field.to_owned(), value);
    put("restartPolicy", json!("Never"));
    put(
        "activeDeadlineSeconds",
        json!(hard_deadline_seconds(spec.duration_minutes)),
    );
    put("terminationGracePeriodSeconds", json!(GRACE_SECONDS));
    put("automountServiceAccountToken", json!(false));
    put("enableServiceLinks", json!(false));
    put("shareProcessNamespace", json!(false));
    put("containers", Value::Array(running));
    if !init.is_empty() {
        put("initContainers", Value::Array(init));
    }
    if !volumes.kept.is_empty() {
        put("volumes", json!(volumes.kept));
    }
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": spec.pod.metadata.namespace,
            "labels": labels(spec),
            "annotations": annotations(spec),
        },
        "spec": pod_spec,
    });
    notes.extend(mounts.left_out.iter().cloned());
    notes.dedup();
    let sensitive = sensitive(spec.pod, spec.container, false, &mounts);
    Ok(CopyPod {
        name,
        manifest,
        volumes: mounts.told,
        sensitive,
        notes,
    })
}

fn refuse_the_nodes_own(pod: &PodFacts) -> Result<(), CopyRefusal> {
    let namespaces = [
        ("hostNetwork", pod.spec.host_network),
        ("hostPID", pod.spec.host_pid),
        ("hostIPC", pod.spec.host_ipc),
    ];
    if let Some((field, _)) = namespaces.into_iter().find(|(_, used)| *used) {
        return Err(CopyRefusal::HostNamespace { field });
    }
    for container in pod.app_containers() {
        let name = || container.name.clone();
        if container
            .security_context
            .as_ref()
            .is_some_and(|c| c.privileged == Some(true))
        {
            return Err(CopyRefusal::Privileged { container: name() });
        }
        if container.ports.iter().any(|p| p.host_port != 0) {
            return Err(CopyRefusal::HostPort { container: name() });
        }
    }
    Ok(())
}

/// The mounts of the original, without the volumes that the copy does not have.
fn mounts_within(spec: &CopySpec<'_>, volumes: &CopiedVolumes) -> Mounts {
    let mut mounts = volume_mounts(spec.pod, spec.container);
    for name in spec.pod.spec.volumes.iter().map(|v| &v.name) {
        if !volumes.has(name) {
            mounts.leave_out(name);
        }
    }
    mounts
}

/// The debug container of C-11. A copy's containers never share their processes.
fn debug_in_copy(spec: &CopySpec<'_>, mounts: &Mounts) -> Result<DebugContainer, DebugRefusal> {
    let mut apart = spec.pod.clone();
    apart.spec.share_process_namespace = false;
    debug_container(&DebugSpec {
        id: spec.id,
        image: spec.image,
        pod: &apart,
        container: spec.container,
        process_access: false,
        mounts: &mounts.mounts,
        deadline_seconds: hard_deadline_seconds(spec.duration_minutes),
        user: spec.user,
    })
}

/// Unlike an ephemeral container, one in a new pod counts against the namespace's quota, which may
/// demand that it says how much.
fn with_resources(debug: &DebugContainer) -> Value {
    let mut container = json!(debug);
    container["resources"] = json!({
        "limits": { "cpu": "500m", "memory": "256Mi" },
        "requests": { "cpu": "50m", "memory": "64Mi" },
    });
    container
}

fn labels(spec: &CopySpec<'_>) -> BTreeMap<String, String> {
    let mut labels = names::our_labels(spec.installation, spec.id);
    labels.insert(names::COPY.to_owned(), TRUE.to_owned());
    labels.insert(
        names::TTL.to_owned(),
        names::ttl(grant_ttl_minutes(spec.duration_minutes)),
    );
    labels
}

fn annotations(spec: &CopySpec<'_>) -> Value {
    json!({
        (names::REQUESTER): spec.requester,
        (names::EXPIRES_AT): whole_seconds(spec.expires_at).to_string(),
        // A mesh would add a container with a token of its own, and the policies refuse the pod.
        "linkerd.io/inject": "disabled",
        "sidecar.istio.io/inject": "false",
    })
}

/// What the copy keeps of the pod itself: where it can run, how it pulls and how it resolves.
fn pod_fields(
    pod: &PodFacts,
    volumes: &CopiedVolumes,
    notes: &mut Vec<String>,
) -> Map<String, Value> {
    let from = &pod.spec;
    let mut kept = Map::new();
    let fields = [
        ("nodeSelector", from.node_selector.clone()),
        ("tolerations", from.tolerations.clone()),
        ("imagePullSecrets", from.image_pull_secrets.clone()),
        ("dnsPolicy", from.dns_policy.clone().map(Value::String)),
        ("dnsConfig", from.dns_config.clone()),
        ("hostAliases", from.host_aliases.clone()),
        (
            "runtimeClassName",
            from.runtime_class_name.clone().map(Value::String),
        ),
        (
            "hostUsers",
            from.host_users.filter(|host| !host).map(Value::Bool),
        ),
        ("affinity", affinity(pod, volumes.same_node)),
        (
            "securityContext",
            Some(json!(security_context(from.security_context.as_ref()))),
        ),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            kept.insert(name.to_owned(), value);
        }
    }
    let sysctls = from
        .security_context
        .as_ref()
        .and_then(|c| c.sysctls.as_ref());
    if sysctls.is_some() {
        notes.push("the copy runs without the pod's kernel settings (`sysctls`)".to_owned());
    }
    if from.resource_claims.is_some() {
        notes.push("the copy runs without the pod's devices (`resourceClaims`)".to_owned());
    }
    if from.share_process_namespace {
        notes.push("the copy's containers do not share their processes".to_owned());
    }
    kept
}

/// Where the copy may run: where the pod could, or beside it for the sake of a volume that only
/// one node can have. The scheduler decides, so that a node that is full or cordoned says so.
fn affinity(pod: &PodFacts, same_node: bool) -> Option<Value> {
    if let Some(node) = pod.spec.node_name.as_ref().filter(|_| same_node) {
        let here = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
        let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [here] }] });
        return Some(json!({
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms },
        }));
    }
    let node_affinity = pod
        .spec
        .affinity
        .as_ref()?
        .get("nodeAffinity")
        .filter(|a| !a.is_null())?;
    Some(json!({ "nodeAffinity": node_affinity }))
}

fn security_context(from: Option<&PodSecurityContext>) -> PodSecurityContext {
    let mut context = from.cloned().unwrap_or_default();
    context.seccomp_profile = confined(context.seccomp_profile.take()).or_else(runtime_default);
    // A profile of the app's own is put on its containers; the debug container has the node's.
    context.app_armor_profile = context
        .app_armor_profile
        .take()
        .filter(|p| p.kind == "RuntimeDefault");
    context.se_linux_options = tame::se_linux(context.se_linux_options.as_ref());
    context.sysctls = None;
    context
}

/// A profile, unless it is the absence of one.
fn confined(profile: Option<Profile>) -> Option<Profile> {
    profile.filter(|p| p.kind == "RuntimeDefault" || p.kind == "Localhost")
}

fn runtime_default() -> Option<Profile> {
    Some(Profile {
        kind: "RuntimeDefault".to_owned(),
        localhost_profile: None,
    })
}

#[cfg(test)]
mod tests;
