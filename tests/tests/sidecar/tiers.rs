//! Which tier a session has, and whether the cluster's fence would agree, from the namespace's
//! labels and the release plan's word to the row (S-9, S-9a).

use crate::stand::{ALICE, Plan, Stand, request_for};
use breakglass_tests::sidecar::call;
use serde_json::{Value, json};

/// A request on a cluster, with what the shim says the release plan declares.
async fn ask(stand: &Stand, cluster: &str, declared: Option<&str>) -> (u16, Value) {
    let caller = json!({
        "version": 1, "user": ALICE, "app": "shop", "allowed": ["request"],
        "declaredTier": declared,
    });
    let mut body = request_for(&stand.ready_pod().0);
    body["cluster"] = cluster.into();
    let socket = stand.socket();
    let asked = call(&socket, "POST", "/v1/sessions", Some(&caller), Some(&body));
    asked.await.expect("an answer")
}

/// It opens, as Ground.
async fn opens(stand: &Stand, cluster: &str, declared: Option<&str>, what: &str) {
    let (status, answer) = ask(stand, cluster, declared).await;
    assert_eq!(status, 201, "{what}: {answer}");
    assert_eq!(
        (&answer["tier"], &answer["cluster"]),
        (&"Ground".into(), &cluster.into()),
        "{what}"
    );
    let id = answer["id"].as_str().expect("an id");
    stand.end(id).await;
    stand.ended(id).await;
}

#[tokio::test]
async fn s_9_a_preview_then_the_release_plan_then_the_cluster_decides() {
    let stand = Plan::new().start().await;
    let preview = |value| {
        stand
            .standin
            .set_namespace_label("shop", "hangar.io/ephemeral-env", value);
    };
    opens(&stand, "demo", None, "a Ground cluster").await;
    let flight = |answer: &Value| answer.to_string().contains("is Flight");
    for (cluster, declared, what) in [
        ("prod", None, "a cluster that nobody listed"),
        ("prod", Some("Flight"), "declared as its cluster is"),
        ("demo", Some("Flight"), "declared against its cluster"),
    ] {
        let (status, answer) = ask(&stand, cluster, declared).await;
        assert!(status == 501 && flight(&answer), "{what}: {answer}");
    }
    preview(Some("yes"));
    let (status, answer) = ask(&stand, "prod", None).await;
    assert!(status == 501 && flight(&answer), "not a preview: {answer}");
    preview(Some("true"));
    opens(&stand, "prod", None, "a preview").await;
    opens(&stand, "prod", Some("Flight"), "whatever is declared").await;
    preview(None);
    assert!(stand.rows().await.iter().all(|row| row["tier"] == "Ground"));
}

#[tokio::test]
async fn s_9a_ground_on_a_flight_cluster_needs_the_namespaces_own_label() {
    let stand = Plan::new().start().await;
    let label = |value| {
        stand
            .standin
            .set_namespace_label("shop", "hangar.io/tier", value);
    };
    for value in [None, Some("ground"), Some("Flight")] {
        label(value);
        let (status, answer) = ask(&stand, "prod", Some("Ground")).await;
        assert_eq!(status, 409, "{value:?}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        for part in [
            "`hangar.io/tier: Ground`",
            "hangar.io/ephemeral-env",
            "`shop`",
        ] {
            assert!(message.contains(part), "{value:?}: {message}");
        }
    }
    assert!(stand.rows().await.is_empty());
    label(Some("Ground"));
    opens(&stand, "prod", Some("Ground"), "labelled by the platform").await;
    let (status, answer) = ask(&stand, "prod", None).await;
    assert_eq!(status, 501, "the label declares nothing: {answer}");
}
