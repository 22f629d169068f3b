//! It must hold 2: a session ends at its deadline and not later, by a clock that never jumps.

use crate::stand::Plan;
use breakglass::ports::Clock;
use jiff::SignedDuration;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn the_deadline_strikes_exactly_and_leaves_nothing() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.stop_the_clock();
    assert!(stand.left(&open.id) <= 15 * MINUTE);
    assert!(stand.left(&open.id) > 14 * MINUTE);
    stand.pass_until_before_deadline(&open.id, 9 * MINUTE).await;
    terminal.echo().await;
    stand.pass_until_before_deadline(&open.id, MOMENT).await;
    let last = terminal.echo().await;
    assert!(terminal.frames("ended").is_empty(), "a moment before it");
    assert_eq!(stand.row(&open.id).await["state"], "active");

    stand.sidecar.clock.advance(MOMENT);
    assert_eq!(terminal.until_ended().await, "expired");
    terminal.until_closed().await;
    stand.let_the_clock_flow();
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "expired");
    assert_eq!(row["recycled"], true, "{row:#}");
    assert!(row["cleanup_notes"].is_null(), "{row:#}");
    assert!(
        !stand.has_pod(&open.uid),
        "the pod that was touched is replaced"
    );
    stand.assert_nothing_is_left().await;
    let recording = stand.recording(&row);
    assert!(recording.contains(&last), "what was shown last is kept");
    assert!(recording.contains("ended: expired"));
    assert!(stand.spools().is_empty(), "what is saved needs no spool");
}

#[tokio::test]
async fn warnings_come_five_minutes_and_one_minute_before_and_not_into_the_output() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.stop_the_clock();
    stand.pass_until_before_deadline(&open.id, 9 * MINUTE).await;
    terminal.echo().await;
    stand
        .pass_until_before_deadline(&open.id, 5 * MINUTE + MOMENT)
        .await;
    terminal.echo().await;
    assert!(terminal.frames("warning").is_empty());
    stand.sidecar.clock.advance(MOMENT);
    assert_eq!(terminal.until_frame("warning").await["secondsLeft"], 300);
    stand
        .pass_until_before_deadline(&open.id, MINUTE + MOMENT)
        .await;
    terminal.echo().await;
    assert_eq!(terminal.frames("warning").len(), 1);
    stand.sidecar.clock.advance(MOMENT);
    terminal.echo().await;
    let warned: Vec<_> = terminal
        .frames("warning")
        .iter()
        .map(|w| w["secondsLeft"].clone())
        .collect();
    assert_eq!(warned, [300, 60]);
    let output = terminal.output();
    for text in ["warning", "secondsLeft", "left"] {
        assert!(!output.contains(text), "{output}");
    }
    stand.let_the_clock_flow();
    stand.end(&open.id).await;
    let recording = stand.recording(&stand.ended(&open.id).await);
    assert!(recording.contains("warning: 300 s left"), "{recording}");
    assert!(recording.contains("warning: 60 s left"), "{recording}");
}

#[tokio::test]
async fn ten_minutes_without_a_key_or_a_byte_end_a_session() {
    let stand = Plan::new().start().await;
    let open = stand.open().await;
    let mut terminal = stand.attach(&open.id).await;
    terminal.echo().await;
    stand.pass(9 * MINUTE).await;
    terminal.echo().await;
    stand.pass(9 * MINUTE / 2).await;
    assert_eq!(
        stand.row(&open.id).await["state"],
        "active",
        "a key starts the ten minutes anew"
    );
    stand.end(&open.id).await;
    stand.ended(&open.id).await;

    let open = stand
        .open_with(|body| body["durationMinutes"] = 30.into())
        .await;
    let mut terminal = stand.attach(&open.id).await;
    // The last output there is: no prompt comes after it, late as it may be.
    let last = "printf idle-$((40 + 2))-begins; exec sleep 9999\n";
    terminal.type_in(last).await;
    terminal.until_output("idle-42-begins").await;
    // In steps, so that the terminal can show that it is there.
    for _ in 0..3 {
        stand.pass(3 * MINUTE).await;
        terminal
            .send(&serde_json::json!({"type": "ack", "bytes": 1}))
            .await;
        assert!(terminal.frames("ended").is_empty());
    }
    stand.pass(MINUTE + Duration::from_secs(16)).await;
    assert_eq!(terminal.until_ended().await, "idle for 10 minutes");
    let row = stand.ended(&open.id).await;
    assert_eq!(row["end_reason"], "idle for 10 minutes");
    stand.assert_nothing_is_left().await;
}

#[tokio::test]
async fn two_minutes_without_a_terminal_end_a_session() {
    const REASON: &str = "terminal closed and not reopened within 2 minutes";
    let stand = Plan::new().start().await;
    let never = stand.open().await;
    let left = stand.open().await;
    let mut terminal = stand.attach(&left.id).await;
    let shown = terminal.echo().await;
    stand.pass(2 * MINUTE + Duration::from_secs(16)).await;
    assert_eq!(
        stand.ended(&never.id).await["end_reason"],
        REASON,
        "nobody ever came"
    );
    assert_eq!(
        stand.row(&left.id).await["state"],
        "active",
        "somebody is there"
    );

    drop(terminal);
    let again = stand.attach(&left.id).await;
    again.until_output(&shown).await;
    drop(again);
    // The close is noticed before the clock is moved, or the two minutes begin too late.
    stand
        .until("the terminal's leaving", || detached(&stand, &left.id))
        .await;
    stand.pass(MINUTE).await;
    assert_eq!(stand.row(&left.id).await["state"], "active");
    stand.pass(MINUTE + Duration::from_secs(16)).await;
    assert_eq!(stand.ended(&left.id).await["end_reason"], REASON);
    stand.assert_nothing_is_left().await;
}

pub(crate) fn detached(stand: &crate::stand::Stand, id: &str) -> bool {
    let sessions = stand.sidecar.app.sessions().expect("ready");
    let runtime = sessions
        .runtimes()
        .get(&crate::stand::session_id(id))
        .expect("it runs");
    runtime
        .ages(stand.sidecar.clock.elapsed())
        .detached_for
        .is_some()
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_neither_ends_a_session_nor_keeps_one() {
    for hour in [
        SignedDuration::from_hours(1),
        SignedDuration::from_hours(-1),
    ] {
        let stand = Plan::new().start().await;
        let open = stand.open().await;
        let mut terminal = stand.attach(&open.id).await;
        terminal.echo().await;
        stand.sidecar.clock.jump_wall(hour);
        stand.sweep().await;
        stand.sweep().await;
        terminal.echo().await;
        assert_eq!(stand.row(&open.id).await["state"], "active", "{hour}");
        let (status, shown) = stand.get(&format!("/v1/sessions/{}", open.id)).await;
        assert_eq!(status, 200);
        assert_eq!(shown["session"]["state"], "active", "{hour}");

        stand.pass_until_before_deadline(&open.id, 8 * MINUTE).await;
        terminal.echo().await;
        stand.stop_the_clock();
        stand.pass_until_before_deadline(&open.id, MOMENT).await;
        terminal.echo().await;
        assert!(terminal.frames("ended").is_empty(), "{hour}");
        stand.sidecar.clock.advance(MOMENT);
        assert_eq!(terminal.until_ended().await, "expired", "{hour}");
        stand.let_the_clock_flow();
        assert_eq!(
            stand.ended(&open.id).await["end_reason"],
            "expired",
            "{hour}"
        );
        stand.assert_nothing_is_left().await;
    }
}
