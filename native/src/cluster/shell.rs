//! A shell at the other end of a Kubernetes attach: channels over a WebSocket (T-8, T-14).
//!
//! Invariants: neither direction waits for the other; output is passed on as it came; no frame,
//! however malformed, is more than ignored; what is buffered is bounded.

mod wire;

use self::wire::Wire;
use super::error::presentable;
use crate::ports::cluster::{Shell, ShellError, ShellEvent, ShellInput};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Sink, Stream};
use serde::Deserialize;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;

/// Output is read in large pieces below the library; what it reads itself is small and rare, and
/// every idle session has this buffer.
const READ_BUFFER: usize = 512;
/// API servers send 32 KiB at most.
const FRAME_MAX: usize = 1 << 20;
/// Input that the connection has not taken yet: a paste of 64 KiB, several times.
const WRITE_MAX: usize = 1 << 20;

/// The socket over an upgraded connection.
pub(super) async fn client<S>(connection: S) -> WebSocketStream<Wire<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_MAX)
        .max_message_size(Some(FRAME_MAX))
        .max_frame_size(Some(FRAME_MAX));
    WebSocketStream::from_raw_socket(Wire::new(connection), Role::Client, Some(config)).await
}

/// A stream to a shell.
pub(super) struct KubeShell<S> {
    socket: WebSocketStream<Wire<S>>,
    over: bool,
}

impl<S> KubeShell<S> {
    pub(super) fn new(socket: WebSocketStream<Wire<S>>) -> Self {
        Self {
            socket,
            over: false,
        }
    }
}

impl<S> Shell for KubeShell<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ShellEvent, ShellError>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if let Some(output) = self.socket.get_mut().take_output() {
                return Poll::Ready(Some(Ok(ShellEvent::Output(output))));
            }
            let Poll::Ready(message) = Pin::new(&mut self.socket).poll_next(cx) else {
                ready!(self.socket.get_mut().poll_more(cx));
                continue;
            };
            let event = match message {
                Some(Ok(Message::Binary(frame))) => event_of(frame),
                // The protocol is binary; a server that thinks otherwise loses no output.
                Some(Ok(Message::Text(frame))) => event_of(frame.into()),
                Some(Ok(Message::Pong(_))) => Some(ShellEvent::Pong),
                // Pings are answered by the library; raw frames are never read.
                Some(Ok(Message::Ping(_) | Message::Frame(_))) => None,
                None | Some(Ok(Message::Close(_))) => {
                    self.over = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.over = true;
                    return Poll::Ready(broken(&error).map(Err));
                }
            };
            if let Some(event) = event {
                self.over = matches!(event, ShellEvent::Status(_));
                return Poll::Ready(Some(Ok(event)));
            }
        }
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        Pin::new(&mut self.socket)
            .poll_ready(cx)
            .map_err(|error| told(&error))
    }

    fn start_send(&mut self, input: ShellInput) -> Result<(), ShellError> {
        Pin::new(&mut self.socket)
            .start_send(message_of(input))
            .map_err(|error| told(&error))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShellError>> {
        Pin::new(&mut self.socket)
            .poll_flush(cx)
            .map_err(|error| told(&error))
    }
}

/// What a frame means; `None` where it says nothing: the empty ones that servers open channels
/// with, half-closes (v5), channels that are ours to write.
fn event_of(frame: Bytes) -> Option<ShellEvent> {
    let channel = *frame.first()?;
    if frame.len() == 1 {
        return None;
    }
    let content = frame.slice(1..);
    match channel {
        // A TTY has no second output; a server that uses it anyway loses nothing.
        STDOUT | STDERR => Some(ShellEvent::Output(content)),
        STATUS => Some(ShellEvent::Status(status_of(&content))),
        _ => None,
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    status: String,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// How the remote command ended: `None` for success.
fn status_of(content: &[u8]) -> Option<String> {
    let Ok(status) = serde_json::from_slice::<Status>(content) else {
        return Some(presentable(&String::from_utf8_lossy(content)));
    };
    if status.status == "Success" {
        return None;
    }
    if status.reason == "NonZeroExitCode" {
        let causes = status.details.unwrap_or_default().causes;
        let code = causes.iter().find(|cause| cause.reason == "ExitCode");
        let code = code.map_or("an unknown code", |cause| cause.message.as_str());
        return Some(presentable(&format!("the shell exited with {code}")));
    }
    let words = if status.message.is_empty() {
        status.reason
    } else {
        status.message
    };
    Some(if words.is_empty() {
        "the shell ended without saying how".to_owned()
    } else {
        presentable(&words)
    })
}

fn message_of(input: ShellInput) -> Message {
    match input {
        ShellInput::Stdin(bytes) => Message::Binary(frame(STDIN, &bytes)),
        ShellInput::Resize { cols, rows } => {
            let size = format!(r#"{{"Width":{cols},"Height":{rows}}}"#);
            Message::Binary(frame(RESIZE, size.as_bytes()))
        }
        ShellInput::Ping => Message::Ping(Bytes::new()),
    }
}

fn frame(channel: u8, content: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(1 + content.len());
    frame.put_u8(channel);
    frame.put_slice(content);
    frame.freeze()
}

/// Why the stream broke; `None` where it was closed as streams are.
fn broken(error: &SocketError) -> Option<ShellError> {
    (!is_closed(error)).then(|| told(error))
}

fn is_closed(error: &SocketError) -> bool {
    matches!(
        error,
        SocketError::ConnectionClosed | SocketError::AlreadyClosed
    )
}

/// The library's errors may quote what was received; their kinds say enough.
fn told(error: &SocketError) -> ShellError {
    let cut = ProtocolError::ResetWithoutClosingHandshake;
    let why = if is_closed(error) {
        "it is closed"
    } else if let SocketError::Io(error) = error {
        return ShellError(error.kind().to_string());
    } else if matches!(error, SocketError::Protocol(why) if *why == cut) {
        "the connection was cut"
    } else if matches!(error, SocketError::Protocol(_) | SocketError::Utf8(_)) {
        "the other side does not follow the protocol"
    } else if matches!(error, SocketError::Capacity(_)) {
        "a frame is too large"
    } else if matches!(error, SocketError::WriteBufferFull(_)) {
        "more input than the shell takes"
    } else {
        "the connection failed"
    };
    ShellError(why.to_owned())
}

#[cfg(test)]
mod tests;
