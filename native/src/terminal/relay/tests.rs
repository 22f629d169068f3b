mod endings;
mod frames;
mod silence;

use super::*;
use crate::ports::cluster::ShellInput;

const MINUTE: Duration = Duration::from_secs(60);

/// A relay, a clock, and everything it recorded, sent and told.
struct World {
    relay: Relay,
    now: Elapsed,
    recorded: Vec<String>,
    browser: Vec<u8>,
    notices: Vec<String>,
    pings: usize,
    hung_up: Vec<(Vec<String>, u16)>,
    shell: Vec<String>,
    told: Vec<TerminalEvent>,
    over: bool,
}

impl World {
    fn starting(launch: Launch) -> Self {
        let now = Elapsed::new(MINUTE);
        Self {
            relay: Relay::new(now, now + MINUTE * 30, launch),
            now,
            recorded: Vec::new(),
            browser: Vec::new(),
            notices: Vec::new(),
            pings: 0,
            hung_up: Vec::new(),
            shell: Vec::new(),
            told: Vec::new(),
            over: false,
        }
    }

    /// A session under way: attached, with a size, and its shell running.
    fn open() -> Self {
        let mut world = Self::starting(Launch::Done);
        world.relay.shell_attached(world.now);
        world.relay.browser_attached(world.now);
        world.settle();
        world.forget();
        world
    }

    fn forget(&mut self) {
        self.recorded.clear();
        self.browser.clear();
        self.notices.clear();
        self.shell.clear();
    }

    fn record(&mut self) {
        while let Some(effect) = self.relay.next_effect() {
            match effect {
                Effect::Output(bytes) => self.recorded.push(format!("o {}", text(&bytes))),
                Effect::Input(bytes) => self.recorded.push(format!("i {}", text(&bytes))),
                Effect::Resize(cols, rows) => self.recorded.push(format!("r {cols}x{rows}")),
                Effect::Marker(text) => self.recorded.push(format!("m {text}")),
                Effect::Hangup(frames, code) => {
                    let frames = frames.into_iter().map(|frame| match frame {
                        ToBrowser::Output(bytes) => text(&bytes),
                        ToBrowser::Text(text) => text,
                        ToBrowser::Ping => "ping".to_owned(),
                    });
                    self.hung_up.push((frames.collect(), code));
                }
                Effect::DropShell => self.shell.push("dropped".to_owned()),
                Effect::Tell(event) => self.told.push(event),
                Effect::Over => self.over = true,
            }
        }
    }

    fn drain_shell(&mut self) {
        while let Some(input) = self.relay.next_for_shell() {
            match input {
                ShellInput::Stdin(bytes) => self.shell.push(format!("stdin {}", text(&bytes))),
                ShellInput::Resize { cols, rows } => self.shell.push(format!("{cols}x{rows}")),
                ShellInput::Ping => self.pings += 1,
            }
        }
    }

    fn drain_browser(&mut self) {
        while let Some(frame) = self.relay.next_for_browser() {
            match frame {
                ToBrowser::Output(bytes) => self.browser.extend(bytes),
                ToBrowser::Text(text) => self.notices.push(text),
                ToBrowser::Ping => self.pings += 1,
            }
        }
    }

    fn settle(&mut self) {
        self.relay.tick(self.now);
        self.record();
        self.drain_shell();
        self.drain_browser();
        self.relay.tick(self.now);
    }

    /// Time passes; every timer strikes at its moment, and both sides answer pings if they are
    /// alive.
    fn pass(&mut self, duration: Duration, alive: bool) {
        self.settle();
        let until = self.now + duration;
        while let Some(at) = self.relay.next_timeout().filter(|at| *at <= until) {
            self.now = at;
            let pings = self.pings;
            self.settle();
            if alive && self.pings > pings {
                self.relay.browser_alive(self.now);
                self.relay.shell_alive(self.now);
            }
        }
        self.now = until;
        self.settle();
    }

    fn frame(&mut self, text: &str) {
        self.relay
            .browser_frame(self.now, super::super::frames::parse(text));
    }

    fn types(&mut self, text: &str) {
        self.relay
            .browser_frame(self.now, Ok(BrowserFrame::Input(text.to_owned())));
    }

    fn resizes(&mut self, cols: u16, rows: u16) {
        self.relay
            .browser_frame(self.now, Ok(BrowserFrame::Resize { cols, rows }));
    }

    fn writes(&mut self, text: &'static str) {
        self.relay
            .output(self.now, Bytes::from_static(text.as_bytes()));
    }

