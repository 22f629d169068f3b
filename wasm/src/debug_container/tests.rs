use super::*;
use crate::mounts::volume_mounts;
use crate::pod::policy_table;
use crate::testing::golden;
use proptest::prelude::*;

const IMAGE: &str = "ghcr.io/hangar/debug@sha256:\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn id() -> SessionId {
    SessionId::parse("k3v9x0a1b2c3").expect("an id")
}

/// A pod whose container `app` has these fields, with these fields of the pod's own.
fn pod(app: Value, pod: Value, user: Value) -> PodFacts {
    let mut json = json!({
        "metadata": { "name": "shop-0", "uid": "uid-1", "resourceVersion": "41" },
        "spec": { "containers": [{ "name": "app" }] },
        "status": { "containerStatuses": [{ "name": "app", "user": user }] },
    });
    for (field, value) in app.as_object().into_iter().flatten() {
        json["spec"]["containers"][0][field] = value.clone();
    }
    for (field, value) in pod.as_object().into_iter().flatten() {
        json["spec"][field] = value.clone();
    }
    PodFacts::read(&json).expect("a pod")
}

fn plain() -> PodFacts {
    pod(json!({}), json!({}), Value::Null)
}

fn build(pod: &PodFacts, process_access: bool) -> Result<DebugContainer, DebugRefusal> {
    let id = id();
    debug_container(&DebugSpec {
        id: &id,
        image: IMAGE,
        pod,
        container: "app",
        process_access,
        mounts: &volume_mounts(pod, "app").mounts,
        deadline_seconds: hard_deadline_seconds(30),
        user: DebugUser::default(),
    })
}

/// The user and group of a debug container with process access.
#[track_caller]
fn check_user(pod: &PodFacts, expected: Result<(i64, i64), DebugRefusal>) {
    let user = build(pod, true).map(|c| {
        (
            c.security_context.run_as_user,
            c.security_context.run_as_group,
        )
    });
    assert_eq!(user, expected);
}

fn is_root() -> DebugRefusal {
    DebugRefusal::TargetUserIsRoot {
        container: "app".to_owned(),
    }
}

#[test]
fn a_live_session_adds_this_container() {
    let pod = pod(
        json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] }),
        json!({ "volumes": [{ "name": "data", "emptyDir": {} }] }),
        Value::Null,
    );
    golden(
        "debug-container-live",
        &json!(build(&pod, false).expect("a container")),
    );
}

#[test]
fn a_live_session_with_process_access_adds_this_container() {
    let pod = pod(
        json!({ "securityContext": { "runAsUser": 1001, "runAsGroup": 1002 } }),
        json!({}),
        Value::Null,
    );
    golden(
        "debug-container-process-access",
        &json!(build(&pod, true).expect("a container")),
    );
}

#[test]
fn the_patch_adds_it_to_the_pod_that_was_read_and_no_other() {
    let pod = plain();
    golden(
        "debug-container-patch",
        &add_patch(&pod, &build(&pod, false).expect("a container")),
    );
}

#[test]
fn process_access_is_granted_to_one_session_or_to_nobody() {
    golden(
        "process-access-patch",
        &process_access_patch("uid-1", Some(&id())),
    );
    golden(
        "process-access-patch-removed",
        &process_access_patch("uid-1", None),
    );
}

#[test]
fn qk44_the_container_is_what_pod_security_calls_restricted() {
    let container = json!(build(&plain(), false).expect("a container"));
    let context = &container["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(context["runAsNonRoot"], true);
    assert_eq!(
        context["seccompProfile"],
        json!({ "type": "RuntimeDefault" })
    );
}

#[test]
fn qk43_the_user_is_a_number_so_that_the_kubelet_can_check_it() {
    let container = build(&plain(), false).expect("a container");
    assert_eq!(container.security_context.run_as_user, 65532);
    assert_eq!(container.security_context.run_as_group, 65532);
}

#[test]
fn qk49_each_session_adds_a_container_of_its_own_name() {
    assert_eq!(
        build(&plain(), false).expect("a container").name,
        "debug-k3v9x0a1b2c3"
    );
}

#[test]
fn an_image_that_may_change_is_refused() {
    let pod = plain();
    let digest = IMAGE.split_once('@').expect("a digest").1;
    for image in [
        "ghcr.io/hangar/debug:1".to_owned(),
        format!("{IMAGE}0"),
        IMAGE.to_uppercase(),
        format!("@{digest}"),
        format!("a b@{digest}"),
        format!("a@{digest}@{digest}"),
        String::new(),
    ] {
        let id = id();
        let refused = debug_container(&DebugSpec {
            id: &id,
            image: &image,
            pod: &pod,
            container: "app",
            process_access: false,
            mounts: &[],
            deadline_seconds: 1,
            user: DebugUser::default(),
        });
        assert_eq!(refused, Err(DebugRefusal::ImageNotPinned { image }));
    }
}

#[test]
fn a_configured_root_is_refused() {
    let (id, pod) = (id(), plain());
    for user in [DebugUser { uid: 0, gid: 1 }, DebugUser { uid: 1, gid: 0 }] {
        let refused = debug_container(&DebugSpec {
            id: &id,
            image: IMAGE,
            pod: &pod,
            container: "app",
            process_access: false,
            mounts: &[],
            deadline_seconds: 1,
            user,
        });
        assert_eq!(refused, Err(DebugRefusal::DefaultUserIsRoot));
    }
}

#[test]
fn the_declared_user_comes_first_the_containers_before_the_pods() {
    let own = json!({ "securityContext": { "runAsUser": 1001, "runAsGroup": 1002 } });
    let pods = json!({ "securityContext": { "runAsUser": 2001, "runAsGroup": 2002 } });
    let reported = json!({ "linux": { "uid": 3001, "gid": 3002 } });
    check_user(&pod(own, pods.clone(), reported.clone()), Ok((1001, 1002)));
    check_user(&pod(json!({}), pods, reported.clone()), Ok((2001, 2002)));
    check_user(&pod(json!({}), json!({}), reported), Ok((3001, 3002)));
}

#[test]
fn a_user_that_nobody_knows_or_that_is_root_is_refused() {
    let unknown = DebugRefusal::TargetUserUnknown {
        container: "app".to_owned(),
    };
    check_user(&plain(), Err(unknown));
    let root = json!({ "securityContext": { "runAsUser": 0 } });
    check_user(&pod(root.clone(), json!({}), Value::Null), Err(is_root()));
    check_user(&pod(json!({}), root, Value::Null), Err(is_root()));
    let reported = json!({ "linux": { "uid": 0, "gid": 0 } });
    check_user(&pod(json!({}), json!({}), reported.clone()), Err(is_root()));
    let contradicted = json!({ "securityContext": { "runAsUser": 1001 } });
    check_user(&pod(contradicted, json!({}), reported), Err(is_root()));
}

#[test]
fn a_root_group_is_replaced_and_people_are_told_what_that_costs() {
    let pod = pod(
        json!({}),
        json!({}),
        json!({ "linux": { "uid": 1001, "gid": 0 } }),
    );
    check_user(&pod, Ok((1001, 65532)));
    let notes = build(&pod, true).expect("a container").notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("`app`"), "{notes:?}");
}

