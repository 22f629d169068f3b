//! What is typed, and whether the other side is there to take it (qT29).
//!
//! Invariant: within 5 s of a key that a silent stream was given, whoever typed knows, and no
//! further key is taken until the stream gives a sign of life. A shell that only prints nothing is
//! not silent: its stream answers a ping.

use super::{Effect, Launch, Phase, Relay};
use crate::ports::Elapsed;
use crate::terminal::frames::Notice;
use crate::terminal::timers::Timer;
use std::time::Duration;

/// So long after a key nothing has to come; then the stream is asked whether it is there.
const DOUBT: Duration = Duration::from_secs(2);
/// So long it has to answer.
const ANSWER: Duration = Duration::from_millis(2500);
const SILENT: &str = "the cluster does not answer; what is typed is not sent until it does";

/// What is known of the shell's stream since somebody typed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Answers {
    /// It was heard since.
    #[default]
    Well,
    /// It was not, yet.
    Typed,
    /// It was asked for a sign of life.
    Asked,
    /// It gave none.
    Not,
}

impl Relay {
    pub(super) fn input(&mut self, now: Elapsed, text: String) {
        if !self.shell {
            self.tell_not_sent("the shell is not connected; what was typed was not sent");
            return;
        }
        if self.answers == Answers::Not {
            self.tell_not_sent(SILENT);
            return;
        }
        // Whoever resizes and then types means the keys for the new size. A flood of both waits
        // with its sizes, not with its keys.
        if self.size_room_at(now) <= now
            && let Some(size) = self.wanted_size.take()
        {
            self.timers.clear(Timer::Resize);
            self.apply_size(now, size);
        }
        if self.launch != Launch::Done {
            self.launch(now);
        }
        if text.is_empty() {
            return;
        }
        self.active_at = now;
        self.to_shell.stdin(text.as_bytes());
        if self.answers == Answers::Well {
            self.answers = Answers::Typed;
            self.timers.set(Timer::Answer, now + DOUBT);
        }
        self.effects.push_back(Effect::Input(text.into()));
    }

    /// Nothing was heard since somebody typed.
    pub(super) fn doubt(&mut self, now: Elapsed) {
        if !self.shell || self.phase != Phase::Open {
            return;
        }
        // A sign of life cannot be heard from a side that is not read.
        if !self.wants_output() {
            self.timers.set(Timer::Answer, now + DOUBT);
            return;
        }
        match self.answers {
            Answers::Typed => {
                self.answers = Answers::Asked;
                self.to_shell.ping();
                self.shell_asked.get_or_insert(now);
                self.timers.set(Timer::Answer, now + ANSWER);
            }
            Answers::Asked => {
                self.answers = Answers::Not;
                self.mark("the stream to the shell does not answer");
                self.tell_not_sent(SILENT);
            }
            Answers::Well | Answers::Not => {}
        }
    }

    /// The stream gave a sign of life.
    pub(super) fn shell_answered(&mut self) {
        if self.answers == Answers::Not {
            self.mark("the stream to the shell answers again");
            if let Some(browser) = &mut self.browser {
                browser.told_no_shell = false;
            }
        }
        self.forget_silence();
    }

    /// There is another stream, or none.
    pub(super) fn forget_silence(&mut self) {
        self.answers = Answers::Well;
        self.timers.clear(Timer::Answer);
    }

    /// Once; not at each key.
    fn tell_not_sent(&mut self, message: &str) {
        let browser = self
            .browser
            .as_mut()
            .filter(|browser| !browser.told_no_shell);
        if let Some(browser) = browser {
            browser.told_no_shell = true;
            self.tell(&Notice::Error { message });
        }
    }
}
