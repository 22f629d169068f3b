use super::*;
use proptest::prelude::*;
use serde_json::json;

fn pod(mounts: Value, volumes: Value) -> PodFacts {
    PodFacts::read(&json!({
        "metadata": { "name": "shop" },
        "spec": {
            "containers": [{ "name": "app", "volumeMounts": mounts }, { "name": "web" }],
            "volumes": volumes,
        },
    }))
    .expect("a pod")
}

/// The debug container's paths for volumes of the app at these paths, each an empty folder.
fn paths(app: &[&str]) -> Vec<String> {
    let name = |i: usize| format!("v{i}");
    let mounts = app
        .iter()
        .enumerate()
        .map(|(i, p)| json!({ "name": name(i), "mountPath": p }));
    let volumes = (0..app.len()).map(|i| json!({ "name": name(i), "emptyDir": {} }));
    let pod = pod(mounts.collect(), volumes.collect());
    volume_mounts(&pod, "app")
        .told
        .into_iter()
        .map(|t| t.mount_path)
        .collect()
}

#[test]
fn a_volume_is_mounted_where_the_app_sees_it_and_read_only() {
    let pod = pod(
        json!([{ "name": "data", "mountPath": "/srv/data/", "readOnly": false }]),
        json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "c" } }]),
    );
    let mounts = volume_mounts(&pod, "app");
    assert_eq!(
        json!(mounts.mounts),
        json!([{
            "name": "data", "mountPath": "/srv/data", "readOnly": true,
            "recursiveReadOnly": "IfPossible",
        }])
    );
    let told = MountedVolume {
        name: "data".to_owned(),
        mount_path: "/srv/data".to_owned(),
        app_path: "/srv/data/".to_owned(),
        note: None,
    };
    assert_eq!(mounts.told, [told]);
    assert_eq!(volume_mounts(&pod, "web"), Mounts::default());
    assert_eq!(volume_mounts(&pod, "nobody"), Mounts::default());
}

#[test]
fn a_path_that_would_shadow_the_debug_image_is_moved() {
    for moved in [
        "/",
        "//",
        "/bin",
        "/usr",
        "/usr/share/nginx/html",
        "/lib/x",
        "/etc",
        "/etc/ssl/certs",
        "/tmp",
        "/proc",
        "/sys/fs",
        "/dev/shm",
        "/home",
        "/root",
        "/var",
        "/var/run",
        "/run",
        "/volumes/x",
        "/srv/../etc",
        "relative",
        "",
        "/a:b",
        "/./tmp/",
    ] {
        assert_eq!(paths(&[moved]), ["/volumes/v0"], "{moved:?}");
    }
}

#[test]
fn a_path_that_only_resembles_one_stays() {
    for stays in [
        "/data",
        "/etc/shop",
        "/usrdata",
        "/tmp/cache",
        "/home/app",
        "/var/log",
        "/mnt",
    ] {
        assert_eq!(paths(&[stays]), [stays], "{stays:?}");
    }
}

#[test]
fn two_volumes_never_share_a_path() {
    assert_eq!(paths(&["/data", "/data/"]), ["/data", "/volumes/v1"]);
}

