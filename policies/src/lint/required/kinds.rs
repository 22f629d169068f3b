//! The kinds of object that are known, and which of their fields are always there.

/// A kind of object in a request.
pub(in crate::lint) struct Known {
    /// `resource`, or `resource/subresource`.
    pub(in crate::lint) resource: &'static str,
    pub(in crate::lint) group: &'static str,
    pub(in crate::lint) kind: &'static str,
    pub(in crate::lint) namespaced: bool,
    /// Where its pods' spec is.
    pub(super) pod_spec: Option<&'static str>,
    pub(super) fields: &'static [&'static str],
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
    "spec.volumeClaimTemplates[*].metadata",
    "spec.volumeClaimTemplates[*].spec",
    "spec.volumeClaimTemplates[*].spec.accessModes",
    "spec.volumeClaimTemplates[*].spec.resources",
    "spec.volumeClaimTemplates[*].spec.volumeMode",
    "spec.volumeClaimTemplates[*].status",
];
/// A rule of a ClusterRole may be about paths, and then has no resources.
const CLUSTER_ROLE: &[&str] = &["rules", "rules[*].verbs"];
const ROLE: &[&str] = &[
    "rules",
    "rules[*].verbs",
    "rules[*].apiGroups",
    "rules[*].resources",
];
const BINDING: &[&str] = &[
    "roleRef",
    "roleRef.apiGroup",
    "roleRef.kind",
    "roleRef.name",
    "subjects[*].kind",
    "subjects[*].name",
];

const NODE: &[&str] = &[
    "spec",
    "status",
    "status.daemonEndpoints",
    "status.nodeInfo",
    "status.nodeInfo.machineID",
    "status.nodeInfo.systemUUID",
    "status.nodeInfo.bootID",
    "status.nodeInfo.kernelVersion",
    "status.nodeInfo.osImage",
    "status.nodeInfo.containerRuntimeVersion",
    "status.nodeInfo.kubeletVersion",
    "status.nodeInfo.kubeProxyVersion",
    "status.nodeInfo.operatingSystem",
    "status.nodeInfo.architecture",
];

/// Groups of which every resource is known.
pub(super) const WHOLE: [&str; 2] = ["apiextensions.k8s.io", "rbac.authorization.k8s.io"];

/// The kinds that are known.
pub(in crate::lint) const KINDS: &[Known] = &[
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
        CLUSTER_ROLE,
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
    cluster("nodes", "", "Node", NODE),
    cluster(
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[
            "spec",
            "status",
            "spec.group",
            "spec.scope",
            "spec.names",
            "spec.names.plural",
            "spec.names.kind",
            "spec.names.singular",
            "spec.names.listKind",
            "spec.versions",
            "spec.versions[*].name",
            "spec.versions[*].served",
            "spec.versions[*].storage",
            "spec.conversion",
            "spec.conversion.strategy",
        ],
    ),
    cluster(
        "certificatesigningrequests",
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &[
            "spec",
            "status",
            "spec.request",
            "spec.signerName",
            "spec.usages",
            "spec.username",
        ],
    ),
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
            "spec.hostPath.path",
            "spec.hostPath.type",
            "spec.local.path",
            "spec.nfs.server",
            "spec.nfs.path",
            "spec.csi.driver",
            "spec.csi.volumeHandle",
        ],
    ),
    cluster(
        "storageclasses",
        "storage.k8s.io",
        "StorageClass",
        &["provisioner", "reclaimPolicy", "volumeBindingMode"],
    ),
];
