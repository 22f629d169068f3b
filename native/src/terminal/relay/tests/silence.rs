//! Sides that say nothing for a while (T-8).

use super::*;

#[test]
fn qt10_qt14_six_minutes_of_silence_end_nothing_while_both_sides_answer() {
    let mut world = World::open();
    world.pass(MINUTE * 6, true);
    assert_eq!(world.pings, 2 * 36);
    assert_eq!((world.hung_up.len(), world.told.len()), (0, 0));
    assert!(!world.shell.contains(&"dropped".to_owned()));
}

#[test]
fn qt11_no_connection_is_silent_for_as_long_as_a_proxy_would_bear_it() {
    const PROXY_CUTS_AFTER: Duration = Duration::from_secs(20);
    let mut world = World::open();
    for _ in 0..18 {
        let before = world.pings;
        world.pass(PROXY_CUTS_AFTER / 2, true);
        assert_eq!(world.pings, before + 2, "one to each side");
    }
    assert_eq!((world.hung_up.len(), world.told.len()), (0, 0));
}

#[test]
fn a_browser_without_a_sign_of_life_for_thirty_seconds_is_gone() {
    let mut world = World::open();
    world.pass(Duration::from_secs(29), false);
    assert_eq!(world.hung_up.len(), 0);
    world.pass(Duration::from_secs(1), false);
    assert_eq!(world.hung_up, [(vec![], CLOSE_NORMAL)]);
    assert_eq!(world.detached_for(), Some(Duration::ZERO));
}

#[test]
fn a_shell_without_a_sign_of_life_for_thirty_seconds_is_gone() {
    let mut world = World::open();
    world.pass(Duration::from_secs(30), false);
    assert_eq!(world.told, [TerminalEvent::ShellStreamClosed]);
    assert_eq!(world.shell, ["dropped"]);
}

#[test]
fn a_shell_that_is_not_read_is_not_blamed_for_its_silence() {
    let mut world = World::open();
    world.relay.output(world.now, vec![b'x'; BATCH].into());
    world.record();
    for _ in 0..12 {
        world.now = world.now + PING;
        world.relay.browser_alive(world.now);
        world.relay.tick(world.now);
        world.record();
        world.drain_shell();
    }
    assert_eq!(world.told, []);
    assert!(world.pings >= 11, "pings flow while output does not");
    world.drain_browser();
    world.pass(GONE, false);
    assert_eq!(
        world.told,
        [TerminalEvent::ShellStreamClosed],
        "from here on it could answer"
    );
}

#[test]
fn sides_that_could_not_answer_while_the_machine_slept_get_a_chance_to() {
    let mut world = World::open();
    world.now = world.now + MINUTE * 10;
    world.settle();
    assert_eq!(
        (world.pings, world.told.len(), world.hung_up.len()),
        (2, 0, 0)
    );
    world.relay.shell_alive(world.now);
    world.pass(PING, false);
    assert_eq!(
        (world.told.len(), world.hung_up.len()),
        (0, 1),
        "the browser did not take it"
    );
}

/// The first error that the browser was told, and after how long.
fn told_after(world: &mut World, alive: bool) -> Option<Duration> {
    let typed = world.now;
    while world.now.since(typed) < Duration::from_secs(29) {
        world.pass(Duration::from_millis(100), alive);
        if world
            .notices
            .iter()
            .any(|it| it.contains("does not answer"))
        {
            return Some(world.now.since(typed));
        }
    }
    None
}

#[test]
fn qt29_who_types_to_a_stream_that_does_not_answer_knows_within_five_seconds() {
    let mut world = World::open();
    world.types("a");
    let after = told_after(&mut world, false).expect("it is told");
    assert!(after <= Duration::from_secs(5), "{after:?}");
    assert!(world.pings >= 1, "asked first");
    world.forget();

    // Nothing more is taken, and nothing is said twice.
    world.types("b");
    world.settle();
    assert_eq!((&world.recorded, &world.notices), (&vec![], &vec![]));
    assert!(!world.shell.contains(&"stdin b".to_owned()));

    // A sign of life is enough to go on; the next silence is told anew.
    world.relay.shell_alive(world.now);
    world.types("c");
    world.settle();
    assert_eq!(
        world.recorded,
        ["m the stream to the shell answers again", "i c"]
    );
    assert!(world.shell.contains(&"stdin c".to_owned()));
    assert!(told_after(&mut world, false).is_some());
}

#[test]
fn qt29_a_shell_that_prints_nothing_is_not_a_stream_that_does_not_answer() {
    let mut world = World::open();
    for _ in 0..3 {
        world.types("a password\n");
        assert_eq!(told_after(&mut world, true), None);
    }
    assert_eq!(world.told, []);
}

#[test]
fn qt29_whoever_attaches_to_a_silent_stream_is_told_at_the_first_key() {
    let mut world = World::open();
    world.types("a");
    told_after(&mut world, false).expect("it is told");
    world.relay.browser_attached(world.now);
    world.settle();
    world.forget();
    world.types("b");
    world.settle();
    assert_eq!(world.notices.len(), 1, "{:?}", world.notices);
    // Another stream starts with a clean slate.
    world.relay.shell_closed();
    world.relay.shell_attached(world.now);
    world.settle();
    world.forget();
    world.types("c");
    world.settle();
    assert!(world.notices.is_empty());
    assert!(world.shell.contains(&"stdin c".to_owned()));
}
