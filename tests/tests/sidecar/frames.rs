//! T-3 and T-4: whatever a browser sends, the session goes on.

use crate::stand::{Plan, Stand};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Bytes, Message};

#[tokio::test]
async fn a_frame_that_is_not_understood_is_refused_and_the_session_goes_on() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    let text = |text: &str| Message::Text(text.into());
    let frames = [
        text(""),
        text("{"),
        text("null"),
        text(r#"{"type":"input"}"#),
        text(r#"{"type":"input","data":7}"#),
        text(r#"{"type":"resize","cols":"80","rows":24}"#),
        text(r#"{"type":"exec","data":"id"}"#),
        text(&"[".repeat(100_000)),
        text(&json!({"type": "input", "data": "#".repeat(64 * 1024 + 1)}).to_string()),
        Message::Binary(Bytes::from_static(b"echo typed-in-binary\n")),
    ];
    let count = frames.len();
    for frame in frames {
        terminal.send_raw(frame).await;
    }
    terminal.echo().await;
    assert_eq!(
        terminal.frames("error").len(),
        count,
        "{:?}",
        terminal.frames("error")
    );
    assert!(
        !terminal.output().contains("typed-in-binary"),
        "nothing of them is passed on"
    );
    assert!(!terminal.output().contains("####"));
    assert_eq!(stand.row(&open.id).await["state"], "active");
    finish(&stand, &open.id).await;
}

async fn finish(stand: &Stand, id: &str) {
    stand.end(id).await;
    assert_eq!(stand.ended(id).await["end_reason"], "ended by user");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_flood_of_bad_frames_closes_the_socket_and_not_the_session() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    let shown = terminal.echo().await;
    for _ in 0..200 {
        if !terminal.try_send(Message::Text("{".into())).await {
            break;
        }
    }
    assert_eq!(terminal.until_closed().await, Some(1008));
    assert_eq!(stand.row(&open.id).await["state"], "active");
    let mut again = stand.attach(&open.id).await;
    again.until_output(&shown).await;
    again.echo().await;
    finish(&stand, &open.id).await;
}

#[tokio::test]
async fn a_message_larger_than_anything_closes_the_socket_and_not_the_session() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    terminal
        .try_send(Message::Text("x".repeat(3 << 20).into()))
        .await;
    terminal.until_closed().await;
    assert_eq!(stand.row(&open.id).await["state"], "active");
    stand.attach(&open.id).await.echo().await;
    finish(&stand, &open.id).await;
}

#[tokio::test]
async fn sizes_are_clamped_and_reach_the_shell() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal
        .send(&json!({"type": "resize", "cols": 132, "rows": 43}))
        .await;
    terminal.echo().await;
    terminal.type_in("stty size\n").await;
    terminal.until_output("43 132").await;
    terminal
        .send(&json!({"type": "resize", "cols": 70000, "rows": -3}))
        .await;
    terminal.echo().await;
    // The new size may be on its way still: asked until it is there.
    terminal
        .type_in("until [ \"$(stty size)\" = '5 500' ]; do :; done; echo size-$((1 + 1))\n")
        .await;
    terminal.until_output("size-2").await;
    finish(&stand, &open.id).await;
}

#[tokio::test]
async fn a_second_tab_replaces_the_first() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut first = stand.attach(&open.id).await;
    let shown = first.echo().await;
    let mut second = stand.attach(&open.id).await;
    assert_eq!(
        first.until_frame("detached").await["reason"],
        "opened in another tab"
    );
    first.until_closed().await;
    second.until_output(&shown).await;
    second.echo().await;
    finish(&stand, &open.id).await;
}
