//! What the builders of `decisions` make: kept as reviewed, and from generated pods.
//!
//! Invariant: nothing here is written by hand that a builder writes.

use decisions::copy_pod::{ClaimFacts, CopySpec, copy_pod};
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::grant::{GrantSpec, Sanction, Subject, grant};
use decisions::mounts::volume_mounts;
use decisions::pod::PodFacts;
use decisions::request::DURATIONS_MINUTES;
use decisions::session::{Mode, SessionId, Tier, UserRef};
use policies::cel::KubernetesVersion;
use policies::fence::{FenceConfig, Signing};
use policies::identity::Identity;
use policies::preflight::{
    Preflight, Refused, Sending, attach_options, with_debug_container, with_process_access,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Both fences.
pub(crate) const FENCES: [Tier; 2] = [Tier::Ground, Tier::Flight];
const BACKEND: &str = "system:serviceaccount:tower:backstage";
/// Who it is where it is no service account.
const USER: &str = "backstage@hangar.example";
const INSTALLATION: &str = "tower";
const SESSION: &str = "k3v9x0a1b2c3";
const IMAGE: &str =
    "ghcr.io/hangar/debug@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const APP_IMAGE: &str =
    "ghcr.io/hangar/app@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

/// The preflight of a cluster with this fence, where Break-glass is this user.
fn preflight(tier: Tier, user: &str) -> &'static Preflight {
    static OF: [LazyLock<Preflight>; 4] = [
        LazyLock::new(|| compiled(Tier::Ground, BACKEND)),
        LazyLock::new(|| compiled(Tier::Flight, BACKEND)),
        LazyLock::new(|| compiled(Tier::Ground, USER)),
        LazyLock::new(|| compiled(Tier::Flight, USER)),
    ];
    let at = usize::from(tier == Tier::Flight) + 2 * usize::from(user == USER);
    &OF[at]
}

fn compiled(tier: Tier, user: &str) -> Preflight {
    let config = FenceConfig {
        tier,
        installation: INSTALLATION.to_owned(),
        backend: Identity::of_user_name(user).expect("a user"),
        debug_images: vec![IMAGE.to_owned()],
        operators: vec!["platform:oncall".to_owned()],
        kyverno: Vec::new(),
        copy_annotations: Vec::new(),
        appliers: Vec::new(),
        signing: Signing {
            glob: "ghcr.io/hangar/debug*".to_owned(),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            subject: "https://github.com/hangar/debug/release.yml@refs/heads/main".to_owned(),
            rekor_url: "https://rekor.sigstore.dev".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    };
    Preflight::new(&config, KubernetesVersion::OLDEST).expect("a preflight")
}

/// Something to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) name: String,
    /// What is done with it, as the list of harmless paths calls it.
    pub(crate) sending: &'static str,
    /// What kind of object it is.
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
    before: Value,
    user: &'static str,
}

impl Sent {
    fn new(sending: &'static str, kind: &'static str, name: &str, object: Value) -> Self {
        Self {
            name: format!("{sending}: {name}"),
            sending,
            kind,
            object,
            before: Value::Null,
            user: BACKEND,
        }
    }

    fn over(mut self, before: Value) -> Self {
        self.before = before;
        self
    }

    pub(crate) fn with(&self, object: Value) -> Self {
        Self {
            object,
            ..self.clone()
        }
    }

    /// Whether this part of the object is sent. The rest of a pod is what the cluster has: the
    /// subresource takes nothing else, and a deletion is judged by what it finds.
    pub(crate) fn sends(&self, path: &str) -> bool {
        if self.sending == "delete-grant" {
            return path == "metadata.name";
        }
        let parts: &[&str] = match self.sending {
            "debug" => &["spec.ephemeralContainers"],
            "delete" => &[
                "metadata.labels[hangar.io/breakglass-copy]",
                "metadata.labels[hangar.io/breakglass-session]",
                "spec.ephemeralContainers[debug].name",
            ],
            _ => &[""],
        };
        parts.iter().any(|part| path.starts_with(part))
    }

