//! What happens beside a session while it opens: an end, a pod that goes, a cluster that goes, and
//! answers that come late (C-10, C-10a).

use crate::opening::{CONTAINER, GRANT, has_debug_container, on};
use crate::stand::{Plan, Stand, request_for};
use breakglass_tests::sidecar::call;
use serde_json::Value;
use standin::{Fault, RequestFault, StartFault};
use std::time::Duration;

/// Posts in the background and waits until the session has its row.
async fn opening(stand: &Stand, pod: &str) -> (String, Posting) {
    opening_with(stand, request_for(pod)).await
}

/// The answer to a request that is under way.
pub(crate) type Posting = tokio::task::JoinHandle<(u16, Value)>;

pub(crate) async fn opening_with(stand: &Stand, body: Value) -> (String, Posting) {
    let before = stand.rows().await.len();
    let socket = stand.socket();
    let posting = tokio::spawn(async move {
        let caller = crate::stand::caller(crate::stand::ALICE, "shop");
        let posted = call(&socket, "POST", "/v1/sessions", Some(&caller), Some(&body)).await;
        posted.expect("an answer")
    });
    let deadline = tokio::time::Instant::now() + crate::stand::SOON;
    loop {
        let rows = stand.rows().await;
        if rows.len() > before {
            let id = rows[before]["id"].as_str().expect("an id").to_owned();
            return (id, posting);
        }
        assert!(tokio::time::Instant::now() < deadline, "no row");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn until_requested(stand: &Stand, verb: &str, part: &str) {
    stand
        .until(&format!("{verb} {part}"), || {
            stand
                .standin
                .requests()
                .iter()
                .any(|r| r.verb == verb && r.path.contains(part))
        })
        .await;
}

#[tokio::test]
async fn an_end_that_arrives_while_the_container_starts_leaves_nothing() {
    let stand = Plan::new().start().await;
    stand.faults().next_start(StartFault::Slow {
        milliseconds: 600_000,
    });
    let (pod, _) = stand.ready_pod();
    let (id, posting) = opening(&stand, &pod).await;
    until_requested(&stand, "patch", "/ephemeralcontainers").await;
    let (status, ended) = stand.end(&id).await;
    assert_eq!(
        (status, &ended["endReason"]),
        (200, &"ended by user".into()),
        "{ended}"
    );
    let (status, body) = posting.await.expect("an answer");
    assert_eq!(status, 409, "{body}");
    stand.ended(&id).await;
    stand.assert_nothing_is_left().await;
    assert!(!stand.pods().iter().any(has_debug_container));
}

#[tokio::test]
async fn an_end_that_arrives_while_the_grant_is_made_leaves_nothing() {
    let stand = Plan::new().start().await;
    stand
        .faults()
        .apply(on(GRANT.0, GRANT.1, RequestFault::PerformThenHang, 1));
    let (pod, uid) = stand.ready_pod();
    let (id, posting) = opening(&stand, &pod).await;
    stand
        .until("the grant", || !stand.grants().is_empty())
        .await;
    let (status, _) = stand.end(&id).await;
    assert_eq!(status, 200);
    stand.faults().release();
    let (status, body) = posting.await.expect("an answer");
    assert!(status == 409 || status == 503, "{status} {body}");
    let row = stand.ended(&id).await;
    assert_eq!(row["end_reason"], "ended by user");
    stand.assert_nothing_is_left().await;
    assert!(stand.has_pod(&uid), "a pod that was not touched stays");
}

#[tokio::test]
async fn a_pod_that_is_replaced_before_the_container_is_added_is_not_touched() {
    let stand = Plan::new().start().await;
    stand
        .faults()
        .apply(on(GRANT.0, GRANT.1, RequestFault::Hang, 1));
    let (pod, uid) = stand.ready_pod();
    let (id, posting) = opening(&stand, &pod).await;
    until_requested(&stand, "create", "/rolebindings").await;
    let replaced = Fault::ReplacePod {
        namespace: "shop".to_owned(),
        name: pod.clone(),
    };
    assert!(stand.faults().apply(replaced));
    stand.faults().release();
    let (status, body) = posting.await.expect("an answer");
    assert_eq!(status, 503, "{body}");
    let row = stand.ended(&id).await;
    let reason = row["end_reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("not found") && reason.contains(&pod),
        "{reason}"
    );
    assert!(!stand.has_pod(&uid));
    let now = stand
        .pods()
        .into_iter()
        .find(|p| p["metadata"]["name"] == pod.as_str());
    assert!(!has_debug_container(&now.expect("the replacement stays")));
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_pod_that_is_deleted_while_its_container_starts_fails_at_once() {
    let stand = Plan::new().start().await;
    stand.faults().next_start(StartFault::Slow {
        milliseconds: 600_000,
    });
    let (pod, _) = stand.ready_pod();
    let (id, posting) = opening(&stand, &pod).await;
    until_requested(&stand, "patch", "/ephemeralcontainers").await;
    let deleted = Fault::DeletePod {
        namespace: "shop".to_owned(),
        name: pod.clone(),
    };
    assert!(stand.faults().apply(deleted));
    let (status, body) = posting.await.expect("an answer");
    assert_eq!(status, 503, "{body}");
    let row = stand.ended(&id).await;
    let reason = row["end_reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("not found") && reason.contains(&pod),
        "{reason}"
    );
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_cluster_that_is_away_before_a_session_stores_nothing() {
    let stand = Plan::new().start().await;
    let body = stand.request();
    stand.faults().apply(Fault::Unreachable { on: true });
    let (status, answer) = stand.post("/v1/sessions", Some(&body)).await;
    assert_eq!(status, 503, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("cluster `demo` cannot be reached"),
        "{answer}"
    );
    assert!(stand.rows().await.is_empty());
    stand.faults().apply(Fault::Clear);
    let open = stand.open().await;
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}

#[tokio::test]
async fn what_an_opening_left_in_a_cluster_that_went_away_is_removed_when_it_is_back() {
    let stand = Plan::new().start().await;
    stand.faults().next_start(StartFault::Slow {
        milliseconds: 600_000,
    });
    let (pod, _) = stand.ready_pod();
    let (id, posting) = opening(&stand, &pod).await;
    // Asked for is not yet done: a pod that was never touched is rightly not recycled.
    stand
        .until("the debug container", || {
            stand.pods().iter().any(has_debug_container)
        })
        .await;
    stand.faults().apply(Fault::Unreachable { on: true });
    let ending = stand.end(&id).await;
    assert_eq!(ending.0, 200, "{}", ending.1);
    assert_eq!(posting.await.expect("an answer").0, 409);
    let row = stand.ended(&id).await;
    let notes = row["cleanup_notes"].as_str().unwrap_or_default();
    assert!(
        notes.contains("pod not recycled") && notes.contains("RoleBinding not deleted"),
        "{notes}"
    );
    assert_eq!(stand.grants().len(), 1);

    stand.faults().apply(Fault::Unreachable { on: false });
    stand.sweep().await;
    let row = stand
        .row_when(&id, "the clean-up", |row| row["cleanup_notes"].is_null())
        .await;
    assert_eq!(row["recycled"], true);
    stand.assert_nothing_is_left().await;
}

/// An opening that is given up while the API server still has one of its requests.
async fn given_up(verb: &str, resource: &str) -> (Stand, String, String) {
    let stand = Plan::new().start().await;
    stand
        .faults()
        .apply(on(verb, resource, RequestFault::Late, 1));
    let (pod, uid) = stand.ready_pod();
    let (status, body) = stand.post("/v1/sessions", Some(&request_for(&pod))).await;
    assert_eq!(status, 503, "{body}");
    let id = body["error"]["session"].as_str().expect("an id").to_owned();
    stand.ended(&id).await;
    stand.assert_nothing_is_left().await;
    (stand, id, uid)
}

/// Sweeps until what was found late is off the record again.
async fn until_nothing_is_on_record(stand: &Stand, landed: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + crate::stand::SOON;
    while !landed() || stand.objects().await > 0 {
        assert!(tokio::time::Instant::now() < deadline, "still on record");
        stand.sweep().await;
    }
}

#[tokio::test]
async fn a_grant_that_lands_after_the_end_does_not_stay() {
    let (stand, _, _) = given_up(GRANT.0, GRANT.1).await;
    let deletes = || {
        let requests = stand.standin.requests();
        let of_grants = |request: &&standin::LoggedRequest| {
            request.verb == "delete" && request.path.contains("/rolebindings/")
        };
        requests.iter().filter(of_grants).count()
    };
    let before = deletes();
    // Only here does the API server do what it was asked for before.
    stand.faults().release();
    stand
        .until("the landing", || !stand.grants().is_empty())
        .await;
    until_nothing_is_on_record(&stand, || deletes() > before).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_debug_container_that_lands_after_the_end_does_not_stay() {
    let (stand, id, uid) = given_up(CONTAINER.0, CONTAINER.1).await;
    assert!(stand.has_pod(&uid), "a pod that was not touched stays");
    stand.faults().release();
    stand
        .until("the landing", || {
            stand.pods().iter().any(has_debug_container)
        })
        .await;
    until_nothing_is_on_record(&stand, || !stand.has_pod(&uid)).await;
    let row = stand.row(&id).await;
    assert_eq!(
        (&row["recycled"], &row["cleanup_notes"]),
        (&Value::Bool(true), &Value::Null)
    );
    stand.assert_nothing_is_left().await;
}
