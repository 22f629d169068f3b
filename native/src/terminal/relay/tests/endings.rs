//! Deadlines, and how a terminal ends.

use super::super::ending::INTERRUPTED;
use super::*;

#[test]
fn the_deadline_is_warned_of_and_struck_exactly() {
    let mut world = World::open();
    world.pass(MINUTE * 25 - Duration::from_millis(1), true);
    assert_eq!(world.notices.len(), 0);
    world.pass(Duration::from_millis(1), true);
    assert_eq!(world.notices, [r#"{"type":"warning","secondsLeft":300}"#]);
    world.pass(MINUTE * 4, true);
    assert_eq!(
        world.notices[1..],
        [r#"{"type":"warning","secondsLeft":60}"#]
    );
    assert_eq!(
        world.recorded,
        ["m warning: 300 s left", "m warning: 60 s left"]
    );
    world.pass(MINUTE - Duration::from_millis(1), true);
    assert_eq!((world.told.len(), world.hung_up.len()), (0, 0));
    world.pass(Duration::from_millis(1), true);
    assert_eq!(world.told, [TerminalEvent::DeadlineStruck]);
    let ended = r#"{"type":"ended","reason":"expired"}"#;
    assert_eq!(world.hung_up, [(vec![ended.to_owned()], CLOSE_NORMAL)]);
}

#[test]
fn qr46_after_the_deadline_the_browser_gets_no_more_output() {
    let mut world = World::open();
    world.pass(MINUTE * 30 - Duration::from_millis(1), true);
    world.forget();
    world.writes("waiting when it struck");
    world.record();
    world.now = world.now + Duration::from_millis(1);
    world.relay.tick(world.now);
    world.writes("after it struck");
    world.record();
    world.drain_browser();
    assert_eq!(world.browser, b"");
    let ended = r#"{"type":"ended","reason":"expired"}"#;
    assert_eq!(world.hung_up, [(vec![ended.to_owned()], CLOSE_NORMAL)]);
    assert!(
        world.recorded.contains(&"o after it struck".to_owned()),
        "it is recorded all the same"
    );
    world.types("too late");
    world.relay.browser_attached(world.now);
    world.record();
    assert_eq!(
        world.hung_up.len(),
        2,
        "who comes back is told that it is over"
    );
    assert!(!world.recorded.contains(&"i too late".to_owned()));
}

#[test]
fn an_extension_moves_deadline_and_warnings() {
    let mut world = World::open();
    world.pass(MINUTE * 26, true);
    world.forget();
    world.relay.extend(world.now, world.now + MINUTE * 34);
    world.settle();
    assert_eq!(world.notices, [r#"{"type":"extended","secondsLeft":2040}"#]);
    world.pass(MINUTE * 29, true);
    assert_eq!(
        world.notices[1..],
        [r#"{"type":"warning","secondsLeft":300}"#]
    );
    world.pass(MINUTE * 5 - Duration::from_millis(1), true);
    assert_eq!(world.told, []);
    world.pass(Duration::from_millis(1), true);
    assert_eq!(world.told, [TerminalEvent::DeadlineStruck]);
}

#[test]
fn a_short_session_is_not_warned_of_what_has_passed() {
    let now = Elapsed::new(MINUTE);
    let mut world = World::open();
    world.relay = Relay::new(now, now + MINUTE * 2, Launch::Done);
    world.now = now;
    world.relay.browser_attached(now);
    world.pass(MINUTE, true);
    let expected = [
        r#"{"type":"attached","secondsLeft":120}"#,
        r#"{"type":"warning","secondsLeft":60}"#,
    ];
    assert_eq!(world.notices, expected);
}

#[test]
fn at_the_end_the_shell_is_asked_to_exit_before_the_stream_closes() {
    let mut world = World::open();
    world.types("rm -rf important");
    world.record();
    world
        .relay
        .end(world.now, "ended by user", Duration::from_secs(2));
    world.settle();
    assert_eq!(
        world.shell,
        ["stdin \u{3}"],
        "what was not sent yet is not sent"
    );
    world.pass(INTERRUPTED, true);
    assert_eq!(world.shell[1..], ["stdin exit\n"]);
    world.writes("exit\r\n");
    world.relay.shell_closed();
    world.settle();
    let expected = [
        "i rm -rf important",
        "m ending: ended by user; the shell is asked to exit",
        "o exit\r\n",
        "m ended: ended by user",
    ];
    assert_eq!(world.recorded, expected);
    assert_eq!(
        (world.over, world.told.len()),
        (true, 0),
        "the session asked for this close"
    );
}

#[test]
fn a_shell_that_does_not_exit_is_left_after_the_bound() {
    let mut world = World::open();
    world
        .relay
        .end(world.now, "idle for 10 minutes", Duration::from_secs(2));
    world.pass(Duration::from_millis(1999), true);
    assert!(!world.over);
    world.pass(Duration::from_millis(1), true);
    assert!(world.over);
    assert_eq!(world.shell.last().unwrap(), "dropped");
    assert_eq!(
        world.recorded.last().unwrap(),
        "m ended: idle for 10 minutes"
    );
}

#[test]
fn after_the_shell_exited_its_last_words_reach_the_browser_before_the_end() {
    let mut world = World::open();
    world.writes("logout\r\n");
    world.relay.shell_closed();
    world
        .relay
        .end(world.now, "shell exited", Duration::from_secs(2));
    world.record();
    let frames = vec![
        "logout\r\n".to_owned(),
        r#"{"type":"ended","reason":"shell exited"}"#.to_owned(),
    ];
    assert_eq!(world.hung_up, [(frames, CLOSE_NORMAL)]);
    assert!(world.over);
}

#[test]
fn qt22_ten_reconnects_leave_one_shell() {
    let mut world = World::open();
    for _ in 0..10 {
        world.relay.browser_gone(world.now, "the connection broke");
        world.relay.browser_attached(world.now);
        world.resizes(100, 30);
        world.settle();
    }
    assert_eq!(
        world.shell,
        ["100x30"],
        "no newline, no second attach, nothing dropped"
    );
    world
        .relay
        .end(world.now, "ended by user", Duration::from_secs(2));
    world.pass(INTERRUPTED, true);
    assert_eq!(world.shell[1..], ["stdin \u{3}", "stdin exit\n"]);
}
