//! What each part of the cluster is started with.
//!
//! Invariant: everything listens on 127.0.0.1, everything written lies in the cluster's folder,
//! and the machine's own Kubernetes or containerd, if it has one, is not touched.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::packages::{CNI_PLUGINS, on_path};
use super::process::Part;

/// Every part, in the order in which they are started.
pub(super) const PARTS: [&str; 6] = [
    "etcd",
    "apiserver",
    "manager",
    "scheduler",
    "containerd",
    "kubelet",
];

/// The fixed ports on 127.0.0.1 and whose they are.
pub(super) const PORTS: [(u16, &str); 6] = [
    (6443, "apiserver"),
    (2379, "etcd"),
    (2380, "etcd"),
    (10257, "manager"),
    (10259, "scheduler"),
    (10250, "kubelet"),
];

/// The programs in the one binary, by the names that it answers to.
pub(super) const PROGRAMS: [&str; 6] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kubectl",
];

/// The bridge that carries the node's address.
pub(super) const NODE_BRIDGE: &str = "bgtestnode";
/// The bridge that pods are joined to.
pub(super) const POD_BRIDGE: &str = "bgtestpods";
/// The kubelet refuses a loopback address for its node, so an empty bridge has this one.
pub(super) const NODE_ADDRESS: &str = "10.88.255.1";
/// The name of the pods' network, which CNI's cache files on the machine carry.
pub(super) const POD_NETWORK: &str = "breakglass-test";

/// The image of every pod's sandbox.
pub(super) const PAUSE_IMAGE: &str = "docker.io/breakglass-test/pause:1";

/// Arguments that mostly are `--flag=value` with a path of the folder in them.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.0.push(argument);
        self
    }

    fn flags(self, flags: &[(&str, &str)]) -> Self {
        flags
            .iter()
            .fold(self, |arguments, (name, value)| arguments.flag(name, value))
    }
}

fn part(dir: &ClusterDir, name: &'static str, program: &str, arguments: Arguments) -> Part {
    let mut command = Command::new(dir.program(program));
    command.args(arguments.0);
    Part { name, command }
}

pub(super) fn etcd(dir: &ClusterDir) -> Part {
    let arguments = Arguments(Vec::new())
        .flag("data-dir", dir.join("etcd"))
        .flags(&[
            ("unsafe-no-fsync", "true"), // nothing in a test cluster outlives a crash
            ("listen-client-urls", "http://127.0.0.1:2379"),
            ("advertise-client-urls", "http://127.0.0.1:2379"),
            ("listen-peer-urls", "http://127.0.0.1:2380"),
        ]);
    part(dir, "etcd", "etcd", arguments)
}

