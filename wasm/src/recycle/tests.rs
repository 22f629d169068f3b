use super::*;
use serde_json::json;

const ID: &str = "k3v9x0a1b2c3";

/// A session on Ground that touched a ready pod of three.
fn facts() -> RecycleFacts {
    RecycleFacts {
        id: SessionId::parse(ID).expect("an id"),
        session_pod_uid: "uid-1".to_owned(),
        pod: Some(LivePod {
            uid: "uid-1".to_owned(),
            has_debug_container: true,
            process_access: None,
            ready: true,
            terminating: false,
            controller: Some(Controller {
                kind: "ReplicaSet".to_owned(),
                name: "shop-7d9f".to_owned(),
                other_ready_pods: Some(2),
            }),
        }),
        tier: Tier::Ground,
        recycle_last_pod: false,
        waived: None,
        other_open_sessions: 0,
        disruptions_allowed: None,
        waited_long_enough: false,
    }
}

fn given(change: impl FnOnce(&mut RecycleFacts)) -> RecycleFacts {
    let mut facts = facts();
    change(&mut facts);
    facts
}

fn pod(facts: &mut RecycleFacts) -> &mut LivePod {
    facts.pod.as_mut().expect("a pod")
}

fn others_ready(facts: &mut RecycleFacts, count: Option<usize>) {
    pod(facts)
        .controller
        .as_mut()
        .expect("a controller")
        .other_ready_pods = count;
}

fn delete() -> RecycleDecision {
    RecycleDecision::Delete {
        uid: "uid-1".to_owned(),
    }
}

fn leave() -> RecycleDecision {
    RecycleDecision::Leave { note: None }
}

fn skip(note: &str, notify: bool) -> RecycleDecision {
    RecycleDecision::Skip {
        note: note.to_owned(),
        notify,
    }
}

const LAST: &str = "pod not recycled: it is the last ready pod of ReplicaSet `shop-7d9f`";
const BUDGET: &str = "pod not recycled: its PodDisruptionBudget allows no disruption";

#[track_caller]
fn check(facts: &RecycleFacts, expected: RecycleDecision) {
    assert_eq!(recycle(facts), expected, "{facts:?}");
}

#[test]
fn a_touched_pod_is_deleted_by_its_uid() {
    check(&facts(), delete());
}

#[test]
fn a_pod_that_is_gone_is_left() {
    check(&given(|f| f.pod = None), leave());
}

#[test]
fn qc15_a_replacement_of_the_same_name_is_never_touched() {
    let replaced = given(|f| {
        pod(f).uid = "uid-2".to_owned();
        pod(f).process_access = Some(ID.to_owned());
        f.recycle_last_pod = true;
    });
    check(&replaced, leave());
    assert!(!removes_process_access(&replaced, &leave()));
}

#[test]
fn a_pod_without_a_debug_container_is_left() {
    check(&given(|f| pod(f).has_debug_container = false), leave());
}

#[test]
fn a_waived_pod_is_left_and_says_why() {
    let note = Some("pod kept by the approver: evidence".to_owned());
    check(
        &given(|f| f.waived = Some("evidence".to_owned())),
        RecycleDecision::Leave { note },
    );
}

#[test]
fn the_last_ready_pod_is_skipped_and_told() {
    check(&given(|f| others_ready(f, Some(0))), skip(LAST, true));
}

#[test]
fn the_last_ready_pod_is_deleted_on_ground_if_asked() {
    let asked = given(|f| {
        others_ready(f, Some(0));
        f.recycle_last_pod = true;
    });
    check(&asked, delete());
}

#[test]
fn the_last_ready_pod_is_skipped_on_flight_whatever_was_asked() {
    let flight = given(|f| {
        others_ready(f, Some(0));
        f.recycle_last_pod = true;
        f.tier = Tier::Flight;
    });
    check(&flight, skip(LAST, true));
}

#[test]
fn ready_pods_that_nobody_could_count_are_none() {
    let note = "pod not recycled: the ready pods of ReplicaSet `shop-7d9f` could not be counted";
    check(&given(|f| others_ready(f, None)), skip(note, true));
}

#[test]
fn a_pod_that_is_not_ready_is_not_the_last_ready_one() {
    let broken = given(|f| {
        others_ready(f, Some(0));
        pod(f).ready = false;
    });
    check(&broken, delete());
}

#[test]
fn a_pod_without_a_controller_is_skipped_in_silence() {
    let note = "pod not recycled: no controller would replace it";
    let lone = given(|f| {
        pod(f).controller = None;
        f.recycle_last_pod = true;
    });
    check(&lone, skip(note, false));
}

#[test]
fn a_budget_that_allows_none_is_waited_for_within_the_bound() {
    check(
        &given(|f| f.disruptions_allowed = Some(0)),
        RecycleDecision::WaitForDisruptionBudget,
    );
    check(&given(|f| f.disruptions_allowed = Some(1)), delete());
}

#[test]
fn after_the_bound_a_budget_counts_like_the_last_ready_pod() {
    let late = |tier, asked| {
        given(|f| {
            f.disruptions_allowed = Some(0);
            f.waited_long_enough = true;
            f.recycle_last_pod = asked;
            f.tier = tier;
        })
    };
    check(&late(Tier::Ground, false), skip(BUDGET, true));
    check(&late(Tier::Ground, true), delete());
    check(&late(Tier::Flight, true), skip(BUDGET, true));
}

#[test]
fn another_open_session_leaves_the_pod_to_the_last_of_them() {
    let shared = given(|f| {
        f.other_open_sessions = 1;
        others_ready(f, Some(0));
    });
    check(&shared, leave());
}

#[test]
fn a_pod_on_its_way_out_is_only_waited_for() {
    let going = given(|f| {
        pod(f).terminating = true;
        pod(f).ready = false;
        pod(f).controller = None;
    });
    check(&going, delete());
}

#[test]
fn a_pod_that_is_kept_loses_the_sessions_own_annotation_and_no_other() {
    let of = |id: &str| given(|f| pod(f).process_access = Some(id.to_owned()));
    let kept = [leave(), skip(LAST, true)];
    for decision in &kept {
        assert!(removes_process_access(&of(ID), decision));
        assert!(!removes_process_access(&of("another00000"), decision));
        assert!(!removes_process_access(&facts(), decision));
    }
    assert!(!removes_process_access(&of(ID), &delete()));
    assert!(!removes_process_access(
        &of(ID),
        &RecycleDecision::WaitForDisruptionBudget
    ));
}

#[test]
fn a_pod_is_read_as_the_cluster_has_it() {
    let pod = PodFacts::read(&json!({
        "metadata": {
            "name": "shop", "uid": "uid-1",
            "annotations": { "hangar.io/breakglass-process-access": ID },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "shop-7d9f", "uid": "r", "controller": true }],
        },
        "spec": { "ephemeralContainers": [{ "name": "debug-k3v9x0a1b2c3" }] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    }))
    .expect("a pod");
    let mut expected = facts().pod.expect("a pod");
    expected.process_access = Some(ID.to_owned());
    assert_eq!(LivePod::of(&pod, Some(2)), expected);
}
