//! Who may do what: without the grant each step fails, with it each step passes (C-2a).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::time::Duration;

use common::{
    BINDINGS, Client, PATIENCE, debug_container, first_pod, grant, pod_path, press, read_until,
    running, until,
};
use serde_json::{Value, json};
use standin::{COPY_ROLE, LIVE_ROLE, Options, Standin};

async fn standin() -> Standin {
    Standin::start(Options::default())
        .await
        .expect("a stand-in")
}

/// Repeats a call until the grant applies.
async fn call_when_granted(
    client: &Client<'_>,
    verb: &str,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let retry = async {
        loop {
            let (code, answer) = client.call(verb, path, body.clone()).await;
            if code != 403 {
                return (code, answer);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, retry)
        .await
        .expect("the grant to apply")
}

#[tokio::test]
async fn without_the_grant_each_step_fails_and_with_it_each_passes() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    let sidecar = Client::new(&standin, "breakglass");
    let ephemeral = pod_path(&pod, "/ephemeralcontainers");
    let note = json!({ "metadata": { "annotations": { "hangar.io/x": "1" } } });
    let list = "/api/v1/namespaces/shop/pods";
    assert_eq!(
        sidecar
            .call("GET", &pod_path(&pod, ""), Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        sidecar
            .call("GET", "/api/v1/namespaces/shop", Value::Null)
            .await
            .0,
        200
    );
    let (code, answer) = sidecar
        .call(
            "PATCH",
            &ephemeral,
            debug_container("debug-a", &["standin-echo"]),
        )
        .await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        format!(
            "pods \"{pod}\" is forbidden: User \"system:serviceaccount:tower:breakglass\" cannot \
             patch resource \"pods/ephemeralcontainers\" in API group \"\" in the namespace \
             \"shop\""
        )
    );
    assert_eq!(
        sidecar
            .call("PATCH", &pod_path(&pod, ""), note.clone())
            .await
            .0,
        403
    );
    assert_eq!(sidecar.call("GET", list, Value::Null).await.0, 403);
    assert_eq!(
        sidecar
            .call("DELETE", &pod_path(&pod, ""), Value::Null)
            .await
            .0,
        403
    );
    assert_eq!(
        sidecar.attach(&pod, "app").await.expect_err("no grant").0,
        403
    );

    let (code, binding) = sidecar.call("POST", BINDINGS, grant("g", LIVE_ROLE)).await;
    assert_eq!(code, 201, "{binding}");
    assert_eq!(
        call_when_granted(&sidecar, "PATCH", &pod_path(&pod, ""), note)
            .await
            .0,
        200
    );
    assert_eq!(sidecar.call("GET", list, Value::Null).await.0, 200);
    let container = debug_container("debug-a", &["standin-echo"]);
    assert_eq!(sidecar.call("PATCH", &ephemeral, container).await.0, 200);
    until("it runs", || {
        common::state_of(&standin, &pod, "debug-a")["running"].is_object()
    })
    .await;
    let mut shell = sidecar.attach(&pod, "debug-a").await.expect("a stream");

    let precondition = |uid: &Value| json!({ "preconditions": { "uid": uid } });
    let path = format!("{BINDINGS}/g");
    let (code, _) = sidecar
        .call("DELETE", &path, precondition(&json!("another")))
        .await;
    assert_eq!(code, 409);
    let uid = &binding["metadata"]["uid"];
    assert_eq!(
        sidecar.call("DELETE", &path, precondition(uid)).await.0,
        200
    );
    assert_eq!(
        sidecar.call("DELETE", &path, precondition(uid)).await.0,
        404
    );
    assert_eq!(sidecar.call("GET", list, Value::Null).await.0, 403);
    // What is open stays open.
    press(&mut shell, "still here").await;
    read_until(&mut shell, "still here").await;
}

#[tokio::test]
async fn only_the_two_debug_roles_can_be_bound() {
    let standin = standin().await;
    let sidecar = Client::new(&standin, "breakglass");
    let (code, answer) = sidecar
        .call("POST", BINDINGS, grant("g", "cluster-admin"))
        .await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")));
    assert!(standin.role_bindings().is_empty());
    assert_eq!(
        sidecar
            .call("POST", BINDINGS, grant("g", COPY_ROLE))
            .await
            .0,
        201
    );
    let (code, answer) = sidecar.call("POST", BINDINGS, grant("g", COPY_ROLE)).await;
    assert_eq!((code, &answer["reason"]), (409, &json!("AlreadyExists")));
    let all = "/apis/rbac.authorization.k8s.io/v1/rolebindings?labelSelector=\
               hangar.io%2Fbreakglass-session%3Dg";
    let (_, found) = sidecar.call("GET", all, Value::Null).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(standin.objects("hangar.io/breakglass-session=g").len(), 1);
}

#[tokio::test]
async fn a_copy_pod_is_made_runs_its_debug_container_and_goes() {
    let standin = standin().await;
    let sidecar = Client::new(&standin, "breakglass");
    sidecar.call("POST", BINDINGS, grant("g", COPY_ROLE)).await;
    let pod = json!({
        "metadata": { "name": "shop-copy" },
        "spec": { "restartPolicy": "Never", "containers": [
            { "name": "app", "image": "ghcr.io/hangar/shop:1" },
            { "name": "debug", "image": standin::DEBUG_IMAGE, "command": ["standin-echo"],
              "stdin": true, "tty": true },
        ] },
    });
    let path = "/api/v1/namespaces/shop/pods";
    assert_eq!(call_when_granted(&sidecar, "POST", path, pod).await.0, 201);
    until("it runs", || {
        standin.pods("shop").iter().any(|pod| {
            pod["metadata"]["name"] == "shop-copy" && pod["status"]["phase"] == "Running"
        })
    })
    .await;
    let mut shell = sidecar
        .attach("shop-copy", "debug")
        .await
        .expect("a stream");
    press(&mut shell, "hello").await;
    read_until(&mut shell, "hello").await;
    let body = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(
        sidecar
            .call("DELETE", &pod_path("shop-copy", ""), body)
            .await
            .0,
        200
    );
    let (code, _) = sidecar
        .call("GET", &pod_path("shop-copy", ""), Value::Null)
        .await;
    assert_eq!(code, 404);
    assert_eq!(standin.pods("shop").len(), 2, "nobody replaces a copy");
}

#[tokio::test]
async fn a_minted_token_is_for_its_audience_and_at_least_ten_minutes() {
    let home = standin().await;
    let far = standin().await;
    far.trust_tokens_of(&home, "far");
    let backend = Client::new(&home, "backend");
    let path = "/api/v1/namespaces/tower/serviceaccounts/breakglass/token";
    let ask =
        |seconds: i64| json!({ "spec": { "audiences": ["far"], "expirationSeconds": seconds } });
    assert_eq!(backend.call("POST", path, ask(599)).await.0, 422);
    let (code, answer) = backend.call("POST", path, ask(600)).await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().expect("a token");
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let here = Client::with_token(&home, token);
    assert_eq!(
        here.call("POST", review, json!({})).await.0,
        401,
        "for another audience"
    );
    let there = Client::with_token(&far, token);
    let (code, answer) = there.call("POST", review, json!({})).await;
    assert_eq!(code, 201);
    let user = &answer["status"]["userInfo"]["username"];
    assert_eq!(user, "system:serviceaccount:tower:breakglass");
    assert_eq!(
        there
            .call("GET", "/api/v1/namespaces/shop", Value::Null)
            .await
            .0,
        200
    );
    home.expire_tokens();
    assert_eq!(there.call("POST", review, json!({})).await.0, 401);
    assert_eq!(
        backend
            .call("GET", "/api/v1/namespaces/shop", Value::Null)
            .await
            .0,
        403
    );
    let last = far.requests().pop().expect("a request");
    assert_eq!((last.verb.as_str(), last.user.as_str()), ("create", ""));
}

#[tokio::test]
async fn before_1_35_attach_needs_get_alone() {
    let rules = || vec![standin::Rule::new("", &["pods/attach"], &["get"])];
    for (minor, allowed) in [(34, true), (35, false)] {
        let options = Options::default()
            .minor_version(minor)
            .account("old", "old", rules());
        let standin = Standin::start(options).await.expect("a stand-in");
        let (pod, _) = first_pod(&standin);
        running(&standin, &pod, "debug-a", &["standin-echo"]).await;
        let attached = Client::new(&standin, "old").attach(&pod, "debug-a").await;
        assert_eq!(attached.is_ok(), allowed, "1.{minor}");
    }
}
