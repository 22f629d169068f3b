//! The loop around the relay: one task per session, polled, never awaiting inside (habit 10).
//!
//! Invariants: every effect is performed before anything is sent, so a failing recording stops
//! what it could not keep (T-17, R-18); a side that blocks leaves the others running (T-14); what
//! is ready is taken together up to `BATCH`, then recorded and sent at once.

use super::browser::{Socket, farewell, message};
use super::frames::{BadFrame, parse};
use super::handle::{Moments, TerminalEvent};
use super::queues::ToBrowser;
use super::relay::{BATCH, Effect, REPLACED, Relay};
use crate::ports::cluster::{Shell, ShellEvent};
use crate::ports::{Clock, Elapsed};
use crate::recording::LiveRecording;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Rounds before other tasks get their turn.
const ROUNDS: usize = 16;
/// Browser frames and shell events taken in one round, so that neither side starves the other.
const FRAMES: usize = 16;
const EVENTS: usize = 4096;
/// With this much output no more is waited for: the next piece may be as large as a batch.
const ENOUGH: usize = BATCH / 2;

/// What a session asks of its terminal.
pub(super) enum Command {
    Attach(Box<Socket>),
    Shell(Box<dyn Shell>),
    Extend(Elapsed),
    Detach(String),
    End {
        reason: String,
        within: Duration,
        done: oneshot::Sender<()>,
    },
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One terminal's task.
pub(super) struct Task {
    clock: Arc<dyn Clock>,
    recording: LiveRecording,
    relay: Relay,
    browser: Option<Box<Socket>>,
    browser_unflushed: bool,
    shell: Option<Box<dyn Shell>>,
    shell_unflushed: bool,
    sleep: Option<(Elapsed, Sleep)>,
    outside: Option<Outside>,
    /// Who waits for the end; told by being dropped.
    waiting: Vec<oneshot::Sender<()>>,
    over: bool,
}

struct Outside {
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<TerminalEvent>,
    moments: Arc<Moments>,
}

impl Task {
    pub(super) fn new(clock: Arc<dyn Clock>, recording: LiveRecording, relay: Relay) -> Self {
        Self {
            clock,
            recording,
            relay,
            browser: None,
            browser_unflushed: false,
            shell: None,
            shell_unflushed: false,
            sleep: None,
            outside: None,
            waiting: Vec::new(),
            over: false,
        }
    }

    pub(super) fn connect(
        &mut self,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<TerminalEvent>,
        moments: Arc<Moments>,
    ) {
        self.outside = Some(Outside {
            commands,
            events,
            moments,
        });
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS {
            let now = self.clock.elapsed();
            if self.recording.poll_failed(cx).is_ready() {
                self.relay.recording_failed();
            }
            let mut moved = self.take_commands(cx, now);
            moved |= self.read_browser(cx, now);
            moved |= self.read_shell(cx, now);
            // A timer may change who is to be read, and that was decided above already.
            moved |= self.relay.tick(now);
            self.perform(now);
            moved |= self.write_shell(cx);
            moved |= self.write_browser(cx, now);
            // A broken connection is noticed by writing, too.
            self.perform(now);
            if let Some(outside) = &self.outside {
                outside.moments.set(&self.relay);
            }
            if self.over {
                return Poll::Ready(());
            }
            if !moved {
                ready!(self.poll_sleep(cx));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when a timer is due. A sleep that ends too early costs one look at the timers; so it
    /// is made anew only when something is due before it.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What `tick` set in this round counts as well.
        let Some(next) = self.relay.next_timeout() else {
            self.sleep = None;
            return Poll::Pending;
        };
        let sleep = match &mut self.sleep {
            Some((at, sleep)) if *at <= next => sleep,
            sleep => &mut sleep.insert((next, self.clock.sleep_until(next))).1,
        };
        ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(())
    }

    fn take_commands(&mut self, cx: &mut Context<'_>, now: Elapsed) -> bool {
        let Some(outside) = &mut self.outside else {
            return false;
        };
        let Poll::Ready(command) = outside.commands.poll_recv(cx) else {
            return false;
        };
        match command {
            Some(Command::Attach(socket)) => {
                // The one before is told first, so that the effect finds its socket.
                self.relay.detach(now, REPLACED);
                self.perform(now);
                self.browser = Some(socket);
                self.browser_unflushed = false;
                self.relay.browser_attached(now);
            }
            Some(Command::Shell(shell)) => {
                if self.relay.takes_shell() {
                    self.shell = Some(shell);
                    self.shell_unflushed = false;
                    self.relay.shell_attached(now);
                }
            }
            Some(Command::Extend(deadline)) => self.relay.extend(now, deadline),
            Some(Command::Detach(reason)) => self.relay.detach(now, &reason),
            Some(Command::End {
                reason,
                within,
                done,
            }) => {
                self.waiting.push(done);
                self.relay.end(now, &reason, within);
            }
            None => {
                self.relay.detach(now, "the session is not served any more");
                self.over = true;
            }
        }
        true
    }

    fn read_browser(&mut self, cx: &mut Context<'_>, now: Elapsed) -> bool {
        let mut moved = false;
        for _ in 0..FRAMES {
            if !self.relay.wants_input() {
                break;
            }
            let Some(socket) = &mut self.browser else {
                break;
            };
            let Poll::Ready(received) = socket.poll_next_unpin(cx) else {
                break;
            };
            moved = true;
            match received {
                Some(Ok(Message::Text(text))) => self.relay.browser_frame(now, parse(&text)),
                Some(Ok(Message::Binary(_))) => {
                    self.relay.browser_frame(now, Err(BadFrame::Unknown));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    self.relay.browser_alive(now);
                }
                Some(Ok(Message::Close(_))) | None => {
                    self.relay
                        .browser_gone(now, "the browser closed the connection");
                }
                Some(Err(Error::Capacity(_))) => self.relay.browser_too_large(now),
                Some(Err(_)) => self.relay.browser_gone(now, "the connection broke"),
            }
            self.perform(now);
        }
        moved
    }

    fn read_shell(&mut self, cx: &mut Context<'_>, now: Elapsed) -> bool {
        let Some(shell) = self.shell.as_mut().filter(|_| self.relay.wants_output()) else {
            return false;
        };
        let mut batch = Batch::default();
        let mut closed = false;
        let mut events = 0;
        while events < EVENTS && batch.len() < ENOUGH && !closed {
            let Poll::Ready(event) = shell.poll_event(cx) else {
                break;
            };
            events += 1;
            match event {
                Some(Ok(ShellEvent::Output(bytes))) => batch.push(bytes),
                Some(Ok(ShellEvent::Pong)) => self.relay.shell_alive(now),
                // After a status the stream ends; what it says, the container's state says too.
                Some(Ok(ShellEvent::Status(_)) | Err(_)) | None => closed = true,
            }
        }
        if batch.len() > 0 {
            self.relay.output(now, batch.take());
        }
        if closed {
            self.relay.shell_closed();
        }
        events > 0
    }

    fn write_shell(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(shell) = &mut self.shell else {
            return false;
        };
        let mut moved = false;
        let mut written = Ok(());
        while written.is_ok() && self.relay.shell_waits() {
            match shell.poll_ready(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => written = Err(error),
                Poll::Ready(Ok(())) => {
                    if let Some(input) = self.relay.next_for_shell() {
                        written = shell.start_send(input);
                        self.shell_unflushed = true;
                        moved = true;
                    }
                }
            }
        }
        if written.is_ok() && self.shell_unflushed {
            match shell.poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(flushed) => {
                    self.shell_unflushed = false;
                    written = flushed;
                }
            }
        }
        if written.is_err() {
            self.relay.shell_closed();
        }
        moved || written.is_err()
    }

    fn write_browser(&mut self, cx: &mut Context<'_>, now: Elapsed) -> bool {
        let Some(socket) = &mut self.browser else {
            return false;
        };
        let mut moved = false;
        let mut written = Ok(());
        while written.is_ok() && self.relay.browser_waits() {
            // Whatever is under way goes before: a pong that the library still has, say.
            match socket.poll_flush_unpin(cx) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => written = Err(error),
                Poll::Ready(Ok(())) => {
                    written = send_next(&mut self.relay, socket);
                    self.browser_unflushed = true;
                    moved = true;
                }
            }
        }
        if written.is_ok() && self.browser_unflushed {
            match socket.poll_flush_unpin(cx) {
                Poll::Pending => {}
                Poll::Ready(flushed) => {
                    self.browser_unflushed = false;
                    written = flushed;
                }
            }
        }
        if written.is_err() {
            self.relay.browser_gone(now, "the connection broke");
        }
        moved || written.is_err()
    }

