//! Each fault, as its victim sees it.

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
    BINDINGS, Client, debug_container, first_pod, grant, pod_path, press, read_until, running,
    state_of, until,
};
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use standin::{
    Fault, LIVE_ROLE, Options, RequestFault, RequestMatch, Standin, StartFault, StreamMode,
};
use tokio_tungstenite::tungstenite::Message;

/// Long enough for what must not happen to be seen if it does.
const A_WHILE: Duration = Duration::from_millis(100);

async fn standin() -> Standin {
    Standin::start(Options::default())
        .await
        .expect("a stand-in")
}

fn creating() -> RequestMatch {
    RequestMatch::on("create", "rolebindings")
}

#[tokio::test]
async fn an_answer_on_command_is_given_once_and_nothing_is_done() {
    let standin = standin().await;
    let admin = Client::new(&standin, "admin");
    for (code, reason) in [
        (409, "Conflict"),
        (403, "Forbidden"),
        (500, "InternalError"),
    ] {
        standin
            .faults()
            .answer_once(creating(), code, reason, "on command");
        let (seen, answer) = admin.call("POST", BINDINGS, grant("g", LIVE_ROLE)).await;
        assert_eq!((seen, &answer["reason"]), (code, &json!(reason)));
        assert_eq!(answer["message"], "on command");
    }
    assert!(standin.role_bindings().is_empty());
    assert_eq!(
        admin.call("POST", BINDINGS, grant("g", LIVE_ROLE)).await.0,
        201
    );
}

#[tokio::test]
async fn a_hanging_request_whose_caller_left_is_never_done() {
    let standin = standin().await;
    let admin = Client::new(&standin, "admin");
    standin
        .faults()
        .next_request(creating(), RequestFault::Hang);
    let call = admin.call("POST", BINDINGS, grant("g", LIVE_ROLE));
    assert!(
        tokio::time::timeout(A_WHILE, call).await.is_err(),
        "it was answered"
    );
    // The connection's task may still be closing it; a release then finds nobody waiting.
    tokio::time::sleep(A_WHILE).await;
    standin.faults().release();
    tokio::time::sleep(A_WHILE).await;
    assert!(standin.role_bindings().is_empty());
}

#[tokio::test]
async fn a_late_request_lands_although_its_caller_left() {
    let standin = standin().await;
    let admin = Client::new(&standin, "admin");
    standin
        .faults()
        .next_request(creating(), RequestFault::Late);
    let call = admin.call("POST", BINDINGS, grant("g", LIVE_ROLE));
    assert!(
        tokio::time::timeout(A_WHILE, call).await.is_err(),
        "it was answered"
    );
    assert!(standin.role_bindings().is_empty());
    standin.faults().release();
    until("it lands", || standin.role_bindings().len() == 1).await;
}

#[tokio::test]
async fn an_answer_is_lost_after_the_effect() {
    let standin = standin().await;
    let admin = Client::new(&standin, "admin");
    standin
        .faults()
        .next_request(creating(), RequestFault::PerformThenCut);
    let answer = admin
        .send("POST", BINDINGS, "application/json", grant("a", LIVE_ROLE))
        .await;
    assert!(answer.is_err());
    assert_eq!(standin.role_bindings().len(), 1);
    standin.faults().next_request(creating(), RequestFault::Cut);
    let answer = admin
        .send("POST", BINDINGS, "application/json", grant("b", LIVE_ROLE))
        .await;
    assert!(answer.is_err());
    assert_eq!(standin.role_bindings().len(), 1);
    standin
        .faults()
        .next_request(creating(), RequestFault::PerformThenHang);
    let mut call = std::pin::pin!(admin.call("POST", BINDINGS, grant("c", LIVE_ROLE)));
    assert!(
        tokio::time::timeout(A_WHILE, &mut call).await.is_err(),
        "it was answered"
    );
    assert_eq!(standin.role_bindings().len(), 2);
    standin.faults().release();
    assert_eq!(call.await.0, 201);
}

