//! Attach, and the containers behind it, on the wire.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use common::{
    Client, PATIENCE, debug_container, first_pod, pod_path, press, read_until, running, state_of,
    until,
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use standin::{Options, Standin};
use tokio_tungstenite::tungstenite::Message;

async fn standin() -> Standin {
    Standin::start(Options::default())
        .await
        .expect("a stand-in")
}

#[tokio::test]
async fn a_shell_answers_resizes_and_reports_its_exit() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["/bin/sh"]).await;
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    press(&mut shell, "echo $((6*7))-$HOME-$(tty | cut -c1-8)\r").await;
    read_until(&mut shell, "42-/tmp-/dev/pts").await;
    let size = b"\x04{\"Width\":123,\"Height\":45}";
    shell
        .send(Message::Binary(size.as_slice().into()))
        .await
        .expect("an open stream");
    press(&mut shell, "stty size\r").await;
    read_until(&mut shell, "45 123").await;
    press(&mut shell, "exit 7\r").await;
    let mut status = Value::Null;
    while let Some(Ok(message)) = shell.next().await {
        if let Message::Binary(frame) = message
            && frame.first() == Some(&3)
        {
            status = serde_json::from_slice(&frame[1..]).expect("a Status");
        }
    }
    assert_eq!(status["status"], "Success");
    until("the exit is reported", || {
        state_of(&standin, &pod, "debug-a")["terminated"]["exitCode"] == 7
    })
    .await;
    let again = Client::new(&standin, "admin").attach(&pod, "debug-a").await;
    let (code, refusal) = again.expect_err("an exited container");
    assert_eq!(code, 500);
    assert!(
        refusal["message"]
            .as_str()
            .is_some_and(|text| text.contains("container not running"))
    );
    standin.shutdown().await;
}

#[tokio::test]
async fn the_process_is_unprivileged_and_sees_none_of_our_environment() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["/bin/sh"]).await;
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    press(&mut shell, "echo uid=$(id -u); env | grep -c -v -E '^(PATH|TERM|HOME|PWD|OLDPWD|SHLVL|_|STANDIN_CONTAINER)='\r")
        .await;
    let seen = read_until(&mut shell, "\r\n0\r\n").await;
    assert!(!seen.contains("uid=0"), "{seen}");
}

#[tokio::test]
async fn closing_a_stream_leaves_the_container_and_deleting_the_pod_kills_everything() {
    let standin = standin().await;
    let (pod, uid) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["/bin/sh"]).await;
    let admin = Client::new(&standin, "admin");
    let mut shell = admin.attach(&pod, "debug-a").await.expect("a stream");
    press(&mut shell, "kept=yes; setsid sleep 1000 & sleep 1000 &\r").await;
    press(&mut shell, "echo started-$((1 + 1))\r").await;
    read_until(&mut shell, "started-2").await;
    drop(shell);
    until("the stream is gone", || standin.streams().is_empty()).await;
    let mut shell = admin
        .attach(&pod, "debug-a")
        .await
        .expect("a second stream");
    press(&mut shell, "echo kept=$kept\r").await;
    read_until(&mut shell, "kept=yes").await;
    until("three processes", || standin.processes().len() == 3).await;
    let processes = standin.processes();
    let body = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } });
    let (code, _) = admin.call("DELETE", &pod_path(&pod, ""), body).await;
    assert_eq!(code, 200);
    let ended = async { while let Some(Ok(_)) = shell.next().await {} };
    assert!(
        tokio::time::timeout(PATIENCE, ended).await.is_ok(),
        "the stream stayed open"
    );
    until("every process is dead", || {
        processes.iter().all(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |text| text.contains(") Z"))
        })
    })
    .await;
}

#[tokio::test]
async fn ctrl_c_reaches_a_flood_that_nobody_reads() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    let script = "trap '' INT; while :; do (trap - INT; yes); echo stopped; read line; done";
    running(&standin, &pod, "debug-a", &["/bin/sh", "-c", script]).await;
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    // The flood fills every buffer on the way while nothing is read here.
    read_until(&mut shell, "y\r\ny").await;
    press(&mut shell, "\x03").await;
    read_until(&mut shell, "stopped").await;
}

