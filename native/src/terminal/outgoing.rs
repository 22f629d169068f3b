//! The connection under a browser's WebSocket: output goes past the library, several frames at
//! once and without a copy.
//!
//! Invariant: frames leave in the order in which they were given, to this or to the library: what
//! the library writes waits for what was queued here, and `queue` is called only once the library
//! is flushed.

use super::browser::Io;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// Headers and payloads under way: four frames, one batch of output.
const PIECES: usize = 8;

/// A browser's connection, with output that it has not taken yet.
pub(super) struct Outgoing {
    io: Box<dyn Io>,
    pieces: VecDeque<Bytes>,
}

impl Outgoing {
    pub(super) fn new(io: Box<dyn Io>) -> Self {
        Self {
            io,
            pieces: VecDeque::new(),
        }
    }

    /// Whether one more frame may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.pieces.len() + 2 <= PIECES
    }

    /// Queues one binary frame; a flush sends it.
    pub(super) fn queue(&mut self, output: Bytes) {
        let header = FrameHeader {
            opcode: OpCode::Data(Data::Binary),
            ..FrameHeader::default()
        };
        let len = output.len() as u64;
        let mut head = Vec::with_capacity(header.len(len));
        // Into memory: there is nothing in it that could fail.
        let _ = header.format(len, &mut head);
        self.pieces.extend([head.into(), output]);
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); PIECES];
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
            }
            let slices = &slices[..self.pieces.len().min(PIECES)];
            let mut written = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, slices))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            while let Some(piece) = self.pieces.front_mut().filter(|_| written > 0) {
                let part = written.min(piece.len());
                written -= part;
                piece.advance(part);
                if piece.is_empty() {
                    self.pieces.pop_front();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Outgoing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, to)
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::browser::{message, socket};
    use super::super::queues::ToBrowser;
    use super::*;
    use futures_util::{SinkExt, StreamExt};
    use std::future::poll_fn;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    #[tokio::test]
    async fn output_and_what_the_library_sends_keep_their_order_on_a_slow_connection() {
        let (ours, theirs) = tokio::io::duplex(100);
        let mut socket = socket(ours).expect("a socket");
        let client = WebSocketStream::from_raw_socket(theirs, Role::Client, None).await;
        let reading = tokio::spawn(client.take(20).map(Result::unwrap).collect::<Vec<_>>());
        let mut expected = Vec::new();
        for size in [1, 125, 126, 300, 16 * 1024] {
            for letter in [b'a', b'b', b'c'] {
                let output = Bytes::from(vec![letter; size]);
                assert!(socket.get_ref().has_room());
                socket.get_mut().queue(output.clone());
                expected.push(Message::Binary(output));
            }
            let text = format!("after {size}");
            // Queued behind output that cannot leave at once.
            let told = message(ToBrowser::Text(text.clone()));
            socket.feed(told).await.expect("taken");
            expected.push(Message::text(text));
            poll_fn(|cx| socket.poll_flush_unpin(cx))
                .await
                .expect("sent");
        }
        assert!(reading.await.expect("read") == expected);
    }

    #[tokio::test]
    async fn no_more_than_a_batch_is_under_way() {
        let (ours, _theirs) = tokio::io::duplex(16);
        let mut socket = socket(ours).expect("a socket");
        let mut frames = 0;
        while socket.get_ref().has_room() {
            socket.get_mut().queue(Bytes::from_static(&[0; 1024]));
            frames += 1;
        }
        assert_eq!(frames, 4);
        let flushed = poll_fn(|cx| Poll::Ready(socket.poll_flush_unpin(cx))).await;
        assert!(flushed.is_pending() && !socket.get_ref().has_room());
    }
}
