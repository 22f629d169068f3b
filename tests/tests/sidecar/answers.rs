//! What the sidecar's own answers hold (S-10, S-12, S-14a), and what a recording says of a target
//! that changed (C-4).

use crate::meanwhile::until_requested;
use crate::opening::{CONTAINER, on};
use crate::requests::raw;
use crate::stand::{ALICE, Plan, SOON, Stand, caller};
use breakglass::http::caller::encode;
use breakglass_tests::processes::until;
use breakglass_tests::sidecar::call;
use serde_json::{Value, json};
use standin::{Fault, RequestFault, RequestMatch, StartFault};

/// What goes with every answer about sessions, for a caller who may do this.
async fn about(stand: &Stand, path: &str, allowed: &[&str], reviewer: bool) -> Value {
    let caller = json!({
        "version": 1, "user": ALICE, "app": "shop", "allowed": allowed, "reviewer": reviewer,
        "declaredTier": "Ground",
    });
    let asked = call(&stand.socket(), "GET", path, Some(&caller), None).await;
    let (status, answer) = asked.expect("an answer");
    assert_eq!(status, 200, "{answer}");
    answer
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn s_10_s_12_a_list_and_a_session_say_who_asks_what_they_may_and_what_the_form_needs() {
    let plan = Plan::new().change(|config| {
        config.recordings.retention_days = 400;
        config.limits.per_user = 2;
    });
    let stand = plan.start().await;
    let open = stand.open().await;
    let (list, one) = (
        "/v1/sessions?app=shop&env=dev".to_owned(),
        format!("/v1/sessions/{}", open.id),
    );
    let row = stand.row(&open.id).await;
    for (allowed, reviewer, may) in [
        (&["request"][..], false, [false, false, false]),
        (&["request", "self"][..], false, [true, false, false]),
        (&["request", "approve"][..], false, [false, true, false]),
        (&["request"][..], true, [false, true, false]),
        (&["request", "terminate"][..], false, [false, false, true]),
    ] {
        for path in [&list, &one] {
            let answer = about(&stand, path, allowed, reviewer).await;
            let said = ["canBreakGlass", "canReview", "canTerminate"].map(|can| &answer[can]);
            assert_eq!(
                said,
                may.map(Value::Bool).each_ref(),
                "{path} {allowed:?} {answer}"
            );
            assert_eq!(answer["user"], ALICE);
            assert_eq!(answer["recordingsConfigured"], true);
            assert_eq!(answer["recordingRetentionDays"], 400);
        }
    }
    let listed = about(&stand, &list, &["request"], false).await;
    let shown = about(&stand, &one, &["request"], false).await;
    let with_every_answer = [
        "canBreakGlass",
        "canReview",
        "canTerminate",
        "recordingRetentionDays",
        "recordingsConfigured",
        "user",
    ];
    let with = |own: &[&'static str]| {
        let mut all: Vec<&str> = with_every_answer.iter().chain(own).copied().collect();
        all.sort_unstable();
        all
    };
    assert_eq!(keys(&listed), with(&["preview", "sessions"]));
    assert_eq!(keys(&shown), with(&["session"]));
    assert_eq!(
        listed["preview"],
        json!({
            "declaredTier": "Ground", "groundClusters": ["demo"],
            "limits": {"perUser": 2, "perApp": 10, "perCluster": 50}, "durations": [15, 30, 60],
        })
    );
    assert_eq!(listed["sessions"], json!([shown["session"]]));
    is_its_row(&shown["session"], &row);
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}

/// A session in JSON is its row in camelCase, unset values null.
fn is_its_row(session: &Value, row: &Value) {
    let columns: Vec<String> = keys(row).into_iter().map(camel).collect();
    for name in &columns {
        assert!(session.get(name).is_some(), "{name} is not in {session:#}");
    }
    for (column, value) in row.as_object().expect("a row") {
        let said = &session[camel(column)];
        // The database writes times in its own form.
        match value.as_str().filter(|_| column.ends_with("_at")) {
            Some(time) => {
                let parse = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
                let told = said.as_str().expect("a time");
                assert!(told.ends_with('Z'), "UTC: {told}");
                assert_eq!(parse(told), parse(time), "{column}");
            }
            None => assert_eq!(said, value, "{column}"),
        }
    }
}

fn camel(column: &str) -> String {
    let mut parts = column.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut name, part| {
        let (head, tail) = part.split_at(1);
        name.push_str(&head.to_uppercase());
        name.push_str(tail);
        name
    })
}

/// Posts as somebody who does not wait for the shell.
async fn post_at_once(stand: &Stand) -> (u16, Value) {
    let who = encode(&caller(ALICE, "shop"));
    let headers = [
        ("x-breakglass-caller", who.as_str()),
        ("content-type", "application/json"),
        ("prefer", "respond-async"),
    ];
    let body = stand.request().to_string();
    raw(stand, ("POST", "/v1/sessions"), &headers, body).await
}