    fn perform(&mut self, now: Elapsed) {
        while let Some(effect) = self.relay.next_effect() {
            self.perform_one(effect, now);
        }
    }

    fn perform_one(&mut self, effect: Effect, now: Elapsed) {
        let recorded = match effect {
            Effect::Output(bytes) => self.recording.output(now, &bytes),
            Effect::Input(bytes) => self.recording.input(now, &bytes),
            Effect::Resize(cols, rows) => self.recording.resize(now, cols, rows),
            Effect::Marker(text) => self.recording.marker(now, &text),
            Effect::Hangup(frames, code) => {
                self.browser_unflushed = false;
                if let Some(socket) = self.browser.take() {
                    let clock = Arc::clone(&self.clock);
                    tokio::spawn(farewell(*socket, frames, code, clock));
                }
                Ok(())
            }
            Effect::DropShell => {
                self.shell = None;
                Ok(())
            }
            Effect::Tell(event) => {
                let told = self
                    .outside
                    .as_ref()
                    .map(|outside| outside.events.try_send(event));
                if let Some(Err(error)) = told {
                    tracing::debug!(%error, "nobody listens to a terminal's events");
                }
                Ok(())
            }
            Effect::Over => {
                self.over = true;
                Ok(())
            }
        };
        if let Err(error) = recorded {
            let key = self.recording.key();
            tracing::error!(key, %error, "not recorded: the terminal closes");
            self.relay.recording_failed();
        }
    }
}

/// Gives a flushed connection the next notice, or all output up to it that has room.
fn send_next(relay: &mut Relay, socket: &mut Socket) -> Result<(), Error> {
    while socket.get_ref().has_room() {
        match relay.next_for_browser() {
            Some(ToBrowser::Output(bytes)) => socket.get_mut().queue(bytes),
            Some(frame @ (ToBrowser::Text(_) | ToBrowser::Ping)) => {
                return socket.start_send_unpin(message(frame));
            }
            None => break,
        }
    }
    Ok(())
}

/// Output put together; a single piece is not copied.
#[derive(Default)]
struct Batch {
    one: Bytes,
    many: BytesMut,
}

impl Batch {
    fn len(&self) -> usize {
        self.one.len() + self.many.len()
    }

    fn push(&mut self, bytes: Bytes) {
        if self.len() == 0 {
            self.one = bytes;
            return;
        }
        if self.many.is_empty() {
            self.many
                .reserve((self.one.len() + bytes.len()).max(8 * 1024));
            self.many.extend_from_slice(&std::mem::take(&mut self.one));
        }
        self.many.extend_from_slice(&bytes);
    }

    fn take(self) -> Bytes {
        if self.many.is_empty() {
            self.one
        } else {
            self.many.freeze()
        }
    }
}

#[cfg(test)]
mod tests;
