use super::*;
use crate::pod::policy_table;
use crate::testing::golden;
use proptest::prelude::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn id() -> SessionId {
    SessionId::parse("k3v9x0a1b2c3").expect("an id")
}

/// An ordinary app's pod, with most of what a copy has to take away.
fn shop() -> Value {
    let probe = json!({ "httpGet": { "path": "/healthz", "port": 8080 } });
    let image_id = format!("docker.io/shop/app@{DIGEST}");
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "shop-7d9f8c-x2x4z", "namespace": "shop-prod", "uid": "uid-1",
            "labels": { "app": "shop", "pod-template-hash": "7d9f8c" },
            "annotations": { "prometheus.io/scrape": "true" },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "shop-7d9f8c", "uid": "r", "controller": true }],
        },
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": "shop",
            "priorityClassName": "critical",
            "subdomain": "shop",
            "imagePullSecrets": [{ "name": "registry" }],
            "nodeSelector": { "kubernetes.io/arch": "amd64" },
            "securityContext": { "fsGroup": 2000, "sysctls": [{ "name": "net.core.somaxconn", "value": "1024" }] },
            "affinity": { "podAntiAffinity": {}, "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } },
            "initContainers": [
                { "name": "migrate", "image": "docker.io/shop/app:1", "command": ["migrate"] },
                { "name": "mesh-init", "image": "mesh:1", "securityContext": { "capabilities": { "add": ["NET_ADMIN"] } } },
            ],
            "containers": [{
                "name": "app", "image": "docker.io/shop/app:1", "args": ["serve"],
                "env": [{ "name": "KEY", "valueFrom": { "secretKeyRef": { "name": "shop", "key": "key" } } }],
                "ports": [{ "containerPort": 8080, "name": "http" }],
                "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
                "lifecycle": { "preStop": { "exec": { "command": ["deregister"] } } },
                "resources": { "limits": { "memory": "256Mi" } },
                "securityContext": {
                    "runAsUser": 1001, "allowPrivilegeEscalation": true,
                    "capabilities": { "add": ["NET_RAW"], "drop": ["MKNOD"] },
                    "seccompProfile": { "type": "Unconfined" },
                },
                "volumeMounts": [
                    { "name": "data", "mountPath": "/data" },
                    { "name": "cache", "mountPath": "/tmp" },
                    { "name": "secret", "mountPath": "/etc/shop", "readOnly": true },
                    { "name": "kube-api-access-x2", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
                ],
            }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "shop-data" } },
                { "name": "cache", "emptyDir": { "sizeLimit": "1Gi" } },
                { "name": "secret", "secret": { "secretName": "shop" } },
                { "name": "kube-api-access-x2", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{ "name": "app", "imageID": image_id }],
            "initContainerStatuses": [{ "name": "migrate", "imageID": image_id }],
        },
    })
}

struct Asked {
    hold_app: bool,
    volume_access: bool,
    access_modes: Option<&'static [&'static str]>,
}

const PLAIN: Asked = Asked {
    hold_app: false,
    volume_access: true,
    access_modes: Some(&["ReadWriteOnce"]),
};

fn copy(pod: &Value, asked: &Asked) -> Result<CopyPod, CopyRefusal> {
    let pod = PodFacts::read(pod).expect("a pod");
    copy_of(&pod, "app", asked)
}

fn copy_of(pod: &PodFacts, container: &str, asked: &Asked) -> Result<CopyPod, CopyRefusal> {
    let mut claims = BTreeMap::new();
    if let Some(modes) = asked.access_modes {
        let access_modes = modes.iter().map(|m| (*m).to_owned()).collect();
        claims.insert("shop-data".to_owned(), ClaimFacts { access_modes });
    }
    copy_pod(&CopySpec {
        id: &id(),
        installation: "tower",
        requester: &UserRef::new("user:default/alice"),
        expires_at: "2026-11-30T12:30:00Z".parse().expect("a time"),
        duration_minutes: 30,
        pod,
        container,
        hold_app: asked.hold_app,
        volume_access: asked.volume_access,
        image: &format!("ghcr.io/hangar/debug@{DIGEST}"),
        user: DebugUser::default(),
        claims: &claims,
    })
}

