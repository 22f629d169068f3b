use crate::fakes::clock::FakeClock;
use crate::fakes::recordings::FakeRecordings;
use crate::fakes::shell::{FakePod, shell};
use crate::ports::cluster::ShellInput;
use crate::ports::{Clock, Recordings};
use crate::recording::{Event, Header, LiveRecording, Recorder, read_event};
use crate::terminal::relay::{BATCH, INPUT_WAITS};
use crate::terminal::{TerminalEvent, TerminalHandle, TerminalParts};
use futures_util::{SinkExt, StreamExt};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

mod world;

use world::{World, until};

const KEY: &str = "payments/prod/abcdefghijkl.cast";
const SOCKET: usize = 64 * 1024;
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn keys_go_to_the_shell_and_its_output_comes_back_both_recorded() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    assert_eq!(
        browser.notice().await,
        json!({ "type": "attached", "secondsLeft": 1800 })
    );
    browser.types("ls\r").await;
    until(|| pod.typed() == b"\nls\r").await;
    pod.write("file\r\n");
    assert_eq!(browser.output(6).await, b"file\r\n");
    assert_eq!(
        (world.recorded("i"), world.recorded("o")),
        (b"ls\r".to_vec(), b"file\r\n".to_vec())
    );
    assert_eq!(
        pod.inputs()[0],
        ShellInput::Resize {
            cols: 100,
            rows: 30
        }
    );
    let ages = world.terminal.ages(world.clock.elapsed());
    assert_eq!((ages.detached_for, ages.idle_for), (None, Duration::ZERO));
}

#[test]
fn an_idle_terminal_is_small() {
    let task = size_of::<crate::terminal::run::Task>();
    let socket = size_of::<crate::terminal::browser::Socket>();
    assert!(
        task <= 1024 && socket <= 1024,
        "{task} and {socket} bytes, beside 8 KiB to read into"
    );
}

#[tokio::test]
async fn qt2_what_the_shell_printed_before_anybody_attached_is_recorded_and_shown() {
    let world = World::new().await;
    let pod = world.shell();
    let lines: String = (1..=100).map(|line| format!("{line}\r\n")).collect();
    pod.write(lines.clone());
    until(|| world.recorded("o") == lines.as_bytes()).await;
    let mut browser = world.browser().await;
    let expected = format!("\u{1b}c{lines}");
    assert_eq!(browser.output(expected.len()).await, expected.as_bytes());
    assert_eq!(
        world.recorded("o"),
        lines.as_bytes(),
        "it is not recorded twice"
    );
}

#[tokio::test]
async fn qt25_a_browser_that_never_reads_costs_bounded_memory_and_ctrl_c_gets_through() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    pod.flood(vec![b'y'; 4096], u64::MAX);
    // It stops being read once the browser's socket and one batch are full.
    let mut before = 0;
    until(|| {
        let read = pod.bytes_read();
        let stopped = read == before && read > 0;
        before = read;
        stopped
    })
    .await;
    let bound = (SOCKET + 2 * BATCH + 64 * 1024) as u64;
    assert!(pod.bytes_read() <= bound, "{} bytes", pod.bytes_read());
    browser.types("\u{3}").await;
    until(|| pod.typed() == b"\n\x03").await;
    browser
        .send(json!({ "type": "resize", "cols": 90, "rows": 20 }))
        .await;
    world.clock.advance(Duration::from_millis(50));
    until(|| {
        pod.inputs()
            .contains(&ShellInput::Resize { cols: 90, rows: 20 })
    })
    .await;
    assert!(pod.bytes_read() <= bound);
}

#[tokio::test]
async fn qt26_not_one_byte_of_a_large_output_is_lost() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    let piece: Vec<u8> = (0..1009u32).map(|number| (number % 251) as u8).collect();
    let pieces = 4000;
    pod.flood(piece.clone(), pieces);
    let expected = piece.repeat(pieces as usize);
    assert!(
        browser.output(expected.len()).await == expected,
        "the browser got the same bytes"
    );
    assert!(
        world.recorded("o") == expected,
        "the recording holds the same bytes"
    );
}

