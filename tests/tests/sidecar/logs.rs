//! O-5: whatever is logged, on whatever thread, no terminal byte, no token and no reason is.

use crate::stand::{ALICE, Plan, Stand, caller};
use breakglass::config::{Config, LogConfig, LogFormat, Secret};
use breakglass::http::caller::encode;
use breakglass::logs;
use serde_json::{Value, json};
use standin::StreamMode;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Nobody's password: this Postgres asks for none, but the sidecar has one to keep.
const PASSWORD: &str = "passwordQ7f3kX9";

/// Every way to a secret that the stage has: a credential from an exec plugin, a token minted with
/// it for each step, a database password, and a fence that judges each step beforehand.
fn with_secrets(config: &mut Config) {
    config.database.password = Some(Secret::new(PASSWORD));
    let fence = json!({
        "clusters": { "demo": { "backend": "system:serviceaccount:tower:breakglass" } },
        "imageSigning": { "glob": "*", "issuer": "https://i", "subject": "s" },
    });
    config.policies = Some(serde_json::from_value(fence).expect("a fence"));
    let kubeconfig = config.socket.with_file_name("kubeconfig");
    let demo = json!({
        "kubeconfig": {"path": kubeconfig, "context": "backend"},
        "serviceAccount": "tower/breakglass", "callTimeoutSeconds": 2,
    });
    let demo = serde_json::from_value(demo).expect("a cluster");
    config.clusters.insert("demo".to_owned(), demo);
    token_from_a_plugin(&kubeconfig, "backend");
}

/// Rewrites a kubeconfig: this user's token is what a program prints.
fn token_from_a_plugin(kubeconfig: &Path, user: &str) {
    let text = std::fs::read(kubeconfig).expect("the kubeconfig");
    let mut read: Value = serde_json::from_slice(&text).expect("JSON");
    let users = read["users"].as_array_mut().expect("users");
    let found = users.iter_mut().find(|entry| entry["name"] == user);
    let found = &mut found.expect("the user")["user"];
    let api = "client.authentication.k8s.io/v1";
    let credential = json!({
        "apiVersion": api, "kind": "ExecCredential", "status": {"token": found["token"]},
    });
    let printed = kubeconfig.with_file_name("credential.json");
    std::fs::write(&printed, credential.to_string()).expect("a credential");
    *found = json!({"exec": {
        "apiVersion": api, "command": "cat", "args": [printed], "interactiveMode": "Never",
    }});
    std::fs::write(kubeconfig, read.to_string()).expect("a kubeconfig");
}

const TYPED: &str = "typedQ7f3kX9";
const REASON: &str = "reasonQ7f3kX9";

/// One session with everything in it; its id.
async fn one_session(stand: &Stand) -> String {
    let refused = json!({"reason": REASON, "mode": "none"});
    assert_eq!(stand.post("/v1/sessions", Some(&refused)).await.0, 400);
    let open = stand
        .open_with(|body| body["reason"] = format!("because {REASON}").into())
        .await;
    let mut terminal = stand.attach(&open.id).await;
    terminal
        .type_in(&format!("X={TYPED}; echo printed''Q7f3kX9\n"))
        .await;
    terminal.until_output("printedQ7f3kX9").await;
    terminal
        .send(&json!({"type": "resize", "cols": 100, "rows": 30}))
        .await;
    terminal
        .send_raw(Message::Text(format!("{{\"type\":\"{TYPED}\"}}").into()))
        .await;
    terminal.send_raw(Message::Text(TYPED.into())).await;
    terminal.until_frame("error").await;
    stand.faults().streams(StreamMode::Cut);
    stand
        .until("the cut", || stand.standin.streams().is_empty())
        .await;
    stand.pass(Duration::from_secs(16)).await;
    stand
        .until("a new stream", || !stand.standin.streams().is_empty())
        .await;
    let mut again = stand.attach(&open.id).await;
    again.until_output("printedQ7f3kX9").await;
    again.type_in(&format!("echo {TYPED}\n")).await;
    again.echo().await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    let path = format!("/v1/sessions/{}/recording", open.id);
    assert_eq!(stand.get(&path).await.0, 200);
    assert!(stand.recording(&row).contains(TYPED), "recorded it is");
    open.id
}

/// The subscriber is the process's, as `serve` sets it: whatever thread something runs on, it logs
/// here. The sidecar as a program, and its JSON, are in `tests/tests/sessions/logs.rs`.
#[tokio::test]
async fn no_line_of_the_log_holds_what_was_typed_shown_or_given_as_a_reason() {
    let log = Buffer::default();
    let config = LogConfig {
        filter: "trace".to_owned(),
        format: LogFormat::Text,
    };
    let into = log.clone();
    let subscriber = logs::subscriber(&config, move || into.clone()).expect("a filter");
    tracing::subscriber::set_global_default(subscriber).expect("the only one of this process");
    let elsewhere = || tracing::trace!(target: "somebody_elses", "logged on another thread");
    tokio::task::spawn_blocking(elsewhere).await.expect("done");

    let stand = Plan::new().change(with_secrets).start().await;
    let id = one_session(&stand).await;

    let text = log.text();
    for told in [
        "session open",
        "grant made",
        "session ended",
        "session cleaned up",
        "logged on another thread",
        &id,
    ] {
        assert!(text.contains(told), "`{told}` is not logged: is anything?");
    }
    let asked = stand.standin.requests();
    let minted = asked.iter().any(|asked| asked.path.ends_with("/token"));
    assert!(minted, "tokens are minted");
    let header = encode(&caller(ALICE, "shop"));
    let mut secrets = vec!["Q7f3kX9", PASSWORD, &header, "Bearer ", "minted-"];
    let tokens = ["breakglass", "backend", "admin"].map(|name| stand.standin.token(name));
    secrets.extend(tokens.into_iter().flatten());
    for secret in secrets {
        let found = text.lines().find(|line| line.contains(secret));
        assert!(
            found.is_none(),
            "`{secret}` is logged: {}",
            found.unwrap_or_default()
        );
    }
}
