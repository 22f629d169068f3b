use super::*;
use serde_json::json;

fn pod(name: &str, controller: &str, ready: bool) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "labels": { "app": "web", "tier": "front" },
            "ownerReferences": [
                { "kind": "Other", "name": "x", "uid": "other" },
                { "kind": "ReplicaSet", "name": "rs", "uid": controller, "controller": true },
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        },
    })
}

fn budget(selector: Value, allowed: i64) -> Value {
    json!({ "spec": { "selector": selector }, "status": { "disruptionsAllowed": allowed } })
}

#[track_caller]
fn covers(selector: Value, expected: bool) {
    let text = selector.to_string();
    let allowed = allowed_by(&budget(selector, 3), &pod("web-0", "rs-1", true));
    assert_eq!(allowed.is_some(), expected, "{text}");
}

#[test]
fn a_budget_covers_the_pods_that_its_selector_matches() {
    covers(json!({ "matchLabels": { "app": "web" } }), true);
    covers(
        json!({ "matchLabels": { "app": "web", "tier": "back" } }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web"] }] }),
        true,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["db"] }] }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "In" }] }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "no", "operator": "In", "values": ["x"] }] }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "no", "operator": "NotIn", "values": ["x"] }] }),
        true,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["web"] }] }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }),
        true,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "no", "operator": "Exists" }] }),
        false,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "no", "operator": "DoesNotExist" }] }),
        true,
    );
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] }),
        false,
    );
    let both = json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["back"] }],
    });
    covers(both, false);
}

#[test]
fn an_empty_selector_covers_every_pod_and_none_covers_no_pod() {
    covers(json!({}), true);
    covers(Value::Null, false);
}

#[test]
fn what_cannot_be_read_counts_as_covering_and_as_none_allowed() {
    covers(
        json!({ "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["w"] }] }),
        true,
    );
    covers(json!({ "matchLabels": "web" }), true);
    let without_status = json!({ "spec": { "selector": {} } });
    assert_eq!(
        allowed_by(&without_status, &pod("web-0", "rs-1", true)),
        Some(0)
    );
    assert_eq!(
        allowed_by(&budget(json!({}), -1), &pod("web-0", "rs-1", true)),
        Some(0)
    );
}

#[test]
fn the_strictest_budget_counts() {
    assert_eq!(fewer(None, None), None);
    assert_eq!(fewer(Some(2), None), Some(2));
    assert_eq!(fewer(Some(2), Some(0)), Some(0));
}

#[test]
fn only_other_ready_pods_of_the_same_controller_count() {
    let own = pod("web-0", "rs-1", true);
    assert!(is_ready_sibling(&pod("web-1", "rs-1", true), &own));
    assert!(!is_ready_sibling(&own, &own), "itself");
    assert!(
        !is_ready_sibling(&pod("web-1", "rs-1", false), &own),
        "not ready"
    );
    assert!(
        !is_ready_sibling(&pod("web-1", "rs-2", true), &own),
        "another controller"
    );
    let mut leaving = pod("web-1", "rs-1", true);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(!is_ready_sibling(&leaving, &own), "on its way out");
    let orphan = json!({ "metadata": { "name": "a", "uid": "a" } });
    assert!(!is_ready_sibling(&orphan, &orphan), "no controller");
}