/// The manifest of a copy of the shop after a change.
fn changed(change: impl FnOnce(&mut Value)) -> Result<CopyPod, CopyRefusal> {
    let mut pod = shop();
    change(&mut pod);
    copy(&pod, &PLAIN)
}

/// One volume of the copy, when the shop's `data` is of another kind.
fn volume_as(source: Value, asked: &Asked) -> (Option<Value>, Vec<String>) {
    let mut pod = shop();
    let mut volume = source;
    volume["name"] = json!("data");
    pod["spec"]["volumes"][0] = volume;
    let copy = copy(&pod, asked).expect("a copy");
    let volumes = copy.manifest["spec"]["volumes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let about_it = copy
        .notes
        .into_iter()
        .filter(|n| n.contains("`data`"))
        .collect();
    (volumes.into_iter().find(|v| v["name"] == "data"), about_it)
}

#[test]
fn a_running_copy_looks_like_this() {
    let copy = copy(&shop(), &PLAIN).expect("a copy");
    golden("copy-pod", &copy.manifest);
    golden(
        "copy-pod-told",
        &json!({ "notes": copy.notes, "volumes": copy.volumes }),
    );
    assert!(copy.sensitive);
}

#[test]
fn a_held_copy_looks_like_this() {
    let held = Asked {
        hold_app: true,
        volume_access: false,
        ..PLAIN
    };
    let copy = copy(&shop(), &held).expect("a copy");
    golden("copy-pod-held", &copy.manifest);
    assert!(!copy.sensitive && copy.volumes.is_empty());
}

#[test]
fn qc19_a_copy_has_no_token() {
    let text = copy(&shop(), &PLAIN).expect("a copy").manifest.to_string();
    assert!(!text.contains("serviceAccountToken\"") && !text.contains("kube-api-access"));
    assert!(!text.contains("serviceAccountName"), "{text}");
    assert!(text.contains("\"automountServiceAccountToken\":false"));
}

#[test]
fn qc21_a_copy_has_no_probe_that_could_kill_it() {
    for hold_app in [false, true] {
        let copy = copy(&shop(), &Asked { hold_app, ..PLAIN }).expect("a copy");
        let text = copy.manifest.to_string();
        assert!(
            !text.contains("Probe") && !text.contains("lifecycle"),
            "{text}"
        );
    }
}

#[test]
fn qc22_no_service_and_no_controller_finds_a_copy_by_its_labels() {
    let copy = copy(&shop(), &PLAIN).expect("a copy");
    let meta = &copy.manifest["metadata"];
    let labels: Vec<&String> = meta["labels"].as_object().expect("labels").keys().collect();
    assert_eq!(labels.len(), 5);
    assert!(
        !labels
            .iter()
            .any(|l| *l == "app" || *l == "pod-template-hash")
    );
    assert!(meta.get("ownerReferences").is_none());
    assert!(copy.manifest["spec"].get("subdomain").is_none());
}

#[test]
fn what_is_the_nodes_own_is_refused() {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        let refused = changed(|pod| pod["spec"][field] = json!(true));
        assert_eq!(refused, Err(CopyRefusal::HostNamespace { field }));
    }
    let app = || "app".to_owned();
    assert_eq!(
        changed(
            |pod| pod["spec"]["volumes"][1] = json!({ "name": "x", "hostPath": { "path": "/" } })
        ),
        Err(CopyRefusal::HostPath {
            volume: "x".to_owned()
        })
    );
    assert_eq!(
        changed(|pod| pod["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(80)),
        Err(CopyRefusal::HostPort { container: app() })
    );
    assert_eq!(
        changed(|pod| pod["spec"]["containers"][0]["securityContext"]["privileged"] = json!(true)),
        Err(CopyRefusal::Privileged { container: app() })
    );
}

/// The image that the app's container has in a copy.
#[track_caller]
fn check_image(declared: &str, reported: &str, expected: Option<&str>) {
    let copy = changed(|pod| {
        pod["spec"]["containers"][0]["image"] = json!(declared);
        pod["status"]["containerStatuses"][0]["imageID"] = json!(reported);
    });
    let image = copy.map(|c| c.manifest["spec"]["containers"][0]["image"].clone());
    let unknown = CopyRefusal::ImageUnknown {
        container: "app".to_owned(),
    };
    let expected = expected
        .map(|e| json!(format!("{e}@{DIGEST}")))
        .ok_or(unknown);
    assert_eq!(image, expected, "{declared} {reported}");
}

#[test]
fn an_image_is_pinned_by_the_digest_that_the_original_runs() {
    let at = |repository: &str| format!("{repository}@{DIGEST}");
    check_image(
        "shop/app:1",
        &at("docker.io/shop/app"),
        Some("docker.io/shop/app"),
    );
    check_image(
        "shop/app:1",
        &at("docker-pullable://shop/app"),
        Some("shop/app"),
    );
    check_image(&at("r:5000/shop/app:1"), DIGEST, Some("r:5000/shop/app"));
    check_image(&at("r:5000/shop/app"), "", Some("r:5000/shop/app"));
    check_image("shop/app:1", DIGEST, None);
    check_image("shop/app:1", "", None);
    check_image("shop/app@sha256:short", &at("shop/app"), None);
}

#[test]
fn a_claim_is_read_only_and_beside_the_original_where_it_must_be() {
    let claim =
        || json!({ "persistentVolumeClaim": { "claimName": "shop-data", "readOnly": false } });
    let read_only = json!({
        "name": "data", "persistentVolumeClaim": { "claimName": "shop-data", "readOnly": true },
    });
    let with = |access_modes| {
        volume_as(
            claim(),
            &Asked {
                access_modes,
                ..PLAIN
            },
        )
    };
    assert_eq!(
        with(Some(&["ReadWriteOnce"])),
        (Some(read_only.clone()), vec![])
    );
    assert_eq!(
        with(Some(&["ReadWriteMany"])),
        (Some(read_only.clone()), vec![])
    );
    assert_eq!(with(Some(&["ReadWriteOncePod"])).0, None);
    let (unknown, told) = with(None);
    assert_eq!((unknown, told.len()), (Some(read_only), 1));

    let node = |access_modes: &'static [&'static str]| {
        let asked = Asked {
            access_modes: Some(access_modes),
            ..PLAIN
        };
        copy(&shop(), &asked).expect("a copy").manifest["spec"]["affinity"].to_string()
    };
    assert!(node(&["ReadWriteOnce"]).contains("node-1"));
    assert!(!node(&["ReadWriteMany"]).contains("node-1"));
}

#[test]
fn a_volume_that_cannot_be_shared_is_left_out_with_its_mounts_and_told() {
    for source in [
        json!({ "iscsi": { "lun": 0 } }),
        json!({ "csi": { "driver": "secrets-store.csi.k8s.io" } }),
        json!({ "image": { "reference": "model:1" } }),
        json!({ "aLaterKind": {} }),
    ] {
        let mut pod = shop();
        pod["spec"]["volumes"][0] = source.clone();
        pod["spec"]["volumes"][0]["name"] = json!("data");
        let copy = copy(&pod, &PLAIN).expect("a copy");
        assert!(
            !copy.manifest["spec"].to_string().contains("\"data\""),
            "{source}"
        );
        assert!(
            copy.notes.iter().any(|n| n.contains("`data`")),
            "{source} {:?}",
            copy.notes
        );
        assert!(copy.volumes.iter().all(|v| v.name != "data"), "{source}");
    }
}

#[test]
fn a_volume_that_comes_and_goes_with_a_pod_is_an_empty_folder() {
    let (volume, told) = volume_as(
        json!({ "ephemeral": { "volumeClaimTemplate": {} } }),
        &PLAIN,
    );
    assert_eq!(volume, Some(json!({ "name": "data", "emptyDir": {} })));
    assert_eq!(told.len(), 1);
}

#[test]
fn a_projected_volume_keeps_all_but_its_token() {
    let sources =
        json!([{ "configMap": { "name": "c" } }, { "serviceAccountToken": { "path": "t" } }]);
    let (volume, told) = volume_as(json!({ "projected": { "sources": sources } }), &PLAIN);
    let kept =
        json!({ "name": "data", "projected": { "sources": [{ "configMap": { "name": "c" } }] } });
    assert_eq!((volume, told.len()), (Some(kept), 1));
}

#[test]
fn a_raw_block_device_is_left_out() {
    let copy = changed(|pod| {
        pod["spec"]["containers"][0]["volumeDevices"] =
            json!([{ "name": "data", "devicePath": "/dev/x" }]);
    })
    .expect("a copy");
    let volumes = copy.manifest["spec"]["volumes"].to_string();
    assert!(!volumes.contains("shop-data"), "{volumes}");
    assert!(
        copy.notes
            .contains(&"volume `data` is not in the copy: it is a raw block device".to_owned())
    );
}

#[test]
fn a_copy_of_a_pod_with_shared_processes_keeps_them_apart() {
    let copy = changed(|pod| pod["spec"]["shareProcessNamespace"] = json!(true)).expect("a copy");
    assert_eq!(copy.manifest["spec"]["shareProcessNamespace"], false);
}

#[test]
fn a_copys_own_ends_cover_one_extension() {
    let copy = copy(&shop(), &PLAIN).expect("a copy");
    assert_eq!(
        copy.manifest["spec"]["activeDeadlineSeconds"],
        (30 + 15) * 60 + 60
    );
    assert_eq!(copy.manifest["metadata"]["labels"][names::TTL], "45m");
}

#[test]
fn debug_output_never_shows_the_manifest() {
    let copy = changed(|pod| {
        pod["spec"]["containers"][0]["env"] = json!([{ "name": "KEY", "value": "hunter2" }]);
    });
    assert!(!format!("{copy:?}").contains("hunter2"));
}

proptest! {
    #[test]
    fn every_copy_is_one_that_the_policy_takes(
        value in crate::pod::arbitrary::pod(), hold_app in any::<bool>(), volume_access in any::<bool>(),
    ) {
        let Ok(pod) = PodFacts::read(&value) else { return Ok(()) };
        let asked = Asked { hold_app, volume_access, access_modes: None };
        for container in pod.app_containers() {
            let Ok(copy) = copy_of(&pod, &container.name, &asked) else { continue };
            prop_assert_eq!(policy_table::copy_pod(&copy.manifest), Ok(()), "{}", copy.manifest);
        }
    }
}

#[test]
fn what_of_the_nodes_an_app_is_given_a_copy_is_not() {
    let made = changed(|pod| {
        pod["spec"]["securityContext"] = json!({
            "seLinuxOptions": { "type": "spc_t", "user": "system_u", "level": "s0:c1" },
            "appArmorProfile": { "type": "Localhost", "localhostProfile": "shop" },
        });
        let app = &mut pod["spec"]["containers"][0];
        app["securityContext"] =
            json!({ "seLinuxOptions": { "type": "container_t", "role": "r" } });
        app["resources"] = json!({
            "limits": { "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.org/gpu": "1" },
            "requests": { "cpu": "1", "example.org/gpu": "1" },
        });
        app["stdin"] = json!(true);
        app["tty"] = json!(true);
    });
    let made = made.expect("a copy");
    let spec = &made.manifest["spec"];
    let whole = &spec["securityContext"];
    assert_eq!(whole["seLinuxOptions"], json!({ "level": "s0:c1" }));
    assert_eq!(
        whole.get("appArmorProfile"),
        None,
        "its debug container has the node's"
    );
    let app = &spec["containers"][0];
    let own = &app["securityContext"];
    assert_eq!(own["seLinuxOptions"], json!({ "type": "container_t" }));
    assert_eq!(own["appArmorProfile"]["localhostProfile"], "shop");
    let kept = json!({
        "limits": { "memory": "1Gi", "hugepages-2Mi": "4Mi" }, "requests": { "cpu": "1" },
    });
    assert_eq!(app["resources"], kept);
    assert_eq!((app.get("stdin"), app.get("tty")), (None, None));
    let told = "`app` runs without its devices: example.org/gpu";
    assert!(
        made.notes.iter().any(|note| note == told),
        "{:?}",
        made.notes
    );
}