#[tokio::test]
async fn a_half_open_stream_says_nothing_and_flows_again() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    press(&mut shell, "one").await;
    read_until(&mut shell, "one").await;
    standin.faults().streams(StreamMode::HalfOpen);
    press(&mut shell, "two").await;
    shell
        .send(Message::Ping(b"x".as_slice().into()))
        .await
        .expect("a stream");
    assert!(
        tokio::time::timeout(A_WHILE, shell.next()).await.is_err(),
        "something came"
    );
    standin.faults().streams(StreamMode::Flowing);
    read_until(&mut shell, "two").await;
    standin.faults().streams(StreamMode::Cut);
    while let Some(Ok(message)) = shell.next().await {
        assert!(!message.is_close(), "a cut says no goodbye");
    }
}

#[tokio::test]
async fn a_stream_without_pongs_still_flows() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    standin.faults().apply(Fault::Streams {
        mode: StreamMode::NoPong,
        pod: None,
        future: 1,
    });
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    shell
        .send(Message::Ping(b"x".as_slice().into()))
        .await
        .expect("a stream");
    press(&mut shell, "after").await;
    let mut seen = Vec::new();
    while let Some(Ok(message)) = shell.next().await {
        assert!(!message.is_pong());
        seen.extend_from_slice(&message.into_data());
        if seen.ends_with(b"after") {
            return;
        }
    }
    panic!("the stream ended");
}

#[tokio::test]
async fn containers_fail_to_start_as_the_kubelet_reports_it() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    let admin = Client::new(&standin, "admin");
    let message = || "not found".to_owned();
    for (name, fault, reason) in [
        (
            "debug-a",
            StartFault::ImagePull { message: message() },
            "ImagePullBackOff",
        ),
        (
            "debug-b",
            StartFault::ConfigError { message: message() },
            "CreateContainerConfigError",
        ),
        ("debug-c", StartFault::Never, "PodInitializing"),
    ] {
        standin.faults().next_start(fault);
        let body = debug_container(name, &["standin-echo"]);
        let (code, _) = admin
            .call("PATCH", &pod_path(&pod, "/ephemeralcontainers"), body)
            .await;
        assert_eq!(code, 200);
        until(reason, || {
            state_of(&standin, &pod, name)["waiting"]["reason"] == reason
        })
        .await;
        assert_eq!(
            admin.attach(&pod, name).await.expect_err("not running").0,
            500
        );
    }
    let slow = StartFault::Slow { milliseconds: 50 };
    standin.faults().next_start(slow);
    running(&standin, &pod, "debug-d", &["standin-echo"]).await;
}

#[tokio::test]
async fn a_watch_sees_changes_ends_and_expires() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    let admin = Client::new(&standin, "admin");
    let path =
        format!("/api/v1/namespaces/shop/pods?watch=true&fieldSelector=metadata.name%3D{pod}");
    let mut watch = admin
        .send("GET", &path, "", Value::Null)
        .await
        .expect("a watch");
    let mut seen = String::new();
    while !seen.contains("\"ADDED\"") {
        let frame = watch
            .body_mut()
            .frame()
            .await
            .expect("a line")
            .expect("a line");
        seen.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
    }
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    while !seen.contains("\"MODIFIED\"") || !seen.contains("startedAt") {
        let frame = watch
            .body_mut()
            .frame()
            .await
            .expect("a line")
            .expect("a line");
        seen.push_str(&String::from_utf8_lossy(frame.data_ref().expect("data")));
    }
    standin.faults().apply(Fault::Watches {
        expired: true,
        future: 1,
    });
    let rest = watch
        .into_body()
        .collect()
        .await
        .expect("an end")
        .to_bytes();
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(rest.contains("\"ERROR\"") && rest.contains("410"), "{rest}");
    let next = admin
        .send("GET", &path, "", Value::Null)
        .await
        .expect("a watch");
    let all = next.into_body().collect().await.expect("an end").to_bytes();
    assert!(
        String::from_utf8_lossy(&all).contains("too old"),
        "the next one too"
    );
    let path = format!("{path}&timeoutSeconds=0&resourceVersion=999999");
    let short = admin
        .send("GET", &path, "", Value::Null)
        .await
        .expect("a watch");
    assert!(
        short
            .into_body()
            .collect()
            .await
            .expect("an end")
            .to_bytes()
            .is_empty()
    );
}