#[tokio::test]
async fn the_newest_attach_gets_the_output_and_the_older_one_stays_open() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    let admin = Client::new(&standin, "admin");
    let mut first = admin.attach(&pod, "debug-a").await.expect("a stream");
    press(&mut first, "one").await;
    read_until(&mut first, "one").await;
    let mut second = admin
        .attach(&pod, "debug-a")
        .await
        .expect("a second stream");
    press(&mut first, "two").await;
    read_until(&mut second, "two").await;
    first
        .send(Message::Ping(b"x".as_slice().into()))
        .await
        .expect("an open stream");
    while !matches!(first.next().await, Some(Ok(Message::Pong(_)))) {}
}

#[tokio::test]
async fn a_flood_sends_as_many_bytes_as_it_was_asked_for() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(
        &standin,
        &pod,
        "debug-a",
        &["standin-flood", "1000003", "4096"],
    )
    .await;
    let mut shell = Client::new(&standin, "admin")
        .attach(&pod, "debug-a")
        .await
        .expect("a stream");
    let mut count = 0;
    while count < 1_000_003 {
        if let Some(Ok(Message::Binary(frame))) = shell.next().await
            && frame.first() == Some(&1)
        {
            count += frame.len() - 1;
        }
    }
    press(&mut shell, "\x04").await;
    until("it ended", || {
        state_of(&standin, &pod, "debug-a")["terminated"]["exitCode"] == 0
    })
    .await;
    assert_eq!(count, 1_000_003);
}

#[tokio::test]
async fn the_protocol_is_chosen_and_what_cannot_be_attached_is_refused() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    let admin = Client::new(&standin, "admin");
    let path = pod_path(
        &pod,
        "/attach?container=debug-a&stdin=true&stdout=true&tty=true",
    );
    assert!(admin.attach_at(&path, "v4.channel.k8s.io").await.is_ok());
    let refused = |answer: Result<common::Socket, (u16, Value)>| answer.expect_err("a refusal").0;
    assert_eq!(refused(admin.attach_at(&path, "channel.k8s.io").await), 400);
    assert_eq!(refused(admin.attach(&pod, "debug-b").await), 400);
    assert_eq!(refused(admin.attach("nobody", "debug-a").await), 404);
    let (code, answer) = admin.call("POST", &path, Value::Null).await;
    assert_eq!(
        (code, &answer["message"]),
        (400, &json!("Upgrade request required"))
    );
}

#[tokio::test]
async fn an_ephemeral_container_is_added_once_and_never_changed() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    running(&standin, &pod, "debug-a", &["standin-echo"]).await;
    let admin = Client::new(&standin, "admin");
    let path = pod_path(&pod, "/ephemeralcontainers");
    let (code, answer) = admin
        .call("PATCH", &path, debug_container("debug-a", &["sh"]))
        .await;
    assert_eq!(code, 422, "{answer}");
    assert!(
        answer["message"]
            .as_str()
            .is_some_and(|text| text.contains("may not be changed"))
    );
    let (code, _) = admin
        .call("PATCH", &path, debug_container("app", &["sh"]))
        .await;
    assert_eq!(code, 422, "a container of the app's name");
    let (_, mut whole) = admin.call("GET", &path, Value::Null).await;
    let added = debug_container("debug-b", &["standin-echo"]);
    whole["spec"]["ephemeralContainers"]
        .as_array_mut()
        .expect("a list")
        .push(added["spec"]["ephemeralContainers"][0].clone());
    let stale = whole.clone();
    let (code, answer) = admin.call("PUT", &path, whole).await;
    assert_eq!(code, 200, "{answer}");
    let (code, answer) = admin.call("PUT", &path, stale).await;
    assert_eq!((code, &answer["reason"]), (409, &json!("Conflict")));
}

#[tokio::test]
async fn a_command_that_is_not_there_ends_as_a_start_error() {
    let standin = standin().await;
    let (pod, _) = first_pod(&standin);
    let admin = Client::new(&standin, "admin");
    let path = pod_path(&pod, "/ephemeralcontainers");
    admin
        .call("PATCH", &path, debug_container("debug-a", &["/nowhere"]))
        .await;
    until("it ended", || {
        state_of(&standin, &pod, "debug-a")["terminated"]["reason"] == "StartError"
    })
    .await;
}
