//! What waits for the browser and for the shell: each bounded, each emptied by its own side.

use crate::ports::cluster::ShellInput;
use bytes::Bytes;
use std::collections::VecDeque;

/// Output is sent in frames of at most this: the socket's buffer keeps the size of the largest.
const FRAME: usize = 16 * 1024;
/// The largest piece of input that a shell is sent at once.
const PIECE: usize = 32 * 1024;
/// A browser that does not read is told no more than this.
const MOST_NOTICES: usize = 64;

/// One frame for the browser.
#[derive(PartialEq, Eq)]
pub enum ToBrowser {
    /// Output, binary.
    Output(Bytes),
    /// A notice's text.
    Text(String),
    /// Asks for a sign of life.
    Ping,
}

/// Frames for the browser, in order; pings overtake.
#[derive(Default)]
pub(super) struct BrowserQueue {
    frames: VecDeque<ToBrowser>,
    output: usize,
    notices: usize,
    ping: bool,
}

impl BrowserQueue {
    pub(super) fn output(&mut self, bytes: Bytes) {
        self.output += bytes.len();
        self.frames.push_back(ToBrowser::Output(bytes));
    }

    /// Whether there was room for it.
    pub(super) fn text(&mut self, text: String) -> bool {
        let room = self.notices < MOST_NOTICES;
        if room {
            self.notices += 1;
            self.frames.push_back(ToBrowser::Text(text));
        }
        room
    }

    pub(super) fn ping(&mut self) {
        self.ping = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.ping
    }

    pub(super) fn output_waits(&self) -> bool {
        self.output > 0
    }

    pub(super) fn next(&mut self) -> Option<ToBrowser> {
        if std::mem::take(&mut self.ping) {
            return Some(ToBrowser::Ping);
        }
        match self.frames.pop_front()? {
            ToBrowser::Output(mut bytes) => {
                if bytes.len() > FRAME {
                    let rest = bytes.split_off(FRAME);
                    self.frames.push_front(ToBrowser::Output(rest));
                }
                self.output -= bytes.len();
                Some(ToBrowser::Output(bytes))
            }
            ToBrowser::Text(text) => {
                self.notices -= 1;
                Some(ToBrowser::Text(text))
            }
            ToBrowser::Ping => Some(ToBrowser::Ping),
        }
    }

    /// Takes everything that waits.
    pub(super) fn take(&mut self) -> Vec<ToBrowser> {
        let frames = std::mem::take(self).frames;
        frames.into()
    }
}

/// What waits for the shell: the newest size, a ping, and input.
#[derive(Default)]
pub(super) struct ShellQueue {
    resize: Option<(u16, u16)>,
    ping: bool,
    stdin: Vec<u8>,
}

impl ShellQueue {
    pub(super) fn resize(&mut self, cols: u16, rows: u16) {
        self.resize = Some((cols, rows));
    }

    pub(super) fn ping(&mut self) {
        self.ping = true;
    }

    pub(super) fn stdin(&mut self, bytes: &[u8]) {
        self.stdin.extend_from_slice(bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.resize.is_none() && !self.ping && self.stdin.is_empty()
    }

    pub(super) fn stdin_len(&self) -> usize {
        self.stdin.len()
    }

    /// Forgets input that was not sent yet.
    pub(super) fn clear_stdin(&mut self) {
        self.stdin = Vec::new();
    }

    pub(super) fn next(&mut self) -> Option<ShellInput> {
        if let Some((cols, rows)) = self.resize.take() {
            return Some(ShellInput::Resize { cols, rows });
        }
        if std::mem::take(&mut self.ping) {
            return Some(ShellInput::Ping);
        }
        if self.stdin.is_empty() {
            return None;
        }
        let rest = self.stdin.split_off(self.stdin.len().min(PIECE));
        let piece = std::mem::replace(&mut self.stdin, rest);
        Some(ShellInput::Stdin(piece.into()))
    }
}
