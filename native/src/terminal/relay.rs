//! The relay as a state machine: what happens in, effects out. No IO, no clock, no task.
//!
//! Invariants: after each input the caller performs every effect, in order, before it takes
//! anything from the queues (`next_for_browser`, `next_for_shell`): so output is recorded before
//! the browser gets it and input before the pod does (T-17). Once the end began, the browser gets
//! no more output (qR46). What waits is bounded by `wants_output` and `wants_input` (T-2), and
//! neither depends on the other side being stuck (T-14).

mod ending;
mod timeouts;
mod typing;

use super::frames::{BadFrame, BrowserFrame, Notice};
use super::handle::TerminalEvent;
use super::queues::{BrowserQueue, ShellQueue, ToBrowser};
use super::scrollback::Scrollback;
use super::timers::{Timer, Timers};
use crate::ports::Elapsed;
use crate::ports::cluster::ShellInput;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;
use typing::Answers;

/// The most output that is read, recorded and sent at once.
pub const BATCH: usize = 64 * 1024;
/// The most output under way to a browser that acknowledges what it has drawn (T-15).
pub const WINDOW: u64 = 512 * 1024;
/// The most input that waits for a shell before the browser is not read any further.
pub const INPUT_WAITS: usize = 64 * 1024;
/// How often both sides are asked for a sign of life (T-8).
pub const PING: Duration = Duration::from_secs(10);
/// Without one for so long a side counts as gone.
pub const GONE: Duration = Duration::from_secs(30);
/// At most 20 sizes a second are recorded and passed on (qT19).
const RESIZE_APART: Duration = Duration::from_millis(50);
const RESIZES: usize = 20;
const RESIZES_WITHIN: Duration = Duration::from_secs(1);
/// How long the first terminal has to say its size.
const FIRST_SIZE: Duration = Duration::from_secs(1);
/// The size of a terminal that does not say.
const USUAL_SIZE: (u16, u16) = (80, 24);
/// So many frames that are not understood are forgiven, and one more each half second.
const BAD_FRAMES: u32 = 20;
const FORGIVEN_EACH: Duration = Duration::from_millis(500);

/// What the browser is told that another one replaces (T-4).
pub const REPLACED: &str = "opened in another tab";
/// Ordinary closure, for a WebSocket's close frame.
pub const CLOSE_NORMAL: u16 = 1000;
/// The peer does what it may not do.
pub const CLOSE_POLICY: u16 = 1008;
/// The peer's message is larger than anything that is looked at.
pub const CLOSE_TOO_LARGE: u16 = 1009;

/// What the caller must do, in order. No `Debug`: it holds what people type.
#[derive(PartialEq, Eq)]
pub enum Effect {
    /// Record output.
    Output(Bytes),
    /// Record input.
    Input(Bytes),
    /// Record a size.
    Resize(u16, u16),
    /// Record a marker.
    Marker(Cow<'static, str>),
    /// Send these last frames to the browser, then close its connection with the code.
    Hangup(Vec<ToBrowser>, u16),
    /// Close the stream to the shell.
    DropShell,
    /// Tell the session.
    Tell(TerminalEvent),
    /// The terminal is over.
    Over,
}

struct Browser {
    sent: u64,
    drawn: u64,
    acks: bool,
    bad_frames: u32,
    forgiven_at: Elapsed,
    told_no_shell: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The shell is asked to exit; the time by which it is waited for.
    Ending {
        by: Elapsed,
    },
    Over,
}

/// The launcher in the debug container waits for one newline, so that nothing is printed before
/// the first terminal's size is set. It gets it once in a session's life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Launch {
    /// Nobody attached yet.
    Waiting,
    /// Due as soon as there is a shell.
    Due,
    /// Done, by this process or a former one.
    Done,
}

