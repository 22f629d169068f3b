//! Pods as nobody would write them, for the laws that hold for every pod.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A volume's or container's name: few, so that references meet.
fn name() -> impl Strategy<Value = String> {
    let names = [
        "app",
        "web",
        "data",
        "conf",
        "tmp",
        "kube-api-access-x1",
        "debug-aaaaaaaaaaaa",
    ];
    prop_oneof![9 => select(names.to_vec()).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn path() -> impl Strategy<Value = String> {
    let paths = [
        "/",
        "/tmp",
        "/data",
        "/data/",
        "/data//x",
        "/etc/app",
        "/etc",
        "/usr/share/x",
        "/volumes",
        "/volumes/data",
        "/a/../etc",
        "relative",
        "",
        "/a:b",
        "/proc/1",
        "/var",
        "/var/run/x",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    ];
    prop_oneof![9 => select(paths.to_vec()).prop_map(str::to_owned), 1 => ".{0,30}"]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(0)),
        Just(json!(1000)),
        Just(json!(-1)),
        Just(json!(i64::MAX)),
    ]
}

fn flag() -> impl Strategy<Value = Value> {
    prop_oneof![3 => Just(Value::Null), 2 => Just(json!(false)), 1 => Just(json!(true))]
}

fn image() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => Just(format!("registry.example:5000/shop/app:1@sha256:{HEX}")),
        2 => Just("shop/app:1".to_owned()),
        1 => Just(format!("sha256:{HEX}")),
        1 => ".{0,20}",
    ]
}

fn source() -> impl Strategy<Value = (&'static str, Value)> {
    let sources = prop_oneof![
        Just(json!([{ "serviceAccountToken": { "path": "token" } }])),
        Just(json!([{ "secret": { "name": "s" } }, { "serviceAccountToken": { "path": "t" } }])),
        Just(json!([{ "configMap": { "name": "c" } }])),
        Just(json!([])),
        Just(json!(null)),
        Just(json!({})),
    ];
    prop_oneof![
        3 => Just(("emptyDir", json!({}))),
        3 => Just(("emptyDir", Value::Null)),
        3 => Just(("secret", json!({ "secretName": "s" }))),
        3 => Just(("configMap", json!({ "name": "c" }))),
        3 => Just(("persistentVolumeClaim", json!({ "claimName": "claim" }))),
        3 => Just(("persistentVolumeClaim", json!("odd"))),
        3 => Just(("csi", json!({ "driver": "csi.spiffe.io" }))),
        3 => Just(("csi", json!({ "driver": "secrets-store.csi.k8s.io" }))),
        3 => Just(("image", json!({ "reference": "app:1" }))),
        3 => Just(("image", json!(7))),
        3 => Just(("nfs", json!({ "server": "s", "path": "/" }))),
        3 => Just(("iscsi", json!({}))),
        3 => Just(("ephemeral", json!({}))),
        3 => Just(("aLaterKind", json!({ "a": 1 }))),
        1 => Just(("hostPath", json!({ "path": "/" }))),
        9 => sources.prop_map(|sources| ("projected", json!({ "sources": sources }))),
    ]
}

fn volume() -> impl Strategy<Value = Value> {
    (name(), source()).prop_map(|(name, (kind, source))| json!({ "name": name, (kind): source }))
}

fn context() -> impl Strategy<Value = Value> {
    let add = prop_oneof![2 => Just(json!(null)), 1 => Just(json!(["NET_ADMIN"]))];
    let privileged = prop_oneof![60 => Just(json!(false)), 1 => Just(json!(true))];
    let profile = prop_oneof![
        Just(json!(null)),
        Just(json!({ "type": "Unconfined" })),
        Just(json!({ "type": "Localhost", "localhostProfile": "p" })),
    ];
    let known = (number(), number(), flag(), add, privileged, profile).prop_map(
        |(uid, gid, root, add, privileged, profile)| {
            json!({
                "runAsUser": uid, "runAsGroup": gid, "runAsNonRoot": root,
                "allowPrivilegeEscalation": true, "procMount": "Unmasked",
                "capabilities": { "add": add, "drop": ["MKNOD"] }, "privileged": privileged,
                "seccompProfile": profile, "appArmorProfile": profile,
            })
        },
    );
    prop_oneof![1 => Just(Value::Null), 3 => known]
}

