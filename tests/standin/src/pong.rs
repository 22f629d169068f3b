//! A connection that can stop answering pings.
//!
//! The WebSocket library answers each ping by itself. In front of it, this filter turns a
//! client's ping (opcode 9) into an unsolicited pong (opcode 10), which nobody answers, while the
//! stream is in [`StreamMode::NoPong`]. It follows frame headers only and changes nothing else.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::stream::StreamMode;

pub(crate) struct PongFilter<T> {
    io: T,
    mode: watch::Receiver<StreamMode>,
    parser: Parser,
}

impl<T> PongFilter<T> {
    pub(crate) fn new(io: T, mode: watch::Receiver<StreamMode>) -> Self {
        Self {
            io,
            mode,
            parser: Parser::Opcode,
        }
    }
}

/// Where in a client's frame the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parser {
    Opcode,
    Length,
    /// Bytes of an extended length to come, and its value so far.
    LongLength {
        left: u8,
        value: u64,
        masked: bool,
    },
    /// Mask and payload to come.
    Rest(u64),
}

impl Parser {
    /// Follows `bytes`; with `mute`, makes pongs of the pings in them.
    fn follow(&mut self, bytes: &mut [u8], mute: bool) {
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            *self = match *self {
                Self::Opcode => {
                    if mute && byte & 0x0f == 9 {
                        bytes[at] = (byte & 0xf0) | 10;
                    }
                    Self::Length
                }
                Self::Length => {
                    let masked = byte & 0x80 != 0;
                    match byte & 0x7f {
                        126 => Self::LongLength {
                            left: 2,
                            value: 0,
                            masked,
                        },
                        127 => Self::LongLength {
                            left: 8,
                            value: 0,
                            masked,
                        },
                        length => Self::rest(u64::from(length), masked),
                    }
                }
                Self::LongLength {
                    left,
                    value,
                    masked,
                } => {
                    let value = (value << 8) | u64::from(byte);
                    match left {
                        1 => Self::rest(value, masked),
                        _ => Self::LongLength {
                            left: left - 1,
                            value,
                            masked,
                        },
                    }
                }
                Self::Rest(left) => {
                    let here = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len() - at);
                    at += here - 1;
                    match left - here as u64 {
                        0 => Self::Opcode,
                        left => Self::Rest(left),
                    }
                }
            };
            at += 1;
        }
    }

    fn rest(length: u64, masked: bool) -> Self {
        match length.saturating_add(if masked { 4 } else { 0 }) {
            0 => Self::Opcode,
            rest => Self::Rest(rest),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PongFilter<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        let result = Pin::new(&mut this.io).poll_read(context, buffer);
        let mute = *this.mode.borrow() == StreamMode::NoPong;
        this.parser.follow(&mut buffer.filled_mut()[before..], mute);
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PongFilter<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ping with payload `x`, a text frame of 200 bytes whose payload looks like pings, a ping.
    fn frames() -> Vec<u8> {
        let mut bytes = vec![0x89, 0x81, 1, 2, 3, 4, b'x'];
        bytes.extend([0x81, 0x80 | 126, 0, 200, 0, 0, 0, 0]);
        bytes.extend([0x89; 200]);
        bytes.extend([0x89, 0x80, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn pings_become_pongs_however_the_bytes_are_cut_and_nothing_else_changes() {
        let mut expected = frames();
        expected[0] = 0x8a;
        let last = expected.len() - 6;
        expected[last] = 0x8a;
        for size in 1..16 {
            let (mut bytes, mut parser) = (frames(), Parser::Opcode);
            for chunk in bytes.chunks_mut(size) {
                parser.follow(chunk, true);
            }
            assert_eq!(bytes, expected, "cut every {size} bytes");
            assert_eq!(parser, Parser::Opcode);
        }
    }

    #[test]
    fn a_stream_that_answers_is_left_alone() {
        let (mut bytes, mut parser) = (frames(), Parser::Opcode);
        parser.follow(&mut bytes, false);
        assert_eq!(bytes, frames());
    }
}