/// One terminal's state.
pub struct Relay {
    phase: Phase,
    launch: Launch,
    deadline: Elapsed,
    timers: Timers,
    browser: Option<Browser>,
    to_browser: BrowserQueue,
    shell: bool,
    to_shell: ShellQueue,
    scrollback: Scrollback,
    size: Option<(u16, u16)>,
    wanted_size: Option<(u16, u16)>,
    /// When the last `RESIZES` sizes were passed on, oldest first.
    resized: VecDeque<Elapsed>,
    active_at: Elapsed,
    detached_since: Option<Elapsed>,
    /// Since when each side owes an answer to a ping.
    browser_asked: Option<Elapsed>,
    shell_asked: Option<Elapsed>,
    answers: Answers,
    reason: String,
    effects: VecDeque<Effect>,
}

impl Relay {
    /// A terminal that nobody has attached to, and without a shell yet.
    pub fn new(now: Elapsed, deadline: Elapsed, launch: Launch) -> Self {
        let mut relay = Self {
            phase: Phase::Open,
            launch,
            deadline,
            timers: Timers::default(),
            browser: None,
            to_browser: BrowserQueue::default(),
            shell: false,
            to_shell: ShellQueue::default(),
            scrollback: Scrollback::default(),
            size: None,
            wanted_size: None,
            resized: VecDeque::new(),
            active_at: now,
            detached_since: Some(now),
            browser_asked: None,
            shell_asked: None,
            answers: Answers::default(),
            reason: String::new(),
            effects: VecDeque::new(),
        };
        relay.set_deadline(now, deadline);
        relay
    }

    /// The next thing to do.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The next frame for the browser, once it can take one.
    pub fn next_for_browser(&mut self) -> Option<ToBrowser> {
        let browser = self.browser.as_mut()?;
        let frame = self.to_browser.next()?;
        if let ToBrowser::Output(bytes) = &frame {
            browser.sent += bytes.len() as u64;
        }
        Some(frame)
    }

    /// The next input for the shell, once it can take one.
    pub fn next_for_shell(&mut self) -> Option<ShellInput> {
        if self.shell {
            self.to_shell.next()
        } else {
            None
        }
    }

    /// Whether there is something for the browser.
    pub fn browser_waits(&self) -> bool {
        self.browser.is_some() && !self.to_browser.is_empty()
    }

    /// Whether there is something for the shell.
    pub fn shell_waits(&self) -> bool {
        self.shell && !self.to_shell.is_empty()
    }

    /// Whether the shell is to be read. Not while output waits for a browser: the pod's own
    /// buffers fill instead of ours (T-2).
    pub fn wants_output(&self) -> bool {
        let room = |browser: &Browser| {
            let under_way = if browser.acks {
                browser.sent - browser.drawn
            } else {
                0
            };
            // While the browser is not read, its acknowledgements do not arrive either.
            let drawing = under_way + BATCH as u64 <= WINDOW || !self.wants_input();
            !self.to_browser.output_waits() && drawing
        };
        self.shell && self.browser.as_ref().is_none_or(room)
    }

    /// Whether the browser is to be read. Not while its input waits for a shell that does not
    /// take it.
    pub fn wants_input(&self) -> bool {
        self.to_shell.stdin_len() < INPUT_WAITS
    }

    /// When to call `tick` at the latest.
    pub fn next_timeout(&self) -> Option<Elapsed> {
        self.timers.next()
    }

    /// Since when there is no browser.
    pub fn detached_since(&self) -> Option<Elapsed> {
        self.detached_since
    }

    /// When there was input or output last.
    pub fn active_at(&self) -> Elapsed {
        self.active_at
    }

