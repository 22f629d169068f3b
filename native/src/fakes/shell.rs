//! A shell that says what a test tells it to, and can refuse to take input.

use crate::ports::cluster::{Shell, ShellError, ShellEvent, ShellInput};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The relay's end of a fake shell.
#[derive(Debug)]
pub struct FakeShell(Arc<Mutex<State>>);

/// The pod's end: what a test does and sees.
#[derive(Debug, Clone)]
pub struct FakePod(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    events: VecDeque<ShellEvent>,
    inputs: Vec<ShellInput>,
    flood: Option<(Bytes, u64)>,
    flooded: u64,
    read: u64,
    silent: bool,
    full: bool,
    closed: bool,
    broken: bool,
    dropped: bool,
    waker: Option<Waker>,
}

/// A shell and the pod it runs in.
pub fn shell() -> (FakeShell, FakePod) {
    let state = Arc::new(Mutex::new(State::default()));
    (FakeShell(Arc::clone(&state)), FakePod(state))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakePod {
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.0);
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The shell writes something.
    pub fn write(&self, bytes: impl Into<Bytes>) {
        let event = ShellEvent::Output(bytes.into());
        self.change(|state| state.events.push_back(event));
    }

    /// The shell writes the same again and again, `times` times, as fast as it is read.
    pub fn flood(&self, bytes: impl Into<Bytes>, times: u64) {
        let flood = bytes.into();
        self.change(|state| state.flood = Some((flood, times)));
    }

    /// How many pieces of the flood were read.
    pub fn flooded(&self) -> u64 {
        lock(&self.0).flooded
    }

    /// How many bytes were read, whatever wrote them.
    pub fn bytes_read(&self) -> u64 {
        lock(&self.0).read
    }

    /// The stream ends, after what was written.
    pub fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// The stream breaks: the next use of it fails.
    pub fn break_stream(&self) {
        self.change(|state| state.broken = true);
    }

    /// Pings are not answered from here on.
    pub fn fall_silent(&self) {
        self.change(|state| state.silent = true);
    }

    /// The pod takes no input from here on, or takes it again.
    pub fn take_input(&self, takes: bool) {
        self.change(|state| state.full = !takes);
    }

    /// What arrived, pings left out.
    pub fn inputs(&self) -> Vec<ShellInput> {
        let mut state = lock(&self.0);
        let inputs = std::mem::take(&mut state.inputs);
        let kept: Vec<_> = inputs
            .into_iter()
            .filter(|it| *it != ShellInput::Ping)
            .collect();
        state.inputs = kept.iter().map(copy).collect();
        kept
    }

    /// The bytes that arrived as input.
    pub fn typed(&self) -> Vec<u8> {
        let bytes = |input: &ShellInput| match input {
            ShellInput::Stdin(bytes) => bytes.to_vec(),
            ShellInput::Resize { .. } | ShellInput::Ping => Vec::new(),
        };
        lock(&self.0).inputs.iter().flat_map(bytes).collect()
    }

    /// Whether the relay closed its end.
    pub fn is_dropped(&self) -> bool {
        lock(&self.0).dropped
    }
}

fn copy(input: &ShellInput) -> ShellInput {
    match input {
        ShellInput::Stdin(bytes) => ShellInput::Stdin(bytes.clone()),
        ShellInput::Resize { cols, rows } => ShellInput::Resize {
            cols: *cols,
            rows: *rows,
        },
        ShellInput::Ping => ShellInput::Ping,
    }
}

impl Drop for FakeShell {
    fn drop(&mut self) {
        lock(&self.0).dropped = true;
    }
}

impl State {
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn check(&self) -> Result<(), ShellError> {
        if self.broken {
            Err(ShellError("the fake stream is broken".to_owned()))
        } else {
            Ok(())
        }
    }
}

impl Shell for FakeShell {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ShellEvent, ShellError>>> {
        let mut state = lock(&self.0);
        if let Err(error) = state.check() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Some(event) = state.events.pop_front() {
            if let ShellEvent::Output(bytes) = &event {
                state.read += bytes.len() as u64;
            }
            return Poll::Ready(Some(Ok(event)));
        }
        if let Some((bytes, times)) = state.flood.take() {
            if times > 1 {
                state.flood = Some((bytes.clone(), times - 1));
            }
            state.flooded += 1;
            state.read += bytes.len() as u64;
            return Poll::Ready(Some(Ok(ShellEvent::Output(bytes))));
        }
        if state.closed {
            Poll::Ready(None)
        } else {
            state.wait(cx)
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        let mut state = lock(&self.0);
        if let Err(error) = state.check() {
            return Poll::Ready(Err(error));
        }
        if state.full {
            state.wait(cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    fn start_send(&mut self, input: ShellInput) -> Result<(), ShellError> {
        let mut state = lock(&self.0);
        state.check()?;
        if input == ShellInput::Ping && !state.silent {
            state.events.push_back(ShellEvent::Pong);
        }
        state.inputs.push(input);
        Ok(())
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        Poll::Ready(lock(&self.0).check())
    }
}
