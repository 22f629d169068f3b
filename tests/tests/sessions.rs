//! Sessions through a real Backstage on the stand-in, each part a process of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use breakglass_tests::StageError;
use breakglass_tests::browser::Tab;
use breakglass_tests::processes::until;
use breakglass_tests::scenario::{killed_in_the_middle, nothing_is_left, whole_session};
use breakglass_tests::sidecar::{SidecarProcess, get, ready};
use breakglass_tests::smoke;
use breakglass_tests::stage::{Place, Stage};
use serde_json::json;
use std::time::Duration;

#[path = "sessions/logs.rs"]
mod logs;
#[path = "sessions/terminal.rs"]
mod terminal;

async fn stage() -> Stage {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place =
        async |dir: &std::path::Path| Place::standin(dir, standin::Options::default()).await;
    Stage::start(place).await.expect("the stage is set")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_from_its_request_to_its_end() -> Result<(), StageError> {
    whole_session(&stage().await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_the_cluster_is_clean_and_the_row_says_why() -> Result<(), StageError> {
    killed_in_the_middle(&mut stage().await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn node_restarts_and_the_shell_goes_on() -> Result<(), StageError> {
    let mut stage = stage().await;
    let alice = stage.person("alice").await?;
    let opened = smoke::open(&stage, &alice).await?;
    let mut tab = Tab::connect(&alice, opened.id()).await.expect("a terminal");
    tab.resize(80, 24).await?;
    tab.ask("kept=here; echo set-$((1 + 1))", "set-2").await?;
    stage.backstage.restart().await?;
    let alice = stage.person("alice").await?;
    let mut tab = Tab::connect(&alice, opened.id())
        .await
        .expect("the terminal comes back");
    tab.shows("set-2").await?;
    tab.ask("echo \"still $kept\"", "still here").await?;
    alice.json(&["session", "end", opened.id()]).await?;
    let row = smoke::ended(&alice, opened.id()).await?;
    assert_eq!(row["endReason"], "ended by user");
    nothing_is_left(&stage, &opened).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sidecar_stands_by_and_takes_over() -> Result<(), StageError> {
    let mut stage = stage().await;
    let alice = stage.person("alice").await?;
    let opened = smoke::open(&stage, &alice).await?;
    let mut other = stage.sidecar.settings().clone();
    other.name = "second".to_owned();
    let second = SidecarProcess::start_alive(&other).await?;
    let (status, answer) = get(&second.settings().socket(), "/readyz").await?;
    assert_eq!(status, 503);
    assert!(
        answer["missing"].to_string().contains("stands by"),
        "{answer}"
    );
    let caller = json!({"version": 1, "user": "user:default/alice", "app": "shop",
        "allowed": ["request"]});
    let path = "/v1/sessions?app=shop&env=dev";
    let socket = second.settings().socket();
    let (status, answer) =
        breakglass_tests::sidecar::call(&socket, "GET", path, Some(&caller), None).await?;
    assert_eq!(status, 503, "{answer}");
    stage.sidecar.kill().await?;
    ready(&socket, Duration::from_secs(60)).await?;
    // The first sweep has begun the end by now; what it still waits for is the cluster's.
    let ended = || async {
        let asked =
            breakglass_tests::sidecar::call(&socket, "GET", path, Some(&caller), None).await;
        let row = asked.ok()?.1["sessions"][0].clone();
        (row["endReason"] != serde_json::Value::Null).then_some(row)
    };
    let row = until("the end", Duration::from_secs(60), ended).await?;
    assert_eq!(row["id"], opened.id());
    assert_eq!(row["endReason"], "backend restarted during the session");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_another_ones_terminal() -> Result<(), StageError> {
    let stage = stage().await;
    let alice = stage.person("alice").await?;
    let opened = smoke::open(&stage, &alice).await?;
    let refusal = async |person: &breakglass_tests::cli::Person, id: &str, origin: Option<&str>| {
        Tab::connect_from(person, id, origin)
            .await
            .err()
            .and_then(|refused| refused.0)
    };
    let own = Some(alice.url.as_str());
    let bob = stage.person("bob").await?;
    assert_eq!(
        refusal(&bob, opened.id(), own).await,
        Some(403),
        "another user of the app"
    );
    let dave = stage.person("dave").await?;
    assert!(
        matches!(refusal(&dave, opened.id(), own).await, Some(403 | 404)),
        "another app's"
    );
    let nobody = breakglass_tests::cli::Person {
        token: "garbage".to_owned(),
        ..alice.clone()
    };
    assert_eq!(refusal(&nobody, opened.id(), own).await, Some(401));
    assert_eq!(
        refusal(&alice, "000000000000", own).await,
        Some(404),
        "an unknown session"
    );
    let evil = Some("https://evil.example");
    assert_eq!(
        refusal(&alice, opened.id(), evil).await,
        Some(403),
        "a foreign origin (qX5)"
    );
    alice.json(&["session", "end", opened.id()]).await?;
    smoke::ended(&alice, opened.id()).await?;
    assert_eq!(
        refusal(&alice, opened.id(), own).await,
        Some(410),
        "an ended session (qT4)"
    );
    Ok(())
}
