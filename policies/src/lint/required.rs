//! Which fields an object always has when admission sees it, by kind.
//!
//! Written by hand from the documentation of the Kubernetes API and notes on admission; neither
//! made from a schema or the Go types nor compared with them. A wrong entry hides a finding of L1.
//! What stands under an optional field is there whenever its parent is.

mod kinds;

pub(super) use kinds::{KINDS, Known};

use super::facts::Case;
use super::paths::{self, Path, Root};

/// Of every kind of object that has metadata.
const META: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.uid",
    "metadata.creationTimestamp",
    "metadata.ownerReferences[*].apiVersion",
    "metadata.ownerReferences[*].kind",
    "metadata.ownerReferences[*].name",
    "metadata.ownerReferences[*].uid",
];

/// Within a pod's spec.
const POD_SPEC: &[&str] = &[
    "containers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "dnsPolicy",
    "securityContext",
    "securityContext.appArmorProfile.type",
    "securityContext.seccompProfile.type",
    "schedulerName",
    "volumes[*].name",
    "volumes[*].hostPath.path",
    "volumes[*].hostPath.type",
    "volumes[*].secret.defaultMode",
    "volumes[*].configMap.defaultMode",
    "volumes[*].projected.defaultMode",
    "volumes[*].persistentVolumeClaim.claimName",
    "tolerations[*]",
    "imagePullSecrets[*].name",
    "hostAliases[*].ip",
    "topologySpreadConstraints[*].maxSkew",
    "topologySpreadConstraints[*].topologyKey",
    "topologySpreadConstraints[*].whenUnsatisfiable",
];

/// Within a container of any of the three lists.
const CONTAINER: &[&str] = &[
    "name",
    "resources",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "image",
    "securityContext.appArmorProfile.type",
    "securityContext.seccompProfile.type",
    "ports[*].containerPort",
    "ports[*].protocol",
    "env[*].name",
    "volumeMounts[*].name",
    "volumeMounts[*].mountPath",
    "volumeDevices[*].name",
    "volumeDevices[*].devicePath",
    "env[*].valueFrom.secretKeyRef.key",
    "env[*].valueFrom.configMapKeyRef.key",
    "envFrom[*].secretRef.name",
    "livenessProbe.periodSeconds",
    "livenessProbe.timeoutSeconds",
    "readinessProbe.periodSeconds",
    "readinessProbe.timeoutSeconds",
    "livenessProbe.successThreshold",
    "livenessProbe.failureThreshold",
    "readinessProbe.successThreshold",
    "readinessProbe.failureThreshold",
];

const REQUEST: &[&str] = &[
    "",
    "uid",
    "operation",
    "kind",
    "kind.group",
    "kind.version",
    "kind.kind",
    "resource",
    "resource.group",
    "resource.version",
    "resource.resource",
    "userInfo",
    "userInfo.username",
    "requestKind",
    "requestKind.kind",
    "requestResource",
    "requestResource.resource",
];

const NAMESPACE: &[&str] = &[
    "",
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.uid",
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.labels.kubernetes.io/metadata.name",
    "spec",
    "status",
];

/// What is known of a resource: by `resource` or `resource/subresource`.
pub(super) fn resource(name: &str) -> Option<&'static Known> {
    KINDS.iter().find(|known| known.resource == name)
}

fn of_case(case: &Case) -> Option<&'static Known> {
    KINDS.iter().find(|known| {
        let (resource, sub) = known
            .resource
            .split_once('/')
            .unwrap_or((known.resource, ""));
        resource == case.resource && sub == case.sub_resource && known.kind == case.kind
    })
}

/// Whether the case's kind is in the table.
pub(super) fn is_known(case: &Case) -> bool {
    of_case(case).is_some()
}

/// Whether every resource of the group is in the table.
pub(super) fn is_whole(group: &str) -> bool {
    kinds::WHOLE.contains(&group)
}

/// Whether a request of this case may have no namespace.
pub(super) fn may_be_cluster_scoped(case: &Case) -> bool {
    of_case(case).is_none_or(|known| !known.namespaced)
}

/// Whether the path and all that it stands in are there in every request of the case.
pub(super) fn all_the_way(case: &Case, path: &Path) -> bool {
    let mut left = Some(path.clone());
    while let Some(path) = left {
        if !always(case, &path) {
            return false;
        }
        left = path.parent();
    }
    true
}

/// Whether the path is there in every request of the case, once its parent is.
pub(super) fn always(case: &Case, path: &Path) -> bool {
    let pattern = path.pattern();
    match path.root {
        Root::Request => {
            REQUEST.contains(&pattern.as_str())
                || pattern == "namespace" && !may_be_cluster_scoped(case)
                || pattern == "name" && case.operation != "DELETE"
                || pattern == "subResource" && !case.sub_resource.is_empty()
                || pattern == "object" && case.operation != "DELETE"
                || pattern == "oldObject" && matches!(&*case.operation, "UPDATE" | "DELETE")
        }
        Root::Namespace => NAMESPACE.contains(&pattern.as_str()),
        Root::Object | Root::OldObject => pattern.is_empty() || of_object(case, &pattern),
    }
}

fn of_object(case: &Case, pattern: &str) -> bool {
    let Some(known) = of_case(case) else {
        return META.contains(&pattern);
    };
    // Options of a connection are no objects with metadata.
    let bare = known.fields.contains(&"apiVersion");
    let meta = !bare && META.contains(&pattern);
    if meta || known.fields.contains(&pattern) || paths::selects(pattern) {
        return true;
    }
    if pattern == "metadata.namespace" {
        return known.namespaced && !bare;
    }
    let Some(spec) = known.pod_spec else {
        return false;
    };
    if spec
        .strip_prefix(pattern)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    {
        return true;
    }
    let Some(within) = pattern
        .strip_prefix(spec)
        .and_then(|rest| rest.strip_prefix('.'))
    else {
        return false;
    };
    POD_SPEC.contains(&within) || of_container(within)
}

fn of_container(within: &str) -> bool {
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .any(|list| {
            let rest = within
                .strip_prefix(list)
                .and_then(|rest| rest.strip_prefix("[*]"));
            // There is always a first container, and an element that is gone through is there.
            rest.is_some_and(|rest| match rest.strip_prefix('.') {
                None => rest.is_empty() && *list == "containers",
                Some(field) => CONTAINER.contains(&field),
            })
        })
}