#[tokio::test]
async fn pods_are_replaced_deleted_evicted_and_lost() {
    let standin = standin().await;
    let (pod, uid) = first_pod(&standin);
    let named = |name: &str| (String::from("shop"), name.to_owned());
    let (namespace, name) = named(&pod);
    assert!(
        standin
            .faults()
            .apply(Fault::ReplacePod { namespace, name })
    );
    let again = standin
        .pods("shop")
        .into_iter()
        .find(|one| one["metadata"]["name"] == *pod);
    assert_ne!(again.expect("the pod")["metadata"]["uid"], uid);

    let (namespace, name) = named(&pod);
    assert!(standin.faults().apply(Fault::DeletePod { namespace, name }));
    until("a new pod runs", || {
        let pods = standin.pods("shop");
        pods.len() == 2
            && pods
                .iter()
                .all(|one| one["status"]["phase"] == "Running" && one["metadata"]["name"] != *pod)
    })
    .await;
    let (namespace, name) = named(&pod);
    assert!(
        !standin.faults().apply(Fault::DeletePod { namespace, name }),
        "it is gone"
    );

    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["/bin/sh"]).await;
    let (namespace, name) = named(&pod);
    assert!(standin.faults().apply(Fault::LoseNode { namespace, name }));
    let (code, _) = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect_err("a lost node");
    assert_eq!(code, 500);
    let (namespace, name) = named(&pod);
    assert!(standin.faults().apply(Fault::EvictPod { namespace, name }));
    until("its processes are dead", || standin.processes().is_empty()).await;
}

#[tokio::test]
async fn an_unreachable_cluster_comes_back() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    let admin = Client::new(&standin, "admin");
    let mut shell = admin.attach(&pod, "debug-a").await.expect("a stream");
    standin.faults().apply(Fault::Unreachable { on: true });
    while let Some(Ok(_)) = shell.next().await {}
    standin.faults().apply(Fault::Clear);
    assert_eq!(
        admin.call("GET", &pod_path(&pod, ""), Value::Null).await.0,
        200
    );
    assert!(
        admin.attach(&pod, "debug-a").await.is_ok(),
        "the container went on"
    );
}

#[tokio::test]
async fn the_controls_are_served_to_the_admin_alone() {
    let standin = standin().await;
    let admin = Client::new(&standin, "admin");
    let fault = json!({ "kind": "request", "matching": { "verb": "get", "resource": "pods" },
        "fault": { "do": "answer", "code": 500, "reason": "InternalError", "message": "x" } });
    let sidecar = Client::new(&standin, "breakglass");
    assert_eq!(
        sidecar
            .call("POST", "/standin/faults", fault.clone())
            .await
            .0,
        403
    );
    assert_eq!(
        admin
            .call("POST", "/standin/faults", json!({ "kind": "rain" }))
            .await
            .0,
        400
    );
    assert_eq!(admin.call("POST", "/standin/faults", fault).await.0, 200);
    let (pod, _) = first_pod(&standin);
    assert_eq!(
        sidecar
            .call("GET", &pod_path(&pod, ""), Value::Null)
            .await
            .0,
        500
    );
    let (_, log) = admin.call("GET", "/standin/requests", Value::Null).await;
    let entry = &log["requests"].as_array().expect("a list")[3];
    assert_eq!(entry["user"], "system:serviceaccount:tower:breakglass");
    assert_eq!(
        (&entry["verb"], &entry["path"]),
        (&json!("get"), &json!(pod_path(&pod, "")))
    );
    let (_, objects) = admin
        .call(
            "GET",
            "/standin/objects?labelSelector=app%3Dshop",
            Value::Null,
        )
        .await;
    assert_eq!(objects["objects"].as_array().map(Vec::len), Some(2));
}
