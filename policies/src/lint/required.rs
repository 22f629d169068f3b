//! Which fields an object always has when admission sees it, by kind.
//!
//! Written by hand from the documentation of the Kubernetes API and notes on admission; neither
//! made from a schema or the Go types nor compared with them. A wrong entry hides a finding of L1.
//! What stands under an optional field is there whenever its parent is.

use super::facts::Case;
use super::paths::{self, Path, Root};

/// A kind of object in a request.
pub(super) struct Known {
    /// `resource`, or `resource/subresource`.
    pub(super) resource: &'static str,
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Where its pods' spec is.
    pod_spec: Option<&'static str>,
    fields: &'static [&'static str],
}

const fn known(
    resource: &'static str,
    group: &'static str,
    kind: &'static str,
    pod_spec: Option<&'static str>,
    fields: &'static [&'static str],
) -> Known {
    Known {
        resource,
        group,
        kind,
        namespaced: true,
        pod_spec,
        fields,
    }
}

const fn cluster(
    resource: &'static str,
    group: &'static str,
    kind: &'static str,
    fields: &'static [&'static str],
) -> Known {
    Known {
        resource,
        group,
        kind,
        namespaced: false,
        pod_spec: None,
        fields,
    }
}

const POD: Option<&str> = Some("spec");
const TEMPLATE: Option<&str> = Some("spec.template.spec");
const WORKLOAD: &[&str] = &[
    "spec",
    "status",
    "spec.selector",
    "spec.template",
    "spec.template.metadata",
    "spec.replicas",
    "spec.strategy",
    "spec.updateStrategy",
    "spec.serviceName",
    "spec.strategy.type",
    "spec.template.metadata.labels",
];
const ROLE: &[&str] = &["rules", "rules[*].verbs"];
const BINDING: &[&str] = &[
    "roleRef",
    "roleRef.apiGroup",
    "roleRef.kind",
    "roleRef.name",
    "subjects[*].kind",
    "subjects[*].name",
];

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

