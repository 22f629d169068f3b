//! How a terminal, or one browser's part in it, ends.
//!
//! Invariants: once the end began, the browser gets no more output (qR46); a shell is asked to
//! exit before its stream closes (C-25), and waited for no longer than the bound.

use super::{CLOSE_NORMAL, Effect, Phase, Relay};
use crate::ports::Elapsed;
use crate::terminal::frames::Notice;
use crate::terminal::handle::TerminalEvent;
use crate::terminal::queues::{BrowserQueue, ShellQueue, ToBrowser};
use crate::terminal::timers::Timer;
use decisions::reason::EndReason;
use std::time::Duration;

/// Between interrupting what runs and telling the shell to exit: a shell that handles the
/// interrupt drops what it has not read yet.
pub(super) const INTERRUPTED: Duration = Duration::from_millis(200);

impl Relay {
    /// The session ends: the browser is told, the shell is asked to exit and given until
    /// `within` from here.
    pub fn end(&mut self, now: Elapsed, reason: &str, within: Duration) {
        if self.phase != Phase::Open {
            return;
        }
        reason.clone_into(&mut self.reason);
        self.timers.clear_all();
        if self.shell {
            // Output that the browser has not got by the end, it does not get (qR46).
            self.to_browser = BrowserQueue::default();
        }
        self.hang_up(Some(Notice::Ended { reason }), CLOSE_NORMAL);
        if !self.shell {
            self.finish();
            return;
        }
        self.mark(format!("ending: {reason}; the shell is asked to exit"));
        self.to_shell.clear_stdin();
        self.to_shell.stdin(b"\x03");
        self.phase = Phase::Ending { by: now + within };
        self.timers.set(Timer::Exit, now + INTERRUPTED.min(within));
    }

    /// The recording cannot be written: nothing more happens, at once. The shell is not
    /// even asked to exit, since that could not be recorded.
    pub fn recording_failed(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        self.shell = false;
        self.timers.clear_all();
        self.effects.clear();
        self.to_browser = BrowserQueue::default();
        self.to_shell = ShellQueue::default();
        self.reason = EndReason::NotRecorded.to_string();
        let reason = self.reason.clone();
        self.hang_up(Some(Notice::Ended { reason: &reason }), CLOSE_NORMAL);
        let tell = Effect::Tell(TerminalEvent::RecordingFailed);
        self.effects.extend([Effect::DropShell, tell, Effect::Over]);
    }

    pub(super) fn finish(&mut self) {
        self.phase = Phase::Over;
        self.shell = false;
        self.timers.clear_all();
        self.mark(format!("ended: {}", self.reason));
        self.effects.extend([Effect::DropShell, Effect::Over]);
    }

    pub(super) fn hang_up(&mut self, last: Option<Notice<'_>>, code: u16) {
        if self.browser.take().is_some() {
            let mut frames = Vec::new();
            if let Some(last) = last {
                frames = self.to_browser.take();
                frames.push(ToBrowser::Text(last.text()));
            }
            self.effects.push_back(Effect::Hangup(frames, code));
        }
        self.to_browser = BrowserQueue::default();
        self.timers.clear(Timer::BrowserGone);
    }

    pub(super) fn note_detached(&mut self, now: Elapsed, why: &str) {
        self.detached_since = Some(now);
        self.mark(format!("detached: {why}"));
    }
}