    pub(crate) fn judged(&self, tier: Tier) -> Result<(), Refused> {
        let labels = BTreeMap::from([("hangar.io/app".to_owned(), "shop".to_owned())]);
        let (before, after) = (&self.before, &self.object);
        let what = match self.sending {
            "grant" => Sending::Grant(after),
            "delete-grant" => {
                Sending::DeleteGrant(after["metadata"]["name"].as_str().unwrap_or(""))
            }
            "debug" => Sending::DebugContainer { before, after },
            "access" => Sending::ProcessAccess { before, after },
            "copy" => Sending::Copy(after),
            "delete" => Sending::Delete(after),
            "attach" => Sending::Attach {
                pod: "shop-1",
                options: after,
            },
            other => panic!("{other}"),
        };
        preflight(tier, self.user).check(&what, "shop-prod", Some(&labels))
    }
}

fn golden(name: &str) -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../tests/golden/objects/{name}.json"));
    let text = std::fs::read_to_string(file).expect("a golden file");
    serde_json::from_str(&text).expect("JSON")
}

/// A pod of an app, as an API server gives it.
fn app_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "shop-1", "namespace": "shop-prod", "uid": "uid-1", "resourceVersion": "41",
            "labels": { "app.kubernetes.io/name": "shop" },
            "annotations": { "example.org/note": "n" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop",
                                  "uid": "uid-2", "controller": true }],
        },
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": "shop",
            "containers": [{ "name": "app", "image": APP_IMAGE }],
            "volumes": [
                { "name": "data", "emptyDir": {} },
                { "name": "node", "hostPath": { "path": "/run" } },
                { "name": "identity", "projected": { "sources": [
                    { "serviceAccountToken": { "path": "token" } },
                ] } },
            ],
        },
        "status": { "phase": "Running" },
    })
}

/// What the builders' own tests have reviewed, ready to be sent to a cluster of this tier.
pub(crate) fn fixtures(tier: Tier) -> Vec<Sent> {
    let mut all = Vec::new();
    let grants = [
        "grant-flight-approved",
        "grant-flight-glass-broken",
        "grant-second",
    ];
    let on_ground = (tier == Tier::Ground).then_some("grant-ground");
    for name in grants.into_iter().chain(on_ground) {
        let mut sent = Sent::new("grant", "RoleBinding", name, golden(name));
        if sent.object["subjects"][0]["kind"] == "User" {
            sent.user = USER;
        }
        let gone = Sent::new("delete-grant", "RoleBinding", name, sent.object.clone());
        all.extend([sent, gone]);
    }
    for name in ["copy-pod", "copy-pod-held"] {
        all.push(Sent::new("copy", "Pod", name, golden(name)));
        all.push(Sent::new("delete", "Pod", name, golden(name)));
    }
    for name in ["debug-container-live", "debug-container-process-access"] {
        let mut before = app_pod();
        if name == "debug-container-process-access" {
            before = with_process_access(&before, Some(SESSION));
        }
        let after = with_debug_container(&before, &golden(name));
        all.push(Sent::new("delete", "Pod", name, after.clone()));
        all.push(Sent::new("debug", "Pod", name, after).over(before));
    }
    let marked = with_process_access(&app_pod(), Some(SESSION));
    let access = |name, object: &Value| Sent::new("access", "Pod", name, object.clone());
    all.push(access("set", &marked).over(app_pod()));
    all.push(access("taken away", &app_pod()).over(marked));
    let options = attach_options(&format!("debug-{SESSION}"));
    let kind = "PodAttachOptions";
    all.push(Sent::new("attach", kind, "a terminal", options));
    all
}

/// What a session may be, beside its pod.
#[derive(Debug, Clone)]
pub(crate) struct Choices {
    copy: bool,
    process_access: bool,
    volume_access: bool,
    hold_app: bool,
    second: bool,
    duration: u32,
    glass_broken: bool,
    modes: Vec<String>,
}

