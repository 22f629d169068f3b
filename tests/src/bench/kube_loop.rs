//! The loop that one writes around kube's `AttachedProcess`: the first baseline.
//!
//! Invariant: the same promise as ours: recorded before it is passed on. Its pipes are 64 KiB, not
//! the default's 1 KiB, so that the baseline is a good one.

use breakglass::clock::SystemClock;
use breakglass::ports::Clock;
use breakglass::recording::LiveRecording;
use breakglass::terminal::frames::{BrowserFrame, parse};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const PIPE: usize = 64 * 1024;

pub(super) fn params(container: &str) -> AttachParams {
    AttachParams::interactive_tty()
        .container(container)
        .max_stdin_buf_size(PIPE)
        .max_stdout_buf_size(PIPE)
}

/// Relays until either side closes.
pub(super) async fn relay<S>(mut process: AttachedProcess, recording: LiveRecording, io: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    let (to_browser, from_browser) = socket.split();
    let (Some(stdout), Some(stdin)) = (process.stdout(), process.stdin()) else {
        return;
    };
    let sizes = process.terminal_size();
    tokio::select! {
        () = output(stdout, &recording, to_browser) => {}
        () = input(from_browser, &recording, stdin, sizes) => {}
    }
}

async fn output<S: AsyncRead + AsyncWrite + Unpin>(
    mut stdout: impl AsyncRead + Unpin,
    recording: &LiveRecording,
    mut to_browser: SplitSink<WebSocketStream<S>, Message>,
) {
    let mut buffer = vec![0; PIPE];
    while let Ok(read @ 1..) = stdout.read(&mut buffer).await {
        let bytes = &buffer[..read];
        if recording.output(SystemClock.elapsed(), bytes).is_err() {
            return;
        }
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        if to_browser.send(message).await.is_err() {
            return;
        }
    }
}

async fn input<S: AsyncRead + AsyncWrite + Unpin>(
    mut from_browser: SplitStream<WebSocketStream<S>>,
    recording: &LiveRecording,
    mut stdin: impl AsyncWrite + Unpin,
    mut sizes: Option<impl futures_util::Sink<TerminalSize> + Unpin>,
) {
    while let Some(Ok(message)) = from_browser.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        let now = SystemClock.elapsed();
        match parse(&text) {
            Ok(BrowserFrame::Input(typed)) => {
                let recorded = recording.input(now, typed.as_bytes());
                if recorded.is_err() || stdin.write_all(typed.as_bytes()).await.is_err() {
                    return;
                }
            }
            Ok(BrowserFrame::Resize { cols, rows }) => {
                if recording.resize(now, cols, rows).is_err() {
                    return;
                }
                if let Some(sizes) = &mut sizes {
                    let size = TerminalSize {
                        width: cols,
                        height: rows,
                    };
                    let _ = sizes.send(size).await;
                }
            }
            Ok(BrowserFrame::Ack(_)) | Err(_) => {}
        }
    }
}
