//! The connection under an attach's WebSocket, read ahead in large pieces.
//!
//! A shell that floods sends thousands of small frames. One by one through the library they cost
//! more than recording them, so whole frames of plain output are taken from what has arrived, all
//! that follow each other at once.
//! Invariants: the library decides on every other frame, and sees each of them whole and in
//! order; a frame is output here only where it would be for the library, too: final, unmasked,
//! binary, between messages. Nothing is kept of an idle connection, and of a busy one never more
//! than twice `AHEAD`, beside what the library allows itself.

use super::{STDERR, STDOUT};
use bytes::{Buf, Bytes, BytesMut};
use std::cell::Cell;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_util::io::poll_read_buf;

/// How much is read at once: as much as is recorded at once.
const AHEAD: usize = 64 << 10;

thread_local! {
    /// What is read into: one buffer per thread, not per session.
    static SPARE: Cell<BytesMut> = Cell::default();
}

/// What has arrived begins with this.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// A frame of output that is not empty.
    Output { start: usize, payload: usize },
    /// A frame that the library is to read, of so many bytes; and whether it leaves a message of
    /// several frames open.
    Other { frame: usize, in_pieces: bool },
    /// Too little to say, or to take.
    Incomplete,
}

/// A connection that gives its WebSocket nothing but the frames that are lent to it.
pub(in crate::cluster) struct Wire<S> {
    connection: S,
    ahead: BytesMut,
    /// Whether `ahead` is a buffer to read into; while it is none, it is empty.
    reads: bool,
    /// How much of what arrives is the library's.
    lent: usize,
    /// Whether a message of several frames has begun.
    in_pieces: bool,
    /// How the connection ended, once it did.
    end: Option<io::Result<()>>,
}

impl<S> Wire<S> {
    pub(super) fn new(connection: S) -> Self {
        Self {
            connection,
            ahead: BytesMut::new(),
            reads: false,
            lent: 0,
            in_pieces: false,
            end: None,
        }
    }

    /// All output that has arrived before anything else. Where there is none, the next frame is
    /// the library's.
    pub(super) fn take_output(&mut self) -> Option<Bytes> {
        if self.lent > 0 {
            return None;
        }
        let mut output = BytesMut::new();
        let mut taken = 0;
        loop {
            match next(&self.ahead[taken..], self.in_pieces) {
                Next::Output { start, payload } => {
                    let frame = taken + start;
                    taken = frame + payload;
                    if output.is_empty() {
                        // Nothing to grow for: what follows has arrived already.
                        output.reserve(self.ahead.len() - frame);
                    }
                    output.extend_from_slice(&self.ahead[frame + 1..taken]);
                }
                Next::Other { frame, in_pieces } if taken == 0 => {
                    (self.lent, self.in_pieces) = (frame, in_pieces);
                    break;
                }
                Next::Other { .. } | Next::Incomplete => break,
            }
        }
        self.ahead.advance(taken);
        (!output.is_empty()).then(|| output.freeze())
    }

    /// Reads more; ready when there is something new for `take_output` or the library.
    pub(super) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<()>
    where
        S: AsyncRead + Unpin,
    {
        let undecided = self.lent == 0 && next(&self.ahead, self.in_pieces) != Next::Incomplete;
        if undecided || self.end.is_some() {
            return Poll::Ready(());
        }
        if !self.reads {
            self.ahead = SPARE.take();
            self.reads = true;
        }
        self.ahead.reserve(AHEAD);
        let read = poll_read_buf(Pin::new(&mut self.connection), cx, &mut self.ahead);
        if read.is_pending() && self.ahead.is_empty() {
            SPARE.set(std::mem::take(&mut self.ahead));
            self.reads = false;
        }
        match ready!(read) {
            Ok(0) => self.end = Some(Ok(())),
            Ok(_) => return Poll::Ready(()),
            Err(error) => self.end = Some(Err(error)),
        }
        // What is torn is the library's to judge, as is the end.
        self.lent = usize::MAX;
        Poll::Ready(())
    }
}

/// What `ahead` begins with.
fn next(ahead: &[u8], in_pieces: bool) -> Next {
    let mut cursor = Cursor::new(ahead);
    let (header, length) = match FrameHeader::parse(&mut cursor) {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Next::Incomplete,
        // The library finds the same again, and says so.
        Err(_) => {
            return Next::Other {
                frame: usize::MAX,
                in_pieces,
            };
        }
    };
    let start = header.len(length);
    // The library refuses a frame that memory could not even address.
    let payload = usize::try_from(length).unwrap_or(usize::MAX);
    let frame = start.saturating_add(payload);
    let other = Next::Other {
        frame,
        in_pieces: match header.opcode {
            OpCode::Data(_) => !header.is_final,
            // These may come between the pieces of a message.
            OpCode::Control(_) => in_pieces,
        },
    };
    let may_be_output = FrameHeader {
        opcode: OpCode::Data(Data::Binary),
        ..FrameHeader::default()
    };
    if header != may_be_output || in_pieces || payload < 2 || frame > AHEAD {
        return other;
    }
    match ahead.get(start) {
        Some(&(STDOUT | STDERR)) if ahead.len() >= frame => Next::Output { start, payload },
        Some(&(STDOUT | STDERR)) | None => Next::Incomplete,
        Some(_) => other,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    /// What is lent and has arrived; pending until [`Wire::poll_more`] has read more.
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.lent.min(self.ahead.len()).min(to.remaining());
        if len > 0 {
            to.put_slice(&self.ahead[..len]);
            self.ahead.advance(len);
            self.lent -= len;
            return Poll::Ready(Ok(()));
        }
        match &mut self.end {
            Some(end) => Poll::Ready(std::mem::replace(end, Ok(()))),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
