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