#[test]
fn shared_processes_are_process_access_and_must_be_asked_for() {
    let reported = json!({ "linux": { "uid": 1001, "gid": 1002 } });
    let pod = pod(
        json!({}),
        json!({ "shareProcessNamespace": true }),
        reported,
    );
    assert_eq!(build(&pod, false), Err(DebugRefusal::SharedProcesses));
    assert!(build(&pod, true).is_ok());
}

#[test]
fn the_nodes_processes_are_nobodys() {
    let reported = json!({ "linux": { "uid": 1001, "gid": 1002 } });
    let pod = pod(json!({}), json!({ "hostPID": true }), reported);
    assert_eq!(build(&pod, false), Err(DebugRefusal::NodeProcesses));
    assert_eq!(build(&pod, true), Err(DebugRefusal::NodeProcesses));
}

#[test]
fn only_a_container_that_stays_can_be_looked_at() {
    let init = |policy: Value| {
        let init = json!([{ "name": "app", "restartPolicy": policy }]);
        pod(
            json!({ "name": "other" }),
            json!({ "initContainers": init }),
            Value::Null,
        )
    };
    assert!(build(&init(json!("Always")), false).is_ok());
    let none = DebugRefusal::NoContainer {
        container: "app".to_owned(),
    };
    assert_eq!(build(&init(Value::Null), false), Err(none));
}

#[test]
fn a_windows_pod_is_refused() {
    let pod = pod(
        json!({}),
        json!({ "os": { "name": "windows" } }),
        Value::Null,
    );
    assert_eq!(
        build(&pod, false),
        Err(DebugRefusal::NotLinux {
            os: "windows".to_owned()
        })
    );
}

#[test]
fn the_hard_deadline_covers_one_extension_and_a_margin() {
    assert_eq!([15, 30, 60].map(hard_deadline_seconds), [1860, 2760, 4560]);
    assert_eq!(hard_deadline_seconds(u32::MAX), u32::MAX);
}

#[test]
fn the_launcher_takes_its_deadline_as_an_argument_and_never_signals_everybody() {
    let command = build(&plain(), false).expect("a container").command;
    assert_eq!(command[4], "2760");
    assert!(!LAUNCHER.contains("kill -1") && !LAUNCHER.contains(" -1\n"));
}

#[test]
fn kubernetes_passes_the_launcher_on_as_it_is() {
    for special in ["$$", "$("] {
        assert!(
            !LAUNCHER.contains(special),
            "{special} is not what the container would get"
        );
    }
}

proptest! {
    #[test]
    fn every_debug_container_is_one_that_the_policy_takes(
        value in crate::pod::arbitrary::pod(), process_access in any::<bool>(),
    ) {
        let Ok(pod) = PodFacts::read(&value) else { return Ok(()) };
        let id = id();
        for container in pod.app_containers() {
            let mounts = volume_mounts(&pod, &container.name).mounts;
            let built = debug_container(&DebugSpec {
                id: &id, image: IMAGE, pod: &pod, container: &container.name, process_access,
                mounts: &mounts, deadline_seconds: 60, user: DebugUser::default(),
            });
            let Ok(built) = built else { continue };
            let annotation = process_access.then_some(id.as_str());
            prop_assert_eq!(policy_table::debug_container(&json!(built), annotation), Ok(()));
            prop_assert_eq!(built.target_container_name.is_some(), process_access);
        }
    }
}