    fn detached_for(&self) -> Option<Duration> {
        self.relay
            .detached_since()
            .map(|since| self.now.since(since))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn qt1_the_first_terminals_size_is_set_before_the_launcher_goes_on() {
    let mut world = World::starting(Launch::Waiting);
    world.relay.shell_attached(world.now);
    world.settle();
    assert_eq!(world.shell, [""; 0], "nobody is there to see it");
    world.relay.browser_attached(world.now);
    world.resizes(132, 43);
    world.types("stty size\r");
    world.settle();
    assert_eq!(world.shell, ["132x43", "stdin \nstty size\r"]);
    assert_eq!(world.recorded, ["m attached", "r 132x43", "i stty size\r"]);
}

#[test]
fn a_terminal_that_says_no_size_gets_the_usual_one_after_a_second() {
    let mut world = World::starting(Launch::Waiting);
    world.relay.shell_attached(world.now);
    world.relay.browser_attached(world.now);
    world.pass(Duration::from_millis(999), true);
    assert_eq!(world.shell, [""; 0]);
    world.pass(Duration::from_millis(1), true);
    assert_eq!(world.shell, ["80x24", "stdin \n"]);
}

#[test]
fn a_first_key_does_not_wait_for_a_size() {
    let mut world = World::starting(Launch::Waiting);
    world.relay.shell_attached(world.now);
    world.relay.browser_attached(world.now);
    world.types("a");
    world.settle();
    assert_eq!(world.shell, ["80x24", "stdin \na"]);
}

#[test]
fn the_launcher_gets_one_newline_in_a_sessions_life() {
    let mut world = World::starting(Launch::Waiting);
    world.relay.browser_attached(world.now);
    world.resizes(100, 30);
    world.settle();
    world.relay.shell_attached(world.now);
    world.settle();
    assert_eq!(
        world.shell,
        ["100x30", "stdin \n"],
        "the size came before the shell"
    );
    world.forget();
    world.relay.browser_attached(world.now);
    world.relay.shell_closed();
    world.relay.shell_attached(world.now);
    world.settle();
    assert_eq!(
        world.shell,
        ["dropped", "100x30"],
        "a new stream gets the size alone"
    );
}

#[test]
fn output_is_recorded_before_the_browser_can_have_it() {
    let mut world = World::open();
    world.writes("hello");
    assert!(world.relay.next_effect() == Some(Effect::Output(Bytes::from_static(b"hello"))));
    world.settle();
    assert_eq!(world.browser, b"hello");
}

#[test]
fn what_is_larger_than_a_batch_is_recorded_in_batches_and_sent_in_frames() {
    let mut world = World::open();
    let bytes: Bytes = vec![b'x'; BATCH * 2 + 1].into();
    world.relay.output(world.now, bytes.clone());
    world.record();
    let sizes: Vec<_> = world.recorded.iter().map(|event| event.len() - 2).collect();
    assert_eq!(sizes, [BATCH, BATCH, 1]);
    let mut sent = Vec::new();
    while let Some(ToBrowser::Output(frame)) = world.relay.next_for_browser() {
        assert!(frame.len() <= 16 * 1024);
        sent.extend(frame);
    }
    assert_eq!(sent, bytes);
}

#[test]
fn a_failed_recording_stops_everything_at_once() {
    let mut world = World::open();
    world.types("secret");
    world.writes("output");
    world.relay.recording_failed();
    world.settle();
    assert_eq!(world.shell, ["dropped"]);
    assert_eq!(
        (world.browser.as_slice(), &world.recorded),
        (&b""[..], &vec![])
    );
    let ended = r#"{"type":"ended","reason":"recording could not be written"}"#;
    assert_eq!(world.hung_up, [(vec![ended.to_owned()], CLOSE_NORMAL)]);
    assert_eq!(
        (world.told, world.over),
        (vec![TerminalEvent::RecordingFailed], true)
    );
}

#[test]
fn a_second_browser_replaces_the_first_and_gets_the_recent_output() {
    let mut world = World::open();
    world.writes("$ ls\r\nfile\r\n$ ");
    world.settle();
    world.forget();
    world.relay.browser_attached(world.now);
    world.settle();
    let detached = r#"{"type":"detached","reason":"opened in another tab"}"#;
    assert_eq!(world.hung_up, [(vec![detached.to_owned()], CLOSE_NORMAL)]);
    assert_eq!(world.notices, [r#"{"type":"attached","secondsLeft":1800}"#]);
    assert_eq!(text(&world.browser), "\u{1b}c$ ls\r\nfile\r\n$ ");
    assert_eq!(
        world.recorded,
        ["m detached: opened in another tab", "m attached"]
    );
    assert_eq!(world.detached_for(), None);
}

#[test]
fn without_a_browser_the_shell_is_drained_into_the_recording() {
    let mut world = World::open();
    world
        .relay
        .browser_gone(world.now, "the browser closed the connection");
    world.settle();
    for _ in 0..100 {
        assert!(world.relay.wants_output());
        world.writes("still running\r\n");
        world.settle();
    }
    world.pass(MINUTE, true);
    assert_eq!(world.recorded.len(), 101);
    assert_eq!(world.detached_for(), Some(MINUTE));
    assert!(world.now.since(world.relay.active_at()) >= MINUTE);
}

#[test]
fn a_browser_that_does_not_read_stops_the_reading_of_the_shell_and_nothing_else() {
    let mut world = World::open();
    let mut read = 0;
    while world.relay.wants_output() {
        world.relay.output(world.now, vec![b'x'; BATCH].into());
        world.record();
        read += 1;
    }
    assert_eq!(read, 1, "one batch waits, the rest stays in the pod");
    world.types("\u{3}");
    world.resizes(90, 30);
    world.record();
    world.drain_shell();
    assert_eq!(world.shell, ["90x30", "stdin \u{3}"]);
}

#[test]
fn once_a_browser_acknowledges_no_more_than_the_window_is_under_way() {
    let mut world = World::open();
    let fill = |world: &mut World| {
        let before = world.browser.len();
        while world.relay.wants_output() && world.browser.len() < 100 * BATCH {
            world.relay.output(world.now, vec![b'x'; BATCH].into());
            world.settle();
        }
        world.browser.len() - before
    };
    assert_eq!(
        fill(&mut world),
        100 * BATCH,
        "without acknowledgements TCP alone applies"
    );
    world.frame(r#"{"type":"ack","bytes":6553600}"#);
    world.browser.clear();
    assert_eq!(fill(&mut world), WINDOW as usize);
    world.frame(r#"{"type":"ack","bytes":131072}"#);
    assert_eq!(fill(&mut world), 131_072);
    world.frame(r#"{"type":"ack","bytes":18446744073709551615}"#);
    assert_eq!(
        fill(&mut world),
        WINDOW as usize,
        "more than was sent is not believed"
    );
}

#[test]
fn input_that_the_pod_does_not_take_stops_the_reading_of_the_browser_but_not_of_the_shell() {
    let mut world = World::open();
    world.frame(r#"{"type":"ack","bytes":0}"#);
    while world.relay.wants_input() {
        world.types(&"x".repeat(10_000));
        world.record();
    }
    for _ in 0..20 {
        // Its acknowledgements are not read either, so they are not waited for.
        assert!(world.relay.wants_output());
        world.relay.output(world.now, vec![b'x'; BATCH].into());
        world.record();
        world.drain_browser();
    }
    world.drain_shell();
    assert!(world.relay.wants_input());
    assert_eq!(
        world
            .shell
            .iter()
            .map(|it| it.len() - "stdin ".len())
            .sum::<usize>(),
        70_000
    );
}

#[test]
fn qt19_a_flood_of_sizes_is_recorded_at_most_twenty_times_a_second() {
    let mut world = World::open();
    for number in 0..1000 {
        world.resizes(80 + number % 200, 24);
        world.pass(Duration::from_millis(1), true);
    }
    world.pass(MINUTE, true);
    assert!(world.recorded.len() <= 21, "{}", world.recorded.len());
    assert!(world.recorded.len() >= 15, "{}", world.recorded.len());
    assert_eq!(
        world.recorded.last().unwrap(),
        "r 279x24",
        "the last one always counts"
    );
    assert_eq!(world.shell.last().unwrap(), "279x24");
}

#[test]
fn qt19_keys_between_the_sizes_of_a_flood_do_not_lift_its_bound() {
    let mut world = World::open();
    for number in 0..1000 {
        world.resizes(80 + number % 200, 24);
        world.types("x");
        world.pass(Duration::from_millis(1), true);
    }
    let sizes = |world: &World| {
        let sizes = world.recorded.iter().filter(|it| it.starts_with("r "));
        sizes.count()
    };
    assert!((15..=21).contains(&sizes(&world)), "{}", sizes(&world));
    let keys = world.recorded.iter().filter(|it| *it == "i x").count();
    assert_eq!(keys, 1000, "keys wait for no size");
    world.pass(MINUTE, true);
    assert_eq!(world.shell.last().unwrap(), "279x24", "the last one counts");
}

#[test]
fn a_size_is_in_effect_for_the_keys_that_follow_it() {
    let mut world = World::open();
    world.resizes(132, 43);
    world.settle();
    world.resizes(100, 30);
    world.types("stty size");
    world.settle();
    assert_eq!(world.shell, ["132x43", "100x30", "stdin stty size"]);
}

#[test]
fn qt28_a_size_reaches_the_pod_while_attached_and_the_same_size_only_once() {
    let mut world = World::open();
    world.resizes(120, 40);
    world.settle();
    world.pass(MINUTE, true);
    world.resizes(120, 40);
    world.settle();
    assert_eq!(world.shell, ["120x40"]);
    assert_eq!(world.recorded, ["r 120x40"]);
}

#[test]
fn what_is_typed_without_a_shell_is_refused_once_and_neither_recorded_nor_sent() {
    let mut world = World::open();
    world.relay.shell_closed();
    world.types("a");
    world.types("b");
    world.settle();
    let message = "the shell is not connected; what was typed was not sent";
    assert_eq!(
        world.notices,
        [format!(r#"{{"type":"error","message":"{message}"}}"#)]
    );
    assert_eq!(world.recorded, ["m the stream to the shell closed"]);
    world.relay.shell_attached(world.now);
    world.types("c");
    world.settle();
    assert_eq!(world.shell, ["dropped", "stdin c"]);
}