#[test]
fn parts_of_one_volume_are_mounted_once_and_whole() {
    let pod = pod(
        json!([
            { "name": "data", "mountPath": "/var/lib/shop", "subPath": "shop" },
            { "name": "data", "mountPath": "/logs", "subPathExpr": "$(POD)" },
            { "name": "data", "mountPath": "/all" },
        ]),
        json!([{ "name": "data", "emptyDir": {} }]),
    );
    let mounts = volume_mounts(&pod, "app");
    let at: Vec<&str> = mounts
        .mounts
        .iter()
        .map(|m| m.mount_path.as_str())
        .collect();
    assert_eq!(at, ["/all", "/volumes/data"]);
    let told: Vec<(&str, &str, Option<&str>)> = mounts
        .told
        .iter()
        .map(|t| {
            (
                t.app_path.as_str(),
                t.mount_path.as_str(),
                t.note.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("/all", "/all", None),
            (
                "/var/lib/shop",
                "/volumes/data",
                Some("the whole volume; the app sees its `shop`")
            ),
            (
                "/logs",
                "/volumes/data",
                Some("the whole volume; the app sees its `$(POD)`")
            ),
        ]
    );
}

#[test]
fn qc19_no_volume_that_proves_an_identity_is_mounted() {
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    let pod = pod(
        json!([
            { "name": "kube-api-access-9x", "mountPath": token },
            { "name": "cloud", "mountPath": "/var/run/secrets/cloud" },
            { "name": "legacy", "mountPath": format!("{token}/") },
            { "name": "cert", "mountPath": "/cert" },
            { "name": "spiffe", "mountPath": "/spiffe" },
        ]),
        json!([
            { "name": "kube-api-access-9x", "projected": { "sources": [] } },
            { "name": "cloud", "projected": { "sources": [{ "configMap": {} }, { "serviceAccountToken": {} }] } },
            { "name": "legacy", "secret": { "secretName": "default-token-abcde" } },
            { "name": "cert", "projected": { "sources": [{ "podCertificate": {} }] } },
            { "name": "spiffe", "csi": { "driver": "csi.spiffe.io" } },
        ]),
    );
    assert_eq!(volume_mounts(&pod, "app"), Mounts::default());
}

#[test]
fn a_folder_of_the_node_is_not_mounted_and_says_so() {
    let pod = pod(
        json!([{ "name": "sock", "mountPath": "/host" }]),
        json!([{ "name": "sock", "hostPath": { "path": "/run" } }]),
    );
    let mounts = volume_mounts(&pod, "app");
    assert!(mounts.mounts.is_empty() && mounts.told.is_empty());
    assert_eq!(
        mounts.left_out,
        ["`sock` is a folder of the node and is not mounted"]
    );
}

/// Whether a session on `app` is sensitive; `web` is the other container.
fn is_sensitive(app: Value, volumes: Value, pod: Value, process_access: bool) -> bool {
    let mut json = json!({
        "metadata": { "name": "shop" },
        "spec": { "containers": [app, {
            "name": "web", "envFrom": [{ "secretRef": { "name": "s" } }],
        }], "volumes": volumes },
    });
    for (field, value) in pod.as_object().into_iter().flatten() {
        json["spec"][field] = value.clone();
    }
    let pod = PodFacts::read(&json).expect("a pod");
    let mounts = if process_access {
        Mounts::default()
    } else {
        volume_mounts(&pod, "app")
    };
    sensitive(&pod, "app", process_access, &mounts)
}

#[test]
fn a_secret_in_sight_makes_a_session_sensitive() {
    let mounting = |volume: Value, process_access| {
        let app = json!({ "name": "app", "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
        is_sensitive(app, json!([volume]), json!({}), process_access)
    };
    for (volume, mounted, seen_in_proc) in [
        (json!({ "name": "v", "emptyDir": {} }), false, false),
        (json!({ "name": "v", "configMap": {} }), false, false),
        (json!({ "name": "v", "secret": {} }), true, true),
        (
            json!({ "name": "v", "csi": { "driver": "vault" } }),
            true,
            true,
        ),
        (
            json!({ "name": "v", "projected": { "sources": [{ "secret": {} }] } }),
            true,
            true,
        ),
        // Never mounted, and yet there for who looks into the app's process.
        (
            json!({ "name": "v", "projected": { "sources": [{ "serviceAccountToken": {} }] } }),
            false,
            true,
        ),
    ] {
        assert_eq!(
            mounting(volume.clone(), false),
            mounted,
            "mounted: {volume}"
        );
        assert_eq!(
            mounting(volume.clone(), true),
            seen_in_proc,
            "in /proc: {volume}"
        );
    }
}

#[test]
fn an_environment_of_secrets_counts_with_process_access_alone() {
    let from_key = json!([{ "name": "K", "valueFrom": { "secretKeyRef": { "name": "s" } } }]);
    let from_field = json!([{ "name": "K", "valueFrom": { "fieldRef": {} } }]);
    let with = |env: &Value, access| {
        is_sensitive(
            json!({ "name": "app", "env": env }),
            json!([]),
            json!({}),
            access,
        )
    };
    assert!(with(&from_key, true) && !with(&from_key, false));
    assert!(!with(&from_field, true));
}

#[test]
fn shared_processes_make_every_containers_secrets_count() {
    let sharing = |share: bool| {
        let pod = json!({ "shareProcessNamespace": share });
        is_sensitive(json!({ "name": "app" }), json!([]), pod, true)
    };
    assert!(sharing(true));
    assert!(!sharing(false));
}

#[test]
fn process_access_to_a_container_that_nobody_knows_is_sensitive() {
    assert!(is_sensitive(
        json!({ "name": "other" }),
        json!([]),
        json!({}),
        true
    ));
}

proptest! {
    #[test]
    fn mounts_are_read_only_apart_and_clear_of_the_debug_image(value in crate::pod::arbitrary::pod()) {
        let Ok(pod) = PodFacts::read(&value) else { return Ok(()) };
        for container in pod.app_containers() {
            let mounts = volume_mounts(&pod, &container.name);
            prop_assert_eq!(&mounts, &volume_mounts(&pod, &container.name));
            let mut at: Vec<&str> = mounts.mounts.iter().map(|m| m.mount_path.as_str()).collect();
            at.sort_unstable();
            prop_assert!(at.windows(2).all(|two| two[0] != two[1]), "{:?}", at);
            for mount in &mounts.mounts {
                let path = mount.mount_path.as_str();
                prop_assert!(mount.read_only);
                prop_assert_eq!(clean(path), Some(path.to_owned()));
                let elsewhere = path.strip_prefix("/volumes/").is_some_and(|n| !n.contains('/'));
                prop_assert!(elsewhere || !shadows(path), "{}", path);
                let volume = pod.volume(&mount.name).expect("the volume");
                prop_assert!(!is_identity(&pod, volume) && !volume.source.contains_key("hostPath"));
            }
            for told in &mounts.told {
                prop_assert!(at.contains(&told.mount_path.as_str()));
            }
            let _ = sensitive(&pod, &container.name, true, &mounts);
        }
    }
}
