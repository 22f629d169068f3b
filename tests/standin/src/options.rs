//! How a stand-in starts: who may call, what there is, how long things take.

use std::time::Duration;

use serde_json::{Value, json};

use crate::patch::{PatchKind, apply};
use crate::rbac::{MASTERS, Rule, User, rights_at_rest};

/// The digest-pinned reference of the debug image; it always "pulls" unless a fault says otherwise.
pub const DEBUG_IMAGE: &str = "ghcr.io/hangar/tower-debug@sha256:\
    5f3b1c7e9a2d4f608b7c1e3d5a9f2b4c6d8e0f1a3b5c7d9e2f4a6b8c0d1e3f57";

/// The audience of a token that names none: this API server.
pub const OWN_AUDIENCE: &str = "https://kubernetes.default.svc";

/// A caller that holds a token from the start.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// The kubeconfig context (and file) it is known by.
    pub(crate) context: String,
    pub(crate) user: User,
    pub(crate) rules: Vec<Rule>,
}

/// How long the cluster takes for what it does.
#[derive(Debug, Clone)]
pub struct Delays {
    /// A new RoleBinding applies this long after it is made (about 10 ms on a real API server).
    pub grant: Duration,
    /// A container runs this long after it is added, its image included.
    pub start: Duration,
    /// A pod that replaces another, or is created, becomes Running and Ready this long after.
    pub replace: Duration,
    /// A deleted pod with a grace period is gone this long after, at most the grace period.
    pub stop: Duration,
    /// The kubelet reports an exit this long after the stream closed.
    pub report_exit: Duration,
    /// `ErrImagePull` becomes `ImagePullBackOff` this long after.
    pub pull_back_off: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            grant: Duration::from_millis(10),
            start: Duration::from_millis(20),
            replace: Duration::from_millis(50),
            stop: Duration::from_millis(20),
            report_exit: Duration::from_millis(10),
            pull_back_off: Duration::from_millis(50),
        }
    }
}

/// What a stand-in starts with. [`Options::default`] has the namespace `shop` with the deployment
/// `shop` in it, and the three accounts of [`crate::Standin::kubeconfig`].
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) port: u16,
    pub(crate) delays: Delays,
    pub(crate) minor_version: u32,
    pub(crate) accounts: Vec<Account>,
    pub(crate) namespaces: Vec<(String, Value)>,
    pub(crate) apps: Vec<AppSeed>,
    pub(crate) budgets: Vec<Value>,
}

impl Options {
    /// No namespaces and no workloads; the accounts are there.
    #[must_use]
    pub fn empty() -> Self {
        let at_rest = rights_at_rest();
        let mint = Rule::new("", &["serviceaccounts/token"], &["create"]).named(&["breakglass"]);
        let account = |context: &str, user: User, rules: Vec<Rule>| Account {
            context: context.to_owned(),
            user,
            rules,
        };
        let admin = User {
            name: "admin".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
        };
        Self {
            port: 0,
            delays: Delays::default(),
            minor_version: 35,
            accounts: vec![
                account(
                    "breakglass",
                    User::service_account("tower", "breakglass"),
                    at_rest,
                ),
                account(
                    "backend",
                    User::service_account("tower", "backend"),
                    vec![mint],
                ),
                account("admin", admin, Vec::new()),
            ],
            namespaces: vec![("tower".to_owned(), json!({}))],
            apps: Vec::new(),
            budgets: Vec::new(),
        }
    }

    /// The port on 127.0.0.1; 0, the default, chooses a free one.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// How long things take.
    #[must_use]
    pub fn delays(self, delays: Delays) -> Self {
        Self { delays, ..self }
    }

    /// Kubernetes' minor version; from 35, the default, a WebSocket attach needs `create` beside
    /// `get` (C-27).
    #[must_use]
    pub fn minor_version(self, minor_version: u32) -> Self {
        Self {
            minor_version,
            ..self
        }
    }

    /// Adds a namespace with labels.
    #[must_use]
    pub fn namespace(mut self, name: &str, labels: &[(&str, &str)]) -> Self {
        self.namespaces.push((name.to_owned(), to_map(labels)));
        self
    }

    /// Adds an app: a deployment with its pods, or bare pods.
    #[must_use]
    pub fn app(mut self, app: AppSeed) -> Self {
        self.apps.push(app);
        self
    }

