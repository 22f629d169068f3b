//! What time does to a terminal: deadline, warnings, pings, sizes that were held back.
//!
//! Invariant: the hard stop strikes at its moment and waits for nobody (T-7).

use super::{Effect, GONE, Launch, PING, Phase, Relay};
use crate::ports::Elapsed;
use crate::terminal::frames::Notice;
use crate::terminal::handle::TerminalEvent;
use crate::terminal::timers::Timer;
use decisions::reason::EndReason;
use std::time::Duration;

/// How long a shell has at the deadline, where nobody asked for an end with a bound of its own.
const EXIT_WITHIN: Duration = Duration::from_secs(2);

impl Relay {
    /// The deadline is another one.
    pub fn extend(&mut self, now: Elapsed, deadline: Elapsed) {
        if self.phase == Phase::Open {
            self.set_deadline(now, deadline);
            let seconds_left = self.seconds_left(now);
            self.mark(format!("extended: {seconds_left} s left"));
            self.tell(&Notice::Extended { seconds_left });
        }
    }

    /// Time passed, or the caller is done with what came: strikes what is due, and sets what
    /// depends on who is connected and being read. Whether something struck.
    pub fn tick(&mut self, now: Elapsed) -> bool {
        let mut struck = false;
        while let Some(timer) = self.timers.take_due(now) {
            self.strike(now, timer);
            struck = true;
        }
        if self.phase == Phase::Over {
            return struck;
        }
        if self.shell || self.browser.is_some() {
            self.timers.set_if_unset(Timer::Ping, now + PING);
        }
        // A sign of life cannot be heard from a side that is not read.
        if self.wants_output() {
            self.timers.set_if_unset(Timer::ShellGone, now + GONE);
        } else {
            self.timers.clear(Timer::ShellGone);
            self.shell_asked = None;
        }
        if self.browser.is_some() && self.wants_input() {
            self.timers.set_if_unset(Timer::BrowserGone, now + GONE);
        } else {
            self.timers.clear(Timer::BrowserGone);
            self.browser_asked = None;
        }
        struck
    }

    fn strike(&mut self, now: Elapsed, timer: Timer) {
        match timer {
            Timer::Deadline => {
                self.effects
                    .push_back(Effect::Tell(TerminalEvent::DeadlineStruck));
                self.end(now, &EndReason::Expired.to_string(), EXIT_WITHIN);
            }
            Timer::WarnFiveMinutes | Timer::WarnOneMinute => {
                let seconds_left = self.seconds_left(now);
                self.mark(format!("warning: {seconds_left} s left"));
                self.tell(&Notice::Warning { seconds_left });
            }
            Timer::Ping => {
                self.to_shell.ping();
                self.to_browser.ping();
                self.shell_asked.get_or_insert(now);
                self.browser_asked.get_or_insert(now);
            }
            Timer::BrowserGone => match still_owed(now, self.browser_asked) {
                Some(wait) => self.timers.set(timer, wait),
                None => self.browser_gone(now, "no sign of life for 30 s"),
            },
            Timer::ShellGone => match still_owed(now, self.shell_asked) {
                Some(wait) => self.timers.set(timer, wait),
                None => self.shell_closed(),
            },
            Timer::Answer => self.doubt(now),
            Timer::Resize => {
                if let Some(size) = self.wanted_size.take() {
                    self.resize(now, size);
                }
            }
            Timer::FirstSize => self.launch(now),
            Timer::Exit => {
                if let Phase::Ending { by } = self.phase {
                    if now < by {
                        // A launcher that still waits takes the first line for its own.
                        let line: &[u8] = match self.launch {
                            Launch::Done => b"exit\n",
                            Launch::Waiting | Launch::Due => b"\nexit\n",
                        };
                        self.to_shell.stdin(line);
                        self.timers.set(Timer::Exit, by);
                    } else {
                        self.finish();
                    }
                }
            }
        }
    }

    pub(super) fn set_deadline(&mut self, now: Elapsed, deadline: Elapsed) {
        self.deadline = deadline;
        self.timers.set(Timer::Deadline, deadline);
        let left = deadline.since(now);
        let warnings = [(Timer::WarnFiveMinutes, 300), (Timer::WarnOneMinute, 60)];
        for (timer, before) in warnings.map(|(timer, secs)| (timer, Duration::from_secs(secs))) {
            match left.checked_sub(before) {
                Some(wait) if !wait.is_zero() => self.timers.set(timer, now + wait),
                _ => self.timers.clear(timer),
            }
        }
    }

    pub(super) fn seconds_left(&self, now: Elapsed) -> u64 {
        // Rounded up: a warning that is a little late still says 300 or 60.
        self.deadline
            .since(now)
            .as_millis()
            .div_ceil(1000)
            .try_into()
            .unwrap_or(u64::MAX)
    }
}

/// Until when a side that was silent for long may still answer: it was asked only a moment ago,
/// because this machine slept, not the side.
fn still_owed(now: Elapsed, asked: Option<Elapsed>) -> Option<Elapsed> {
    let wait = asked.unwrap_or(now) + PING;
    (wait > now).then_some(wait)
}