fn container() -> impl Strategy<Value = Value> {
    let mount = (name(), path(), flag(), prop_oneof![Just(""), Just("part")]).prop_map(
        |(name, path, read_only, part)| {
            json!({
                "name": name, "mountPath": path, "readOnly": read_only, "subPath": part,
                "mountPropagation": "Bidirectional",
            })
        },
    );
    let port = prop_oneof![60 => Just(json!(null)), 1 => Just(json!(80))];
    let restart = prop_oneof![2 => Just(json!(null)), 1 => Just(json!("Always"))];
    (name(), image(), vec(mount, 0..4), context(), port, restart).prop_map(
        |(name, image, mounts, context, port, restart)| {
            json!({
                "name": name, "image": image, "volumeMounts": mounts, "securityContext": context,
                "command": ["run"], "args": ["--all"], "restartPolicy": restart,
                "env": [{
                    "name": "K", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } },
                }],
                "ports": [{ "containerPort": 80, "hostPort": port }],
                "volumeDevices": [{ "name": "block", "devicePath": "/dev/x" }],
                "livenessProbe": { "exec": { "command": ["false"] } },
                "readinessProbe": {}, "startupProbe": {}, "lifecycle": { "preStop": {} },
                "resources": { "limits": { "cpu": "1" }, "claims": [{ "name": "gpu" }] },
            })
        },
    )
}

fn statuses() -> impl Strategy<Value = Value> {
    let state = prop_oneof![
        Just(json!({})),
        Just(json!({ "running": {} })),
        Just(json!({ "waiting": { "reason": "ErrImagePull", "message": "no\u{1b}[2J" } })),
        Just(json!({ "terminated": { "exitCode": 1 } })),
    ];
    let status =
        (name(), image(), number(), number(), state).prop_map(|(name, image, uid, gid, state)| {
            let user = match (&uid, &gid) {
                (Value::Null, _) | (_, Value::Null) => Value::Null,
                _ => json!({ "linux": { "uid": uid, "gid": gid } }),
            };
            json!({ "name": name, "imageID": image, "user": user, "state": state })
        });
    vec(status, 0..4).prop_map(Value::Array)
}

fn spec() -> impl Strategy<Value = Value> {
    let rarely = || prop_oneof![60 => Just(json!(null)), 1 => Just(json!(true))];
    let lists = (
        vec(container(), 0..4),
        vec(container(), 0..3),
        vec(volume(), 0..6),
    );
    let ephemeral = vec(name().prop_map(|name| json!({ "name": name })), 0..3);
    let flags = (flag(), rarely(), rarely(), rarely());
    (lists, ephemeral, flags, context()).prop_map(
        |((containers, init, volumes), ephemeral, (share, net, pid, ipc), context)| {
            json!({
                "containers": containers, "initContainers": init, "volumes": volumes,
                "ephemeralContainers": ephemeral, "shareProcessNamespace": share,
                "hostNetwork": net, "hostPID": pid, "hostIPC": ipc, "nodeName": "node-1",
                "serviceAccountName": "shop", "securityContext": context, "priority": 1000,
                "automountServiceAccountToken": true, "aLaterField": { "danger": true },
            })
        },
    )
}

/// A pod: mostly one that can be read, sometimes anything at all.
pub(crate) fn pod() -> impl Strategy<Value = Value> {
    let labels = btree_map("[a-z./]{1,12}", "[a-z]{0,8}", 0..3);
    let written =
        (".{0,70}", spec(), statuses(), labels).prop_map(|(name, spec, statuses, labels)| {
            json!({
                "metadata": {
                    "name": name, "namespace": "shop", "uid": "uid-1", "labels": labels,
                    "finalizers": ["x"],
                    "ownerReferences": [{ "kind": "ReplicaSet", "name": "r", "controller": true }],
                },
                "spec": spec,
                "status": { "phase": "Running", "containerStatuses": statuses },
            })
        });
    prop_oneof![19 => written, 1 => anything()]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| json!(n)),
        ".{0,8}".prop_map(Value::String),
    ];
    let key = prop_oneof![
        select(
            &[
                "metadata",
                "spec",
                "name",
                "containers",
                "volumes",
                "status"
            ][..]
        )
        .prop_map(str::to_owned),
        ".{0,5}",
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        let object = btree_map(key.clone(), inner.clone(), 0..5)
            .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()));
        prop_oneof![vec(inner, 0..4).prop_map(Value::Array), object]
    })
}
