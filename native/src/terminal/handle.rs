//! How a session holds its terminal.
//!
//! Invariant: dropping the last handle ends the relay's task, not the shell (C-25).

use super::browser;
use super::relay::{Launch, Relay};
use super::run::{Command, Task};
use crate::ports::cluster::Shell;
use crate::ports::{Clock, Elapsed};
use crate::recording::LiveRecording;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Commands are rare and taken at once; more than this waiting means that something is wrong.
const COMMANDS: usize = 32;
/// A session that does not listen is told no more than this.
const EVENTS: usize = 16;

/// What a terminal needs.
pub struct TerminalParts {
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Where everything goes first.
    pub recording: LiveRecording,
    /// When the hard stop strikes (T-7).
    pub deadline: Elapsed,
}

/// What a session has to know of its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEvent {
    /// The stream to the shell is closed; the container's state says why (T-5).
    ShellStreamClosed,
    /// The deadline passed: the browser is told, the shell is being asked to exit.
    DeadlineStruck,
    /// The recording cannot be written; the terminal is closed already.
    RecordingFailed,
}

/// How long nothing happened, for the sweep (T-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// How long no browser is attached; `None` while one is.
    pub detached_for: Option<Duration>,
    /// How long there was neither input nor output.
    pub idle_for: Duration,
}

/// A running terminal. Clones are the same terminal.
#[derive(Clone)]
pub struct TerminalHandle(Arc<Held>);

struct Held {
    commands: mpsc::Sender<Command>,
    events: Mutex<mpsc::Receiver<TerminalEvent>>,
    moments: Arc<Moments>,
}

impl TerminalHandle {
    /// Starts the relay of a new session. The debug container's launcher gets its newline with
    /// the first terminal's size. Must be called within the runtime.
    pub fn spawn(parts: TerminalParts) -> Self {
        Self::start(parts, Launch::Waiting)
    }

    /// Starts the relay of a session that a former process left (T-11): its shell runs already.
    pub fn resume(parts: TerminalParts) -> Self {
        Self::start(parts, Launch::Done)
    }

    fn start(parts: TerminalParts, launch: Launch) -> Self {
        let (commands, received) = mpsc::channel(COMMANDS);
        let (told, events) = mpsc::channel(EVENTS);
        let relay = Relay::new(parts.clock.elapsed(), parts.deadline, launch);
        let moments = Arc::new(Moments::default());
        moments.set(&relay);
        let mut task = Task::new(parts.clock, parts.recording, relay);
        task.connect(received, told, Arc::clone(&moments));
        tokio::spawn(poll_fn(move |cx| task.poll(cx)));
        Self(Arc::new(Held {
            commands,
            events: Mutex::new(events),
            moments,
        }))
    }

    /// Hands over a browser's connection, upgraded already; it replaces the one before (T-4).
    pub fn attach_browser(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        if let Some(socket) = browser::socket(io) {
            self.command(Command::Attach(Box::new(socket)));
        }
    }

    /// Hands over a stream to the shell; it replaces the one before.
    pub fn set_shell(&self, shell: Box<dyn Shell>) {
        self.command(Command::Shell(shell));
    }

    /// The deadline is a later one (S-13): warnings and the hard stop follow it.
    pub fn extend(&self, deadline: Elapsed) {
        self.command(Command::Extend(deadline));
    }

    /// Disconnects the browser with a reason; shell and session go on.
    pub fn detach_all(&self, reason: &str) {
        self.command(Command::Detach(reason.to_owned()));
    }

    /// Ends the terminal: the browser is told why, the shell is asked to exit and waited for up
    /// to `within`, both are closed. Returns when that is done; may be repeated.
    pub async fn end(&self, reason: &str, within: Duration) {
        let (done, over) = oneshot::channel();
        let end = Command::End {
            reason: reason.to_owned(),
            within,
            done,
        };
        if self.0.commands.send(end).await.is_ok() {
            // Either way the task is over.
            let _ = over.await;
        }
    }

    /// The next event; `None` once the terminal is over. One listener at a time.
    pub async fn next_event(&self) -> Option<TerminalEvent> {
        self.0.events.lock().await.recv().await
    }

    /// How long nothing happened.
    pub fn ages(&self, now: Elapsed) -> Ages {
        self.0.moments.ages(now)
    }

    fn command(&self, command: Command) {
        use mpsc::error::TrySendError::{Closed, Full};
        match self.0.commands.try_send(command) {
            // Closed: the terminal is over, and what was handed over is dropped with it.
            Ok(()) | Err(Closed(_)) => {}
            Err(Full(_)) => tracing::error!("a terminal does not take its commands"),
        }
    }
}

/// The relay's moments, for whoever asks without disturbing it. Microseconds of `Elapsed`.
#[derive(Debug)]
pub(super) struct Moments {
    detached_since: AtomicU64,
    active_at: AtomicU64,
}

/// `detached_since` while a browser is attached.
const ATTACHED: u64 = u64::MAX;

impl Default for Moments {
    fn default() -> Self {
        Self {
            detached_since: AtomicU64::new(ATTACHED),
            active_at: AtomicU64::new(0),
        }
    }
}

impl Moments {
    pub(super) fn set(&self, relay: &Relay) {
        let micros = |at: Elapsed| {
            let since_zero = at.since(Elapsed::new(Duration::ZERO));
            u64::try_from(since_zero.as_micros()).unwrap_or(ATTACHED - 1)
        };
        let detached = relay.detached_since().map_or(ATTACHED, micros);
        self.detached_since.store(detached, Ordering::Relaxed);
        self.active_at
            .store(micros(relay.active_at()), Ordering::Relaxed);
    }

    fn ages(&self, now: Elapsed) -> Ages {
        let age = |micros| now.since(Elapsed::new(Duration::from_micros(micros)));
        let detached = self.detached_since.load(Ordering::Relaxed);
        Ages {
            detached_for: (detached != ATTACHED).then(|| age(detached)),
            idle_for: age(self.active_at.load(Ordering::Relaxed)),
        }
    }
}