pub(crate) fn choices() -> impl Strategy<Value = Choices> {
    let flags = any::<[bool; 6]>();
    let modes = subsequence(
        vec!["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
        0..=3,
    );
    (flags, select(DURATIONS_MINUTES.to_vec()), modes).prop_map(|(flags, duration, modes)| {
        Choices {
            copy: flags[0],
            process_access: flags[1],
            volume_access: flags[2],
            hold_app: flags[3],
            second: flags[4],
            glass_broken: flags[5],
            duration,
            modes: modes.into_iter().map(str::to_owned).collect(),
        }
    })
}

/// Everything that a session of these choices on this pod sends.
pub(crate) fn made(tier: Tier, pod: &Value, choices: &Choices) -> Vec<Sent> {
    let id = SessionId::parse(SESSION).expect("an id");
    let expires_at = "2030-01-01T10:30:00Z".parse().expect("a time");
    let alice = UserRef::new("user:default/alice");
    let sanction = match (tier, choices.glass_broken) {
        (Tier::Ground, _) => Sanction::Ground,
        (Tier::Flight, true) => Sanction::GlassBroken,
        (Tier::Flight, false) => Sanction::Approved(UserRef::new("user:default/bob")),
    };
    let binding = grant(&GrantSpec {
        id: id.clone(),
        namespace: "shop-prod".to_owned(),
        mode: if choices.copy { Mode::Copy } else { Mode::Live },
        subject: Subject::from_username(BACKEND),
        duration_minutes: choices.duration,
        requester: alice.clone(),
        sanction,
        expires_at,
        installation: INSTALLATION.to_owned(),
        second: choices.second,
    });
    let gone = Sent::new("delete-grant", "RoleBinding", "built", binding.clone());
    let mut all = vec![Sent::new("grant", "RoleBinding", "built", binding), gone];
    let facts: PodFacts = serde_json::from_value(pod.clone()).expect("a pod");
    let mut mounts = volume_mounts(&facts, "app").mounts;
    mounts.retain(|_| choices.volume_access);
    let debug = debug_container(&DebugSpec {
        id: &id,
        image: IMAGE,
        pod: &facts,
        container: "app",
        process_access: choices.process_access,
        mounts: &mounts,
        deadline_seconds: 2760,
        user: DebugUser::default(),
    });
    if let Ok(debug) = debug {
        let mark = choices.process_access.then_some(SESSION);
        let before = with_process_access(pod, mark);
        let after = with_debug_container(&before, &json!(debug));
        let access = Sent::new("access", "Pod", "built", before.clone());
        all.push(access.over(pod.clone()));
        all.push(Sent::new("delete", "Pod", "built", after.clone()));
        all.push(Sent::new("debug", "Pod", "built", after).over(before));
    }
    let claim = ClaimFacts {
        access_modes: choices.modes.clone(),
    };
    let copy = copy_pod(&CopySpec {
        id: &id,
        installation: INSTALLATION,
        requester: &alice,
        expires_at,
        duration_minutes: choices.duration,
        pod: &facts,
        container: "app",
        hold_app: choices.hold_app,
        volume_access: choices.volume_access,
        image: IMAGE,
        user: DebugUser::default(),
        claims: &BTreeMap::from([("claim".to_owned(), claim)]),
    });
    if let Ok(copy) = copy {
        all.push(Sent::new("delete", "Pod", "a copy", copy.manifest.clone()));
        all.push(Sent::new("copy", "Pod", "built", copy.manifest));
    }
    let options = attach_options(&format!("debug-{SESSION}"));
    all.push(Sent::new("attach", "PodAttachOptions", "built", options));
    all
}

/// Some of these fields.
fn some_of(fields: Value) -> impl Strategy<Value = Value> {
    let Value::Object(fields) = fields else {
        panic!("fields")
    };
    let fields: Vec<_> = fields.into_iter().collect();
    let all = fields.len();
    subsequence(fields, 0..=all)
        .prop_map(|some| Value::Object(some.into_iter().collect::<Map<_, _>>()))
}

fn security() -> impl Strategy<Value = Value> {
    let kinds = [
        json!({}),
        json!({ "runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": true }),
        json!({ "runAsUser": 0, "capabilities": { "add": ["NET_ADMIN"], "drop": ["CHOWN"] } }),
        json!({ "allowPrivilegeEscalation": true, "readOnlyRootFilesystem": true,
                "seccompProfile": { "type": "Unconfined" } }),
        json!({ "privileged": true }),
        json!({ "seLinuxOptions": { "level": "s0", "role": "r" }, "procMount": "Unmasked",
                "appArmorProfile": { "type": "Unconfined" },
                "seccompProfile": { "type": "Localhost", "localhostProfile": "x.json" } }),
    ];
    select(kinds.to_vec())
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let more = some_of(json!({
        "command": ["run"], "args": ["-v"], "workingDir": "/srv",
        "env": [{ "name": "A", "value": "b" },
                { "name": "S", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }],
        "envFrom": [{ "secretRef": { "name": "s" } }],
        "resources": { "limits": { "cpu": "1", "memory": "1Gi", "example.org/gpu": "1" } },
        "stdin": true, "tty": true,
        "ports": [{ "containerPort": 8080 }],
        "livenessProbe": { "httpGet": { "port": 80 } },
        "lifecycle": { "preStop": { "exec": { "command": ["x"] } } },
        "restartPolicy": "Always",
    }));
    let mounts = subsequence(
        vec!["data", "settings", "keys", "identity", "claim", "share"],
        0..=6,
    );
    (more, security(), mounts).prop_map(move |(mut made, security, mounts)| {
        made["name"] = json!(name);
        made["image"] = json!(APP_IMAGE);
        made["securityContext"] = security;
        let mounted = mounts.iter().map(|volume| {
            json!({
                "name": volume, "mountPath": format!("/srv/{volume}"),
            })
        });
        made["volumeMounts"] = mounted.collect();
        made
    })
}

/// Pods of apps, decent ones and others.
pub(crate) fn pods() -> impl Strategy<Value = Value> {
    let spec = some_of(json!({
        "shareProcessNamespace": true, "hostUsers": false, "nodeSelector": { "a": "b" },
        "tolerations": [{ "operator": "Exists" }], "imagePullSecrets": [{ "name": "pull" }],
        "dnsPolicy": "Default", "runtimeClassName": "kata", "serviceAccountName": "shop",
        "priorityClassName": "high", "resourceClaims": [{ "name": "gpu" }],
        "affinity": { "nodeAffinity": {} , "podAffinity": {} },
        "hostAliases": [{ "ip": "10.0.0.1", "hostnames": ["x"] }],
        "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1,
                             "sysctls": [{ "name": "x", "value": "1" }],
                             "seLinuxOptions": { "type": "spc_t", "user": "u", "level": "s0" },
                             "appArmorProfile": { "type": "Localhost", "localhostProfile": "x" },
                             "seccompProfile": { "type": "Unconfined" } },
    }));
    let meta = some_of(json!({
        "labels": { "app.kubernetes.io/name": "shop" },
        "annotations": { "example.org/note": "n" },
        "finalizers": ["example.org/keep"],
        "ownerReferences": [{ "kind": "ReplicaSet", "name": "shop", "uid": "uid-2" }],
    }));
    let volumes = json!([
        { "name": "data", "emptyDir": {} },
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "keys", "secret": { "secretName": "keys" } },
        { "name": "identity", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token" } }, { "configMap": { "name": "ca" } },
        ] } },
        { "name": "claim", "persistentVolumeClaim": { "claimName": "claim" } },
        { "name": "share", "nfs": { "server": "s", "path": "/" } },
        { "name": "spiffe", "csi": { "driver": "csi.spiffe.io" } },
        { "name": "scratch", "ephemeral": { "volumeClaimTemplate": {} } },
    ]);
    let init = proptest::option::of(container("first"));
    (spec, meta, container("app"), container("beside"), init).prop_map(
        move |(mut spec, mut metadata, app, beside, init)| {
            spec["containers"] = json!([app, beside]);
            spec["volumes"] = volumes.clone();
            if let Some(init) = init {
                spec["initContainers"] = json!([init]);
            }
            for (field, text) in [("name", "shop-1"), ("namespace", "shop-prod"), ("uid", "u")] {
                metadata[field] = json!(text);
            }
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
        },
    )
}
