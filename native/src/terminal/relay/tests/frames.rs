//! Frames that are not understood.

use super::*;

#[test]
fn a_frame_that_is_not_understood_is_answered_and_harmless() {
    let mut world = World::open();
    world.frame("{");
    world.frame(r#"{"type":"sudo"}"#);
    world.types("x");
    world.settle();
    assert_eq!(world.notices.len(), 2);
    assert!(
        world
            .notices
            .iter()
            .all(|notice| notice.contains(r#""type":"error""#))
    );
    assert_eq!(world.recorded, ["i x"]);
}

#[test]
fn a_flood_of_frames_that_are_not_understood_closes_the_socket_and_not_the_session() {
    let mut world = World::open();
    for _ in 0..20 {
        world.frame("{");
    }
    world.settle();
    assert_eq!(world.hung_up.len(), 0);
    world.frame("{");
    world.settle();
    assert_eq!(world.hung_up.len(), 1);
    assert_eq!(world.hung_up[0].1, CLOSE_POLICY);
    assert!(!world.over && world.relay.wants_output());
}

#[test]
fn frames_that_are_not_understood_are_forgiven_in_time() {
    let mut world = World::open();
    for _ in 0..300 {
        world.frame("{");
        world.pass(FORGIVEN_EACH, true);
    }
    assert_eq!(world.hung_up.len(), 0);
}

#[test]
fn a_browser_that_complains_and_never_reads_does_not_fill_the_memory() {
    let mut world = World::open();
    for _ in 0..200 {
        world.frame("{");
        world.now = world.now + FORGIVEN_EACH;
        world.relay.tick(world.now);
        world.record();
    }
    assert_eq!(world.hung_up.len(), 1);
}