#[tokio::test]
async fn input_that_the_pod_does_not_take_is_bounded_and_output_goes_on() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    pod.take_input(false);
    let paste = "x".repeat(32 * 1024);
    let mut pasted = 0;
    let frame = json!({ "type": "input", "data": paste }).to_string();
    loop {
        let sending = browser.0.send(Message::Text(frame.clone().into()));
        if tokio::time::timeout(Duration::from_millis(200), sending)
            .await
            .is_err()
        {
            break;
        }
        pasted += paste.len();
        assert!(
            pasted < 4 * (INPUT_WAITS + SOCKET),
            "it is taken without end"
        );
    }
    pod.write("still talking");
    assert_eq!(browser.output(13).await, b"still talking");
    pod.take_input(true);
    // The frame that was cut off above goes out as well.
    browser.0.flush().await.unwrap();
    until(|| pod.typed().len() >= pasted).await;
    assert!(pod.typed().iter().skip(1).all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn qr10_a_spool_that_cannot_be_written_ends_the_terminal_before_the_key_reaches_the_pod() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    std::fs::remove_dir_all(world.dir.path().join("spool")).unwrap();
    browser.notice().await;
    browser.types("secret").await;
    let ended = json!({ "type": "ended", "reason": "recording could not be written" });
    assert_eq!(browser.notice().await, ended);
    assert_eq!(browser.next().await, None);
    assert_eq!(
        world.terminal.next_event().await,
        Some(TerminalEvent::RecordingFailed)
    );
    assert_eq!(world.terminal.next_event().await, None);
    assert_eq!(
        pod.typed(),
        b"\n",
        "it was not recorded, so it did not happen"
    );
    assert!(pod.is_dropped());
    world
        .terminal
        .end("recording could not be written", Duration::from_secs(2))
        .await;
}

#[tokio::test]
async fn qt22_a_new_browser_replaces_the_old_one_and_the_shell_stays() {
    let world = World::new().await;
    let (mut first, pod) = world.open().await;
    first.notice().await;
    for _ in 0..10 {
        let mut second = world.browser().await;
        let detached = json!({ "type": "detached", "reason": "opened in another tab" });
        assert_eq!(first.notice().await, detached);
        assert_eq!(first.next().await, None);
        assert_eq!(second.notice().await["type"], "attached");
        first = second;
    }
    assert!(!pod.is_dropped());
    assert_eq!(pod.inputs().len(), 2, "one size, one newline");
}

#[tokio::test]
async fn a_browser_that_leaves_is_noticed_and_one_that_comes_back_sees_the_screen() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    pod.write("$ ");
    browser.output(2).await;
    browser.0.close(None).await.unwrap();
    let ages = || world.terminal.ages(world.clock.elapsed());
    until(|| ages().detached_for.is_some()).await;
    world.clock.advance(MINUTE);
    assert_eq!(ages().detached_for, Some(MINUTE));
    let mut browser = world.browser().await;
    assert_eq!(browser.output(4).await, b"\x1bc$ ");
    assert_eq!(ages().detached_for, None);
    let markers = world.markers();
    assert_eq!(markers.last().unwrap(), "attached");
    assert!(markers.contains(&"detached: the browser closed the connection".to_owned()));
}

#[tokio::test]
async fn a_frame_above_all_limits_closes_the_connection_and_not_the_session() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    browser.notice().await;
    let large = json!({ "type": "input", "data": "x".repeat(INPUT_WAITS + 1) });
    browser.send(large).await;
    assert_eq!(browser.notice().await["type"], "error");
    browser
        .0
        .send(Message::Binary(vec![0; 10].into()))
        .await
        .unwrap();
    assert_eq!(browser.notice().await["type"], "error");
    // The write may fail when the other side has hung up already.
    let _ = browser
        .0
        .send(Message::Text("x".repeat(2 << 20).into()))
        .await;
    assert_eq!(browser.notice().await["type"], "error");
    assert_eq!(browser.next().await, None);
    assert_eq!(pod.typed(), b"\n");
    world.browser().await.notice().await;
}