/// The kinds that are known.
pub(super) const KINDS: &[Known] = &[
    known("pods", "", "Pod", POD, &["spec", "status"]),
    known(
        "pods/ephemeralcontainers",
        "",
        "Pod",
        POD,
        &["spec", "status"],
    ),
    known("pods/status", "", "Pod", POD, &["spec", "status"]),
    known("pods/resize", "", "Pod", POD, &["spec", "status"]),
    known("deployments", "apps", "Deployment", TEMPLATE, WORKLOAD),
    known("replicasets", "apps", "ReplicaSet", TEMPLATE, WORKLOAD),
    known("statefulsets", "apps", "StatefulSet", TEMPLATE, WORKLOAD),
    known("daemonsets", "apps", "DaemonSet", TEMPLATE, WORKLOAD),
    known(
        "replicationcontrollers",
        "",
        "ReplicationController",
        TEMPLATE,
        WORKLOAD,
    ),
    known(
        "jobs",
        "batch",
        "Job",
        TEMPLATE,
        &[
            "spec",
            "status",
            "spec.template",
            "spec.template.metadata",
            "spec.backoffLimit",
            "spec.completionMode",
            "spec.suspend",
        ],
    ),
    known(
        "cronjobs",
        "batch",
        "CronJob",
        Some("spec.jobTemplate.spec.template.spec"),
        &[
            "spec",
            "status",
            "spec.schedule",
            "spec.jobTemplate",
            "spec.jobTemplate.metadata",
            "spec.jobTemplate.spec.template.metadata",
            "spec.concurrencyPolicy",
            "spec.suspend",
            "spec.successfulJobsHistoryLimit",
            "spec.failedJobsHistoryLimit",
        ],
    ),
    known(
        "pods/exec",
        "",
        "PodExecOptions",
        None,
        &["apiVersion", "kind"],
    ),
    known(
        "pods/attach",
        "",
        "PodAttachOptions",
        None,
        &["apiVersion", "kind"],
    ),
    known(
        "pods/portforward",
        "",
        "PodPortForwardOptions",
        None,
        &["apiVersion", "kind"],
    ),
    known(
        "pods/proxy",
        "",
        "PodProxyOptions",
        None,
        &["apiVersion", "kind"],
    ),
    known(
        "services/proxy",
        "",
        "ServiceProxyOptions",
        None,
        &["apiVersion", "kind"],
    ),
    known(
        "pods/eviction",
        "",
        "Eviction",
        None,
        &[
            "apiVersion",
            "kind",
            "metadata",
            "metadata.name",
            "metadata.namespace",
        ],
    ),
    known(
        "services",
        "",
        "Service",
        None,
        &[
            "spec",
            "status",
            "spec.type",
            "spec.sessionAffinity",
            "spec.ports[*].port",
            "spec.ports[*].protocol",
            "spec.ports[*].targetPort",
        ],
    ),
    known("configmaps", "", "ConfigMap", None, &[]),
    known("secrets", "", "Secret", None, &["type"]),
    known("serviceaccounts", "", "ServiceAccount", None, &[]),
    known(
        "persistentvolumeclaims",
        "",
        "PersistentVolumeClaim",
        None,
        &[
            "spec",
            "status",
            "spec.resources",
            "spec.resources.requests",
            "spec.accessModes",
            "spec.volumeMode",
        ],
    ),
    known("endpoints", "", "Endpoints", None, &[]),
    known(
        "ingresses",
        "networking.k8s.io",
        "Ingress",
        None,
        &[
            "spec",
            "status",
            "spec.rules[*].http.paths",
            "spec.rules[*].http.paths[*].backend",
            "spec.rules[*].http.paths[*].pathType",
            "spec.rules[*].http.paths[*].backend.service.name",
        ],
    ),
    known(
        "networkpolicies",
        "networking.k8s.io",
        "NetworkPolicy",
        None,
        &["spec", "spec.podSelector", "spec.policyTypes"],
    ),
    known(
        "horizontalpodautoscalers",
        "autoscaling",
        "HorizontalPodAutoscaler",
        None,
        &[
            "spec",
            "status",
            "spec.scaleTargetRef",
            "spec.scaleTargetRef.kind",
            "spec.scaleTargetRef.name",
            "spec.maxReplicas",
            "spec.minReplicas",
        ],
    ),
    known(
        "poddisruptionbudgets",
        "policy",
        "PodDisruptionBudget",
        None,
        &["spec", "status"],
    ),
    known("roles", "rbac.authorization.k8s.io", "Role", None, ROLE),
    known(
        "rolebindings",
        "rbac.authorization.k8s.io",
        "RoleBinding",
        None,
        BINDING,
    ),
    cluster(
        "clusterroles",
        "rbac.authorization.k8s.io",
        "ClusterRole",
        ROLE,
    ),
    cluster(
        "clusterrolebindings",
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        BINDING,
    ),
    cluster(
        "namespaces",
        "",
        "Namespace",
        &[
            "spec",
            "status",
            "metadata.labels",
            "metadata.labels.kubernetes.io/metadata.name",
        ],
    ),
    cluster("nodes", "", "Node", &["spec", "status"]),
    cluster(
        "persistentvolumes",
        "",
        "PersistentVolume",
        &[
            "spec",
            "status",
            "spec.capacity",
            "spec.accessModes",
            "spec.volumeMode",
            "spec.persistentVolumeReclaimPolicy",
        ],
    ),
    cluster(
        "storageclasses",
        "storage.k8s.io",
        "StorageClass",
        &["provisioner", "reclaimPolicy", "volumeBindingMode"],
    ),
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

/// Whether a request of this case may have no namespace.
pub(super) fn may_be_cluster_scoped(case: &Case) -> bool {
    of_case(case).is_none_or(|known| !known.namespaced)
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