    /// A browser connected. It replaces the one before (T-4) and gets the recent output (T-9).
    pub fn browser_attached(&mut self, now: Elapsed) {
        self.detach(now, REPLACED);
        let left = self.seconds_left(now);
        self.browser = Some(Browser {
            sent: 0,
            drawn: 0,
            acks: false,
            bad_frames: 0,
            forgiven_at: now,
            told_no_shell: false,
        });
        if self.phase != Phase::Open {
            let reason = self.reason.clone();
            self.hang_up(Some(Notice::Ended { reason: &reason }), CLOSE_NORMAL);
            return;
        }
        self.detached_since = None;
        self.mark("attached");
        self.tell(&Notice::Attached { seconds_left: left });
        if let Some(snapshot) = self.scrollback.snapshot() {
            self.to_browser.output(snapshot);
        }
        if self.launch == Launch::Waiting {
            self.timers.set_if_unset(Timer::FirstSize, now + FIRST_SIZE);
        }
    }

    /// The browser sent a text frame.
    pub fn browser_frame(&mut self, now: Elapsed, frame: Result<BrowserFrame, BadFrame>) {
        self.browser_alive(now);
        if self.phase != Phase::Open {
            return;
        }
        match frame {
            Ok(BrowserFrame::Input(text)) => self.input(now, text),
            Ok(BrowserFrame::Resize { cols, rows }) => self.resize(now, (cols, rows)),
            Ok(BrowserFrame::Ack(bytes)) => {
                if let Some(browser) = &mut self.browser {
                    browser.acks = true;
                    browser.drawn = browser.drawn.saturating_add(bytes).min(browser.sent);
                }
            }
            Err(bad) => self.bad_frame(now, bad),
        }
    }

    /// The browser gave a sign of life.
    pub fn browser_alive(&mut self, now: Elapsed) {
        if self.browser.is_some() {
            self.browser_asked = None;
            self.timers.set(Timer::BrowserGone, now + GONE);
        }
    }

    /// The browser's connection is closed or broken.
    pub fn browser_gone(&mut self, now: Elapsed, why: &'static str) {
        if self.browser.is_some() {
            self.hang_up(None, CLOSE_NORMAL);
            self.note_detached(now, why);
        }
    }

    /// The browser sent more at once than is even looked at.
    pub fn browser_too_large(&mut self, now: Elapsed) {
        let message = &BadFrame::TooLarge.to_string();
        self.hang_up(Some(Notice::Error { message }), CLOSE_TOO_LARGE);
        self.note_detached(now, "a frame was too large");
    }

    /// Disconnects the browser; the session goes on.
    pub fn detach(&mut self, now: Elapsed, reason: &str) {
        if self.browser.is_some() {
            self.hang_up(Some(Notice::Detached { reason }), CLOSE_NORMAL);
            self.note_detached(now, reason);
        }
    }

    /// Whether a new stream to the shell is of use: not once the end began.
    pub fn takes_shell(&self) -> bool {
        self.phase == Phase::Open
    }

    /// There is a stream to the shell; the first, or one after another broke.
    pub fn shell_attached(&mut self, now: Elapsed) {
        self.shell = true;
        self.forget_silence();
        self.to_shell = ShellQueue::default();
        if let Some(browser) = &mut self.browser {
            browser.told_no_shell = false;
        }
        match self.launch {
            Launch::Waiting => {}
            Launch::Due => self.launch(now),
            Launch::Done => {
                if let Some((cols, rows)) = self.size {
                    self.to_shell.resize(cols, rows);
                }
            }
        }
    }

    /// The shell wrote something.
    pub fn output(&mut self, now: Elapsed, mut bytes: Bytes) {
        self.shell_alive(now);
        if self.phase == Phase::Over || bytes.is_empty() {
            return;
        }
        self.active_at = now;
        self.scrollback.push(&bytes);
        if self.browser.is_some() {
            self.to_browser.output(bytes.clone());
        }
        while bytes.len() > BATCH {
            self.effects
                .push_back(Effect::Output(bytes.split_to(BATCH)));
        }
        self.effects.push_back(Effect::Output(bytes));
    }

    /// The shell's side gave a sign of life.
    pub fn shell_alive(&mut self, now: Elapsed) {
        if self.shell {
            self.shell_asked = None;
            self.timers.set(Timer::ShellGone, now + GONE);
            self.shell_answered();
        }
    }