/// What `GET` shows, once it is so.
async fn shown_when(stand: &Stand, id: &str, is: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/sessions/{id}");
    let look = || async {
        let (_, answer) = stand.get(&path).await;
        is(&answer["session"]).then(|| answer["session"].clone())
    };
    until("the session's progress", SOON, look)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn s_14a_who_does_not_wait_is_answered_with_the_row_and_sees_it_open() {
    let plan = Plan::new().change(|config| {
        let demo = config.clusters.get_mut("demo").expect("the cluster");
        demo.limits.call = SOON;
    });
    let stand = plan.start().await;
    stand
        .faults()
        .apply(on(CONTAINER.0, CONTAINER.1, RequestFault::Hang, 1));
    let (status, session) = post_at_once(&stand).await;
    assert_eq!(status, 201, "{session}");
    assert_eq!(session["state"], "active");
    let id = session["id"].as_str().expect("an id");
    until_requested(&stand, "patch", "/ephemeralcontainers").await;
    let opening = shown_when(&stand, id, |s| !s["debugContainer"].is_null()).await;
    assert_eq!(opening["state"], "active");
    assert_eq!(opening["roleBinding"], format!("tower-breakglass-{id}"));
    let (socket, alice) = (stand.socket(), caller(ALICE, "shop"));
    let early = crate::terminal::Terminal::attach(&socket, &alice, id).await;
    let (refused, why) = early.err().expect("there is no shell yet");
    assert_eq!(refused, 410, "{why}");
    stand.faults().release();
    let attached = || async {
        let attaching = crate::terminal::Terminal::attach(&socket, &alice, id);
        attaching.await.ok()
    };
    let terminal = until("the shell", SOON, attached).await;
    terminal
        .unwrap_or_else(|error| panic!("{error}"))
        .echo()
        .await;
    stand.end(id).await;
    stand.ended(id).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn s_14a_who_does_not_wait_sees_why_it_did_not_open() {
    let stand = Plan::new().start().await;
    stand.faults().next_start(StartFault::ImagePull {
        message: "manifest unknown".to_owned(),
    });
    let (status, session) = post_at_once(&stand).await;
    assert_eq!(status, 201, "{session}");
    let id = session["id"].as_str().expect("an id");
    let ended = shown_when(&stand, id, |s| s["state"] == "ended").await;
    let reason = ended["endReason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("failed to start: ") && reason.contains("manifest unknown"),
        "{reason}"
    );
    stand.ended(id).await;
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn c_4_a_pod_that_is_another_by_the_opening_is_told_in_the_recording() {
    let plan = Plan::new().change(|config| {
        let demo = config.clusters.get_mut("demo").expect("the cluster");
        demo.limits.call = SOON;
    });
    let stand = plan.start().await;
    let (pod, uid) = stand.ready_pod();
    // The request sees the pod as it is; its answer comes when there is another of the name.
    let matching = RequestMatch {
        name: Some(pod.clone()),
        ..RequestMatch::on("get", "pods")
    };
    stand.faults().apply(Fault::Request {
        matching,
        fault: RequestFault::PerformThenHang,
        times: 1,
    });
    let before = stand.standin.requests().len();
    let (socket, body) = (stand.socket(), crate::stand::request_for(&pod));
    let posting = tokio::spawn(async move {
        let alice = caller(ALICE, "shop");
        call(&socket, "POST", "/v1/sessions", Some(&alice), Some(&body)).await
    });
    let part = format!("/pods/{pod}");
    stand
        .until("the look at the pod", || {
            let since = stand.standin.requests().split_off(before);
            since.iter().any(|r| r.path.ends_with(&part))
        })
        .await;
    assert!(stand.faults().apply(Fault::ReplacePod {
        namespace: "shop".to_owned(),
        name: pod.clone(),
    }));
    let found = stand.pods();
    let found = found
        .iter()
        .find(|p| p["metadata"]["name"] == pod.as_str())
        .expect("the other pod");
    let now = found["metadata"]["uid"].as_str().expect("a UID").to_owned();
    assert_ne!(now, uid);
    stand.faults().release();
    let (status, session) = posting.await.expect("it ran").expect("an answer");
    assert_eq!(status, 201, "{session}");
    let id = session["id"].as_str().expect("an id");
    stand.end(id).await;
    let row = stand.ended(id).await;
    let recording = stand.recording(&row);
    let told = format!("the pod is another than at the request: it was `{uid}` and is `{now}`");
    let marked = recording
        .lines()
        .position(|line| line.contains(r#""m""#) && line.contains(&told));
    let granted = recording.lines().position(|line| line.contains("granted"));
    assert!(marked.is_some() && marked < granted, "{recording}");
}

#[tokio::test]
async fn c_4_a_pod_that_is_the_same_gets_no_such_marker() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    stand.end(&open.id).await;
    let row = stand.ended(&open.id).await;
    assert!(
        !stand
            .recording(&row)
            .contains("another than at the request")
    );
}