    /// Adds a PodDisruptionBudget for the pods with label `app: APP`.
    #[must_use]
    pub fn budget(mut self, namespace: &str, app: &str, disruptions_allowed: u32) -> Self {
        self.budgets.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": app, "namespace": namespace, "generation": 1 },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": app } } },
            "status": {
                "disruptionsAllowed": disruptions_allowed, "currentHealthy": 1 + disruptions_allowed,
                "desiredHealthy": 1, "expectedPods": 1 + disruptions_allowed,
                "observedGeneration": 1,
            },
        }));
        self
    }

    /// Adds a caller with a token and standing rules of its own; `context` names it in the
    /// kubeconfig. `system:serviceaccount:<ns>:<name>` makes it a service account.
    #[must_use]
    pub fn account(mut self, context: &str, user: &str, rules: Vec<Rule>) -> Self {
        let user = User::named(user);
        self.accounts.retain(|account| account.context != context);
        self.accounts.push(Account {
            context: context.to_owned(),
            user,
            rules,
        });
        self
    }

    /// The sidecar's account with the rights of C-2a and nothing beside them (not even budgets
    /// and owners, which a Backstage installation usually may read).
    #[must_use]
    pub fn bare_rights(self) -> Self {
        self.account(
            "breakglass",
            "system:serviceaccount:tower:breakglass",
            rights_at_rest(),
        )
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::empty()
            .namespace(
                "shop",
                &[("hangar.io/app", "shop"), ("hangar.io/env", "dev")],
            )
            .app(AppSeed::new("shop", "shop").replicas(2))
    }
}

/// A workload to begin with: a Deployment with a ReplicaSet and N pods, or N bare pods.
#[derive(Debug, Clone)]
pub struct AppSeed {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) replicas: u32,
    pub(crate) bare: bool,
    pub(crate) phase: String,
    pub(crate) template: Value,
}

impl AppSeed {
    /// One replica of container `app`, image `ghcr.io/hangar/<name>:1.4.2`, running as user 10001.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let template = json!({
            "metadata": { "labels": { "app": name }, "annotations": {} },
            "spec": {
                "serviceAccountName": "default", "restartPolicy": "Always", "enableServiceLinks": true,
                "nodeName": "node-1", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "containers": [{
                    "name": "app", "image": format!("ghcr.io/hangar/{name}:1.4.2"),
                    "imagePullPolicy": "IfNotPresent",
                    "securityContext": { "runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001 },
                }],
                "volumes": [],
            },
        });
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            replicas: 1,
            bare: false,
            phase: "Running".to_owned(),
            template,
        }
    }

    /// How many pods.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Pods that no controller replaces; the first is called as the app is.
    #[must_use]
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// The pods' phase (`Pending`, `Failed`…); only in `Running` do their containers run.
    #[must_use]
    pub fn phase(mut self, phase: &str) -> Self {
        phase.clone_into(&mut self.phase);
        self
    }

    /// Changes the pod template by a strategic merge: containers, volumes and environment are
    /// merged by name, so that `{"spec": {"shareProcessNamespace": true}}` or another volume or
    /// container is one call.
    #[must_use]
    pub fn with(mut self, change: &Value) -> Self {
        // A change too deep to apply is a mistake of the test that made it; it changes nothing.
        let _ = apply(PatchKind::Strategic, &mut self.template, change);
        self
    }

    /// Gives container `app` a variable from a Secret (C-13).
    #[must_use]
    pub fn secret_env(self, variable: &str, secret: &str) -> Self {
        self.with(&json!({ "spec": { "containers": [{ "name": "app", "env": [{
            "name": variable,
            "valueFrom": { "secretKeyRef": { "name": secret, "key": "value" } },
        }] }] } }))
    }

    /// Gives the pod a volume and mounts it in container `app`.
    #[must_use]
    pub fn volume(self, name: &str, source: &Value, mount_path: &str) -> Self {
        let mut volume = source.clone();
        volume["name"] = name.into();
        self.with(&json!({ "spec": {
            "volumes": [volume],
            "containers": [{
                "name": "app", "volumeMounts": [{ "name": name, "mountPath": mount_path }],
            }],
        } }))
    }
}

fn to_map(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|&(key, value)| (key.to_owned(), Value::from(value)))
        .collect()
}

impl Options {
    /// The rules that stand for a user of this name.
    pub(crate) fn rules_of(&self, user: &str) -> Vec<Rule> {
        let account = self
            .accounts
            .iter()
            .find(|account| account.user.name == user);
        account
            .map(|account| account.rules.clone())
            .unwrap_or_default()
    }
}