    /// The stream to the shell ended or broke. Why, only the cluster can say (T-5).
    pub fn shell_closed(&mut self) {
        if !std::mem::take(&mut self.shell) {
            return;
        }
        self.to_shell = ShellQueue::default();
        self.timers.clear(Timer::ShellGone);
        self.forget_silence();
        self.effects.push_back(Effect::DropShell);
        match self.phase {
            Phase::Open => {
                self.mark("the stream to the shell closed");
                self.effects
                    .push_back(Effect::Tell(TerminalEvent::ShellStreamClosed));
            }
            Phase::Ending { .. } => self.finish(),
            Phase::Over => {}
        }
    }

    fn resize(&mut self, now: Elapsed, size: (u16, u16)) {
        if self.launch != Launch::Done {
            self.size = Some(size);
            self.launch(now);
            return;
        }
        let apart = self.resized.back().map_or(now, |last| *last + RESIZE_APART);
        let due = apart.max(self.size_room_at(now));
        if due <= now {
            self.wanted_size = None;
            self.apply_size(now, size);
        } else {
            self.wanted_size = Some(size);
            self.timers.set_if_unset(Timer::Resize, due);
        }
    }

    /// From when on one more size is within qT19's bound.
    fn size_room_at(&self, now: Elapsed) -> Elapsed {
        let oldest = self.resized.front();
        let oldest = oldest.filter(|_| self.resized.len() >= RESIZES);
        oldest.map_or(now, |oldest| *oldest + RESIZES_WITHIN)
    }

    fn apply_size(&mut self, now: Elapsed, (cols, rows): (u16, u16)) {
        if self.size != Some((cols, rows)) {
            self.set_size(now, cols, rows);
        }
    }

    fn set_size(&mut self, now: Elapsed, cols: u16, rows: u16) {
        self.size = Some((cols, rows));
        self.resized.push_back(now);
        if self.resized.len() > RESIZES {
            self.resized.pop_front();
        }
        self.effects.push_back(Effect::Resize(cols, rows));
        self.to_shell.resize(cols, rows);
    }

    /// Size first, then the newline that the launcher waits for. The newline is nobody's input.
    fn launch(&mut self, now: Elapsed) {
        self.timers.clear(Timer::FirstSize);
        if !self.shell {
            self.launch = Launch::Due;
        } else if self.launch != Launch::Done {
            self.launch = Launch::Done;
            let (cols, rows) = self.size.unwrap_or(USUAL_SIZE);
            self.set_size(now, cols, rows);
            self.to_shell.stdin(b"\n");
        }
    }

    fn bad_frame(&mut self, now: Elapsed, bad: BadFrame) {
        let Some(browser) = &mut self.browser else {
            return;
        };
        let forgiven = now.since(browser.forgiven_at).as_millis() / FORGIVEN_EACH.as_millis();
        if forgiven > 0 {
            let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
            browser.bad_frames = browser.bad_frames.saturating_sub(forgiven);
            browser.forgiven_at = now;
        }
        browser.bad_frames += 1;
        let flood = browser.bad_frames > BAD_FRAMES;
        let told = !flood
            && self.to_browser.text(
                Notice::Error {
                    message: &bad.to_string(),
                }
                .text(),
            );
        if !told {
            let message = "too many frames that are not understood; the connection is closed";
            self.hang_up(Some(Notice::Error { message }), CLOSE_POLICY);
            self.note_detached(now, "too many frames that are not understood");
        }
    }

    fn tell(&mut self, notice: &Notice<'_>) {
        if self.browser.is_some() {
            self.to_browser.text(notice.text());
        }
    }

    fn mark(&mut self, text: impl Into<Cow<'static, str>>) {
        self.effects.push_back(Effect::Marker(text.into()));
    }
}

#[cfg(test)]
mod tests;