#[tokio::test]
async fn ending_asks_the_shell_to_exit_and_waits_for_it() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    browser.notice().await;
    let terminal = world.terminal.clone();
    let ending =
        tokio::spawn(async move { terminal.end("ended by user", Duration::from_secs(2)).await });
    assert_eq!(
        browser.notice().await,
        json!({ "type": "ended", "reason": "ended by user" })
    );
    assert_eq!(browser.next().await, None);
    until(|| pod.typed() == b"\n\x03").await;
    world.clock.advance(Duration::from_millis(200));
    until(|| pod.typed() == b"\n\x03exit\n").await;
    pod.write("exit\r\n");
    pod.close();
    ending.await.unwrap();
    assert_eq!(world.recorded("o"), b"exit\r\n");
    assert_eq!(world.markers().last().unwrap(), "ended: ended by user");
    assert_eq!(world.terminal.next_event().await, None);
    world.recording.seal().await.unwrap();
}

#[tokio::test]
async fn ending_a_shell_that_does_not_exit_is_bounded() {
    let world = World::new().await;
    let (_browser, pod) = world.open().await;
    let terminal = world.terminal.clone();
    let ending =
        tokio::spawn(async move { terminal.end("idle for 10 minutes", MINUTE / 30).await });
    until(|| pod.typed() == b"\n\x03").await;
    world.clock.advance(Duration::from_millis(200));
    until(|| pod.typed().ends_with(b"exit\n")).await;
    world.clock.advance(Duration::from_secs(2));
    ending.await.unwrap();
    assert!(pod.is_dropped());
}

#[tokio::test]
async fn qt20_a_stream_that_breaks_is_told_and_another_goes_on_in_the_same_recording() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    pod.write("before");
    browser.output(6).await;
    pod.break_stream();
    assert_eq!(
        world.terminal.next_event().await,
        Some(TerminalEvent::ShellStreamClosed)
    );
    assert!(pod.is_dropped());
    world
        .terminal
        .detach_all("the connection to the pod broke; reconnect");
    assert_eq!(
        browser.notice().await["reason"],
        "the connection to the pod broke; reconnect"
    );
    let pod = world.shell();
    pod.write(" after");
    until(|| world.recorded("o") == b"before after").await;
    until(|| !pod.inputs().is_empty()).await;
    assert_eq!(
        pod.inputs(),
        [ShellInput::Resize {
            cols: 100,
            rows: 30
        }],
        "and no newline"
    );
}

#[tokio::test]
async fn the_hard_stop_needs_nobody_to_ask_for_it() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    browser.notice().await;
    world.terminal.extend(world.clock.elapsed() + MINUTE * 31);
    assert_eq!(
        browser.notice().await,
        json!({ "type": "extended", "secondsLeft": 1860 })
    );
    world.clock.jump_wall(jiff::SignedDuration::from_hours(5));
    world.clock.advance(MINUTE * 31 - Duration::from_millis(1));
    // The browser gave no sign of life in one step of half an hour; its stream is not the point.
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(
        world.terminal.next_event().await,
        Some(TerminalEvent::DeadlineStruck)
    );
    until(|| pod.typed() == b"\n\x03").await;
}

#[tokio::test]
async fn a_terminal_that_nobody_holds_is_over_and_its_shell_only_disconnected() {
    let world = World::new().await;
    let (mut browser, pod) = world.open().await;
    browser.notice().await;
    drop(world.terminal);
    assert_eq!(browser.notice().await["type"], "detached");
    until(|| pod.is_dropped()).await;
    assert_eq!(pod.typed(), b"\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// However the shell's writes are cut, browser and recording get the same bytes, in order.
    #[test]
    fn any_output_reaches_browser_and_recording_unchanged(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            let (mut browser, pod) = world.open().await;
            let expected = pieces.concat();
            for piece in pieces {
                pod.write(piece);
            }
            assert_eq!(browser.output(expected.len()).await, expected);
            // What a decoder still holds of a cut character comes with the end.
            pod.write(" ");
            browser.output(1).await;
            assert_eq!(world.recorded("o"), [expected, b" ".to_vec()].concat());
        });
    }
}