pub(super) fn apiserver(dir: &ClusterDir) -> Part {
    let arguments = Arguments(Vec::new())
        .flag("tls-cert-file", dir.certificate("apiserver"))
        .flag("tls-private-key-file", dir.key("apiserver"))
        .flag("client-ca-file", dir.certificate("ca"))
        .flag(
            "service-account-key-file",
            dir.public_key("service-accounts"),
        )
        .flag(
            "service-account-signing-key-file",
            dir.key("service-accounts"),
        )
        .flag("kubelet-client-certificate", dir.certificate("to-kubelet"))
        .flag("kubelet-client-key", dir.key("to-kubelet"))
        .flag("kubelet-certificate-authority", dir.certificate("ca"))
        .flags(&[
            ("etcd-servers", "http://127.0.0.1:2379"),
            ("bind-address", "127.0.0.1"),
            ("secure-port", "6443"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-cluster-ip-range", "10.0.0.0/24"),
            ("authorization-mode", "Node,RBAC"),
            ("enable-admission-plugins", "NodeRestriction"),
            ("allow-privileged", "true"), // policies that refuse it need to see it
            ("kubelet-preferred-address-types", "Hostname"), // the node is called `localhost`
            ("endpoint-reconciler-type", "none"),
        ]);
    part(dir, "apiserver", "kube-apiserver", arguments)
}

/// The flags by which a controller reaches the API server and is reached.
fn controller(dir: &ClusterDir, user: &str) -> Arguments {
    let config = dir.kubeconfig(user);
    Arguments(Vec::new())
        .flag("kubeconfig", &config)
        .flag("authentication-kubeconfig", &config)
        .flag("authorization-kubeconfig", &config)
        .flags(&[("leader-elect", "false"), ("bind-address", "127.0.0.1")])
}

pub(super) fn manager(dir: &ClusterDir) -> Part {
    let arguments = controller(dir, "manager")
        .flag(
            "service-account-private-key-file",
            dir.key("service-accounts"),
        )
        .flag("root-ca-file", dir.certificate("ca"))
        .flag("use-service-account-credentials", "true");
    part(dir, "manager", "kube-controller-manager", arguments)
}

pub(super) fn scheduler(dir: &ClusterDir) -> Part {
    part(
        dir,
        "scheduler",
        "kube-scheduler",
        controller(dir, "scheduler"),
    )
}

/// containerd with a root, a state and a socket of its own.
pub(super) fn containerd(dir: &ClusterDir) -> Result<Part, ClusterError> {
    let network = serde_json::json!({
        "cniVersion": "0.4.0",
        "name": POD_NETWORK,
        "plugins": [{
            "type": "bridge",
            "bridge": POD_BRIDGE,
            "isGateway": true,
            "ipMasq": false, // pods reach the node and nothing else
            "ipam": {
                "type": "host-local",
                "dataDir": dir.join("cni/addresses"),
                "ranges": [[{ "subnet": "10.88.0.0/24" }]],
            },
        }],
    });
    dir.write("cni/10-pods.conflist", &network.to_string())?;
    dir.write("containerd.toml", &containerd_config(dir))?;
    let mut command = Command::new(on_path("containerd").unwrap_or_else(|| "containerd".into()));
    command.arg("--config").arg(dir.join("containerd.toml"));
    Ok(Part {
        name: "containerd",
        command,
    })
}

fn containerd_config(dir: &ClusterDir) -> String {
    // A JSON string is a TOML basic string.
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    format!(
        r#"version = 2
root = {root}
state = {state}
[grpc]
  address = {socket}
[ttrpc]
  address = {ttrpc}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # A machine without the right to lower oom_score_adj makes runc fail otherwise.
  restrict_oom_score_adj = true
  # Below the state folder, so that what is unmounted at the end is all that was mounted.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    # Works on every file system, an overlay among them.
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = {cni}
"#,
        root = quoted(&dir.join("containerd/root")),
        state = quoted(&dir.containerd_state()),
        socket = quoted(&dir.containerd_socket()),
        ttrpc = quoted(&dir.join("containerd/t.sock")),
        cni = quoted(&dir.join("cni")),
    )
}

pub(super) fn kubelet(dir: &ClusterDir) -> Result<Part, ClusterError> {
    let config = serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": dir.certificate("ca") },
        },
        "authorization": { "mode": "Webhook" },
        "address": "127.0.0.1",
        "healthzPort": 0,
        "cgroupDriver": "cgroupfs",
        "containerRuntimeEndpoint": format!("unix://{}", dir.containerd_socket().display()),
        "tlsCertFile": dir.certificate("kubelet"),
        "tlsPrivateKeyFile": dir.key("kubelet"),
        "podLogsDir": dir.join("log/pods"),
        "failSwapOn": false,
        // No rules in the machine's own tables; nothing here needs them.
        "makeIPTablesUtilChains": false,
        // `ClusterFirst` pods want an address here; no server need be behind it.
        "clusterDNS": ["10.0.0.10"],
        "resolvConf": "",
        // Must be positive, and must not evict on a machine that is short of memory or disk.
        "evictionHard": { "memory.available": "50Mi" },
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": false,
    });
    dir.write("kubelet.json", &config.to_string())?;
    let arguments = Arguments(Vec::new())
        .flag("config", dir.join("kubelet.json"))
        .flag("kubeconfig", dir.kubeconfig("kubelet"))
        .flag("root-dir", dir.join("kubelet"))
        .flag("cert-dir", dir.join("kubelet/pki"))
        .flags(&[
            ("hostname-override", "localhost"),
            ("node-ip", NODE_ADDRESS),
        ]);
    Ok(part(dir, "kubelet", "kubelet", arguments))
}
