//! O-5: whatever is logged, no terminal byte, no token and no reason is.

use crate::stand::{ALICE, Plan, caller};
use breakglass::config::{LogConfig, LogFormat};
use breakglass::http::caller::encode;
use breakglass::logs;
use serde_json::json;
use standin::StreamMode;
use std::io::Write;
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

/// One session with everything in it, at the most talkative filter there is.
async fn logged(format: LogFormat) {
    let log = Buffer::default();
    let config = LogConfig {
        filter: "trace".to_owned(),
        format,
    };
    let into = log.clone();
    let subscriber = logs::subscriber(&config, move || into.clone()).expect("a filter");
    // This test's runtime has one thread: whatever runs on it logs here.
    let _logging = tracing::subscriber::set_default(subscriber);

    let (typed, reason) = ("typedQ7f3kX9", "reasonQ7f3kX9");
    let stand = Plan::new().start().await;
    let refused = json!({"reason": reason, "mode": "none"});
    assert_eq!(stand.post("/v1/sessions", Some(&refused)).await.0, 400);
    let open = stand
        .open_with(|body| body["reason"] = format!("because {reason}").into())
        .await;
    let mut terminal = stand.attach(&open.id).await;
    terminal
        .type_in(&format!("X={typed}; echo printed''Q7f3kX9\n"))
        .await;
    terminal.until_output("printedQ7f3kX9").await;
    terminal
        .send(&json!({"type": "resize", "cols": 100, "rows": 30}))
        .await;
    terminal
        .send_raw(Message::Text(format!("{{\"type\":\"{typed}\"}}").into()))
        .await;
    terminal.send_raw(Message::Text(typed.into())).await;
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
    again.type_in(&format!("echo {typed}\n")).await;
    again.echo().await;
    assert_eq!(stand.end(&open.id).await.0, 200);
    let row = stand.ended(&open.id).await;
    let path = format!("/v1/sessions/{}/recording", open.id);
    assert_eq!(stand.get(&path).await.0, 200);
    assert!(stand.recording(&row).contains(typed), "recorded it is");

    let text = log.text();
    for told in [
        "session open",
        "grant made",
        "session ended",
        "session cleaned up",
    ] {
        assert!(text.contains(told), "`{told}` is not logged: is anything?");
    }
    assert!(text.contains(&open.id));
    let header = encode(&caller(ALICE, "shop"));
    let mut secrets = vec![
        typed,
        "printedQ7f3kX9",
        "Q7f3kX9",
        reason,
        &header,
        "Bearer ",
    ];
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

// One after the other: two subscribers at once change what each other's callsites are told.
#[tokio::test]
async fn no_line_of_the_log_holds_what_was_typed_shown_or_given_as_a_reason() {
    logged(LogFormat::Text).await;
    logged(LogFormat::Json).await;
}
