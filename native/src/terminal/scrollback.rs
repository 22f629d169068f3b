//! The last output, for a browser that comes back (T-9).
//!
//! Invariants: never more than `LIMIT` bytes, and none before there is output; a snapshot begins
//! with a terminal reset, and where older output was dropped, at the start of a line.

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// How much output is kept.
pub const LIMIT: usize = 128 * 1024;
/// Full reset (RIS): what a former connection left on the screen must not show through.
const RESET: &[u8] = b"\x1bc";

/// A bounded ring of output.
#[derive(Default)]
pub struct Scrollback {
    bytes: VecDeque<u8>,
    dropped: bool,
}

impl Scrollback {
    /// Keeps output; the oldest is dropped.
    pub fn push(&mut self, output: &[u8]) {
        let kept = &output[output.len().saturating_sub(LIMIT)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(LIMIT);
        self.dropped |= over > 0 || kept.len() < output.len();
        self.bytes.drain(..over);
        self.bytes.extend(kept);
    }

    /// What a browser is sent first; `None` when there was no output.
    pub fn snapshot(&self) -> Option<Bytes> {
        if self.bytes.is_empty() {
            return None;
        }
        let line = if self.dropped {
            self.bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1)
        } else {
            0
        };
        let mut snapshot = BytesMut::with_capacity(RESET.len() + self.bytes.len() - line);
        snapshot.put_slice(RESET);
        let (older, newer) = self.bytes.as_slices();
        snapshot.put_slice(older.get(line..).unwrap_or_default());
        snapshot.put_slice(
            newer
                .get(line.saturating_sub(older.len())..)
                .unwrap_or_default(),
        );
        Some(snapshot.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_output_there_is_nothing_and_no_memory() {
        let scrollback = Scrollback::default();
        assert_eq!(scrollback.snapshot(), None);
        assert_eq!(scrollback.bytes.capacity(), 0);
    }

    #[test]
    fn short_output_comes_back_whole_after_a_reset() {
        let mut scrollback = Scrollback::default();
        scrollback.push(b"$ ls\r\n");
        scrollback.push(b"$ ");
        assert_eq!(scrollback.snapshot().unwrap(), &b"\x1bc$ ls\r\n$ "[..]);
    }

    proptest! {
        #[test]
        fn what_comes_back_is_the_end_of_the_output_from_the_start_of_a_line(
            lines in prop::collection::vec(1usize..9000, 1..60),
        ) {
            let mut all = Vec::new();
            let mut scrollback = Scrollback::default();
            for (number, len) in lines.iter().enumerate() {
                let mut line = vec![b'a' + (number % 26) as u8; *len];
                line.extend_from_slice(b"\r\n");
                scrollback.push(&line);
                all.extend(line);
            }
            let snapshot = scrollback.snapshot().unwrap();
            let kept = snapshot.strip_prefix(RESET).unwrap();
            prop_assert!(kept.len() <= LIMIT && scrollback.bytes.len() <= LIMIT);
            prop_assert!(all.ends_with(kept));
            let before = all.len() - kept.len();
            prop_assert!(before == 0 || all[before - 1] == b'\n');
            prop_assert!(all.len() > LIMIT || before == 0, "nothing is dropped before it has to");
        }
    }
}
