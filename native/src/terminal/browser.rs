//! The browser's end of a terminal: a WebSocket over any stream that was upgraded (T-2).
//!
//! Invariants: small buffers that do not grow beyond a notice; a farewell has a bound, so a
//! browser that does not read holds nothing for long.

use super::outgoing::Outgoing;
use super::queues::ToBrowser;
use crate::ports::Clock;
use futures_util::{FutureExt, SinkExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

/// What a browser's connection can be.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A connected browser.
pub(super) type Socket = WebSocketStream<Outgoing>;

/// The largest message that is read at all; a frame above `frames::MAX_INPUT` and below this is
/// refused by an `error` frame, one above it by closing the connection.
pub const MAX_MESSAGE: usize = 1 << 20;
/// How long a browser has to take its last frames.
const FAREWELL: Duration = Duration::from_secs(2);

/// Speaks WebSocket, as the server, on a stream whose handshake is done.
pub(super) fn socket(io: impl Io + 'static) -> Option<Socket> {
    let config = WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(64 * 1024)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let io = Outgoing::new(Box::new(io));
    // There is no handshake left to wait for.
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).now_or_never()
}

/// A frame as a WebSocket message.
pub(super) fn message(frame: ToBrowser) -> Message {
    match frame {
        ToBrowser::Output(bytes) => Message::Binary(bytes),
        ToBrowser::Text(text) => Message::Text(text.into()),
        ToBrowser::Ping => Message::Ping(Bytes::new()),
    }
}

/// Sends the last frames and closes; gives up on a browser that does not take them.
pub(super) async fn farewell(
    mut socket: Socket,
    frames: Vec<ToBrowser>,
    code: u16,
    clock: Arc<dyn Clock>,
) {
    let patience = clock.sleep_until(clock.elapsed() + FAREWELL);
    let goodbye = async {
        for frame in frames {
            socket.feed(message(frame)).await?;
        }
        let close = CloseFrame {
            code: code.into(),
            reason: Utf8Bytes::from_static(""),
        };
        socket.send(Message::Close(Some(close))).await?;
        // Until the other side has closed too: what was sent is not lost by our closing first.
        while let Some(Ok(_)) = socket.next().await {}
        Ok::<_, tokio_tungstenite::tungstenite::Error>(())
    };
    tokio::select! {
        _ = goodbye => {}
        () = patience => {}
    }
}
