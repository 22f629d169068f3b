use super::state::{ContainerState, start_failure};
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn pod(json: Value) -> PodFacts {
    PodFacts::read(&json).expect("a pod")
}

#[test]
fn absent_and_null_lists_are_empty_and_unknown_fields_are_ignored() {
    let bare = pod(json!({ "metadata": { "name": "a" } }));
    let nulls = pod(json!({
        "metadata": { "name": "a", "labels": null, "ownerReferences": null, "later": 1 },
        "spec": { "containers": null, "volumes": null, "hostPID": null, "later": [] },
        "status": null,
    }));
    assert_eq!(bare, nulls);
    assert!(bare.spec.containers.is_empty());
}

#[test]
fn a_known_field_of_another_type_refuses_the_pod() {
    for wrong in [
        json!({ "metadata": { "name": "a" }, "spec": { "hostPID": "no" } }),
        json!({ "metadata": { "name": "a" }, "spec": { "volumes": {} } }),
        json!({ "metadata": {} }),
        json!([]),
        json!(null),
    ] {
        assert!(PodFacts::read(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn debug_output_never_shows_an_environment_or_a_command() {
    let pod = pod(json!({
        "metadata": { "name": "a" },
        "spec": { "containers": [{
            "name": "app", "command": ["run", "--key=hunter2"],
            "env": [{ "name": "KEY", "value": "hunter2" }],
        }] },
    }));
    let shown = format!("{pod:?} {:?}", pod.spec);
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_pod_is_ready_only_while_it_stays() {
    let with = |deletion: Value, ready: &str| {
        pod(json!({
            "metadata": { "name": "a", "deletionTimestamp": deletion },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        }))
    };
    assert!(with(Value::Null, "True").is_ready());
    assert!(!with(Value::Null, "False").is_ready());
    assert!(!with(Value::Null, "Unknown").is_ready());
    assert!(!with(json!("2026-01-01T00:00:00Z"), "True").is_ready());
}

#[test]
fn only_ephemeral_containers_are_ours_and_only_by_their_whole_name() {
    let pod = pod(json!({
        "metadata": { "name": "a" },
        "spec": {
            "containers": [{ "name": "debug-aaaaaaaaaaaa" }],
            "ephemeralContainers": [
                { "name": "debug-proxy" }, { "name": "debug-bbbbbbbbbbbb" }, { "name": "debugger-x" },
            ],
        },
    }));
    let ours: Vec<&str> = pod.debug_containers().map(|c| c.name.as_str()).collect();
    assert_eq!(ours, ["debug-bbbbbbbbbbbb"]);
}

#[test]
fn a_static_pods_node_is_no_controller() {
    let owned_by = |kind: &str, controller: bool| {
        let owner = json!({ "kind": kind, "name": "o", "uid": "u", "controller": controller });
        pod(json!({ "metadata": { "name": "a", "ownerReferences": [owner] } }))
    };
    assert!(owned_by("ReplicaSet", true).controller().is_some());
    assert!(owned_by("ReplicaSet", false).controller().is_none());
    assert!(owned_by("Node", true).controller().is_none());
}

fn state_of(state: Value) -> ContainerState {
    let status = json!({ "name": "debug-aaaaaaaaaaaa", "state": state });
    pod(json!({
        "metadata": { "name": "a" }, "status": { "ephemeralContainerStatuses": [status] },
    }))
    .container_state("debug-aaaaaaaaaaaa")
}

#[test]
fn a_state_is_read_as_the_kubelet_wrote_it() {
    assert_eq!(
        state_of(json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } })),
        ContainerState::Running {
            started_at: Some("2026-01-01T00:00:00Z".to_owned())
        }
    );
    assert_eq!(state_of(json!({})), ContainerState::Unknown);
    assert_eq!(state_of(Value::Null), ContainerState::Unknown);
    let nobody = pod(json!({ "metadata": { "name": "a" } }));
    assert_eq!(nobody.container_state("x"), ContainerState::Unknown);
}

#[test]
fn qk43_a_configuration_error_fails_at_once_with_the_kubelets_words() {
    let message = "container has runAsNonRoot and image will run as root";
    let state = state_of(json!({
        "waiting": { "reason": "CreateContainerConfigError", "message": message },
    }));
    let words = format!("CreateContainerConfigError: {message}");
    assert_eq!(start_failure(&state), Some(words));
}

#[test]
fn what_may_still_start_is_waited_for_and_what_cannot_is_not() {
    let waiting = |reason: &str| {
        start_failure(&state_of(json!({ "waiting": { "reason": reason } }))).is_some()
    };
    for hopeless in [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "StartError",
        "ErrImageNeverPull",
    ] {
        assert!(waiting(hopeless), "{hopeless}");
    }
    for hopeful in ["ContainerCreating", "PodInitializing", ""] {
        assert!(!waiting(hopeful), "{hopeful}");
    }
    assert_eq!(start_failure(&state_of(json!({ "running": {} }))), None);
    assert_eq!(start_failure(&ContainerState::Unknown), None);
    let over = state_of(json!({ "terminated": { "exitCode": 128, "reason": "StartError" } }));
    assert_eq!(
        start_failure(&over),
        Some("StartError (exit code 128)".to_owned())
    );
}

#[test]
fn a_pod_that_no_node_takes_says_why() {
    let pod = pod(json!({
        "metadata": { "name": "a" },
        "status": { "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available" }] },
    }));
    assert_eq!(
        pod.unschedulable().as_deref(),
        Some("Unschedulable: 0/3 nodes are available")
    );
}

proptest! {
    #[test]
    fn the_kubelets_words_are_bounded_and_printable(message in "\\PC{0,1200}|.{0,1200}\\x1b\\[2J.{0,9}") {
        let state = state_of(json!({ "waiting": { "reason": "ErrImagePull", "message": message } }));
        let words = start_failure(&state).expect("a failure");
        prop_assert!(words.chars().count() <= 2 * 501 + 2);
        prop_assert!(!words.chars().any(char::is_control));
    }

    #[test]
    fn reading_never_panics(value in super::arbitrary::pod()) {
        if let Ok(pod) = PodFacts::read(&value) {
            let _ = (pod.is_ready(), pod.controller(), pod.unschedulable());
            for container in pod.app_containers() {
                let _ = start_failure(&pod.container_state(&container.name));
            }
        }
    }
}
