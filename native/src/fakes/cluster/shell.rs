//! A shell of the fake cluster: it echoes, it knows `exit`, it dies with its pod.

use super::FakeCluster;
use super::state::{ShellKey, Stream};
use crate::ports::cluster::{Shell, ShellError, ShellEvent, ShellInput};
use bytes::Bytes;
use std::collections::VecDeque;
use std::task::{Context, Poll};

/// Ctrl-D: the end of the input.
const END_OF_INPUT: u8 = 4;

/// One stream to a shell. Dropping it leaves the shell as it is (C-25).
pub struct FakeShell {
    cluster: FakeCluster,
    stream: u64,
}

impl FakeShell {
    pub(super) fn open(cluster: &FakeCluster, shell: ShellKey) -> Self {
        let stream = cluster.change(|state| {
            let number = state.number();
            state.shells.entry(shell.clone()).or_default();
            let (events, wakers) = (VecDeque::new(), Vec::new());
            state.streams.insert(
                number,
                Stream {
                    shell,
                    events,
                    closed: false,
                    wakers,
                },
            );
            number
        });
        Self {
            cluster: cluster.clone(),
            stream,
        }
    }

    fn broken() -> ShellError {
        ShellError("it is closed".to_owned())
    }

    /// What the shell does with its input: it echoes, and ends with `exit` or Ctrl-D.
    fn type_in(&self, bytes: &Bytes) {
        self.cluster.change(|state| {
            let Some(shell) = state.streams.get(&self.stream).map(|s| s.shell.clone()) else {
                return;
            };
            let Some(typed) = state.shells.get_mut(&shell) else {
                return;
            };
            typed.input.extend_from_slice(bytes);
            let lines = typed.input.rsplit(|byte| matches!(byte, b'\r' | b'\n'));
            let says_exit = matches!(bytes.last(), Some(b'\r' | b'\n'))
                && lines
                    .skip(1)
                    .find(|line| !line.is_empty())
                    .is_some_and(|line| line == b"exit");
            let over = says_exit || bytes.contains(&END_OF_INPUT);
            let (namespace, pod, container) = shell;
            state.output(&namespace, &pod, &container, bytes);
            if over {
                state.exit(&namespace, &pod, &container, 0);
            }
        });
    }
}

impl Shell for FakeShell {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ShellEvent, ShellError>>> {
        let mut state = self.cluster.read();
        let Some(stream) = state.streams.get_mut(&self.stream) else {
            return Poll::Ready(None);
        };
        match stream.events.pop_front() {
            Some(Some(event)) => Poll::Ready(Some(Ok(event))),
            Some(None) => {
                stream.closed = true;
                Poll::Ready(None)
            }
            None if stream.closed => Poll::Ready(None),
            None => {
                stream.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        let mut state = self.cluster.read();
        let stuck = state.stuck;
        match state.streams.get_mut(&self.stream) {
            Some(stream) if stream.is_open() && stuck => {
                stream.wakers.push(cx.waker().clone());
                Poll::Pending
            }
            Some(stream) if stream.is_open() => Poll::Ready(Ok(())),
            Some(_) | None => Poll::Ready(Err(Self::broken())),
        }
    }

    fn start_send(&mut self, input: ShellInput) -> Result<(), ShellError> {
        if !self
            .cluster
            .read()
            .streams
            .get(&self.stream)
            .is_some_and(Stream::is_open)
        {
            return Err(Self::broken());
        }
        match input {
            ShellInput::Stdin(bytes) => self.type_in(&bytes),
            ShellInput::Resize { cols, rows } => self.cluster.change(|state| {
                let shell = state.streams.get(&self.stream).map(|s| s.shell.clone());
                if let Some(shell) = shell.and_then(|key| state.shells.get_mut(&key)) {
                    shell.size = Some((cols, rows));
                }
            }),
            ShellInput::Ping => self.cluster.change(|state| {
                if let Some(stream) = state.streams.get_mut(&self.stream) {
                    stream.events.push_back(Some(ShellEvent::Pong));
                    stream.wake();
                }
            }),
        }
        Ok(())
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for FakeShell {
    fn drop(&mut self) {
        self.cluster
            .change(|state| state.streams.remove(&self.stream));
    }
}
