//! What a busy shell writes: build-log lines with colours and a few characters beyond ASCII.
//!
//! Invariant: a block is the same bytes for every frame size, valid UTF-8, and a whole number of
//! frames; a frame may end inside a character, as a read from a terminal may.

/// Bytes of a block.
pub(super) const BLOCK: usize = 64 * 1024;

const LINES: [&str; 4] = [
    "\x1b[32m   Compiling\x1b[0m decisions v0.1.0 (/src/wasm) in the release profile, 4 units\r\n",
    "[2026-11-30T12:00:00.123456Z] INFO shop::orders request=7f3a status=200 took=12ms\r\n",
    "drwxr-xr-x  2 app app  4096 Nov 30 12:00 config  -> \"/etc/shop/config\" \\ r/o\r\n",
    "checked 1 204 rows \u{2013} \u{1b}[33mno warnings\u{1b}[0m \u{2713} done in 00:00:01.204\r\n",
];

/// One block.
pub(super) fn block() -> Vec<u8> {
    let mut text = String::with_capacity(BLOCK);
    let mut lines = LINES.iter().cycle();
    while let Some(line) = lines.next().filter(|line| text.len() + line.len() <= BLOCK) {
        text.push_str(line);
    }
    text.extend(std::iter::repeat_n('.', BLOCK - text.len()));
    text.into_bytes()
}

/// A block as a server sends it: WebSocket frames (RFC 6455, unmasked) on channel 1, each with
/// `payload` bytes of output.
pub(super) struct Burst {
    bytes: Vec<u8>,
    frame: usize,
}

impl Burst {
    pub(super) fn new(payload: usize) -> Self {
        let mut bytes = Vec::new();
        let mut frame = 0;
        for chunk in block().chunks(payload) {
            let start = bytes.len();
            let len = chunk.len() + 1;
            // Both sizes that are used fit a length of one byte, or of two.
            match u8::try_from(len) {
                Ok(len) if len < 126 => bytes.extend([0x82, len]),
                _ => {
                    let len = u16::try_from(len).unwrap_or(u16::MAX);
                    bytes.extend([0x82, 126]);
                    bytes.extend(len.to_be_bytes());
                }
            }
            bytes.push(1);
            bytes.extend(chunk);
            frame = frame.max(bytes.len() - start);
        }
        Self { bytes, frame }
    }

    /// All of it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Frame by frame.
    pub(super) fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_whole_text_of_its_size() {
        let block = block();
        assert_eq!(block.len(), BLOCK);
        assert!(std::str::from_utf8(&block).is_ok());
    }

    #[test]
    fn frames_carry_the_block_and_nothing_else() {
        for payload in [64, 128, 4096, 32 * 1024] {
            let burst = Burst::new(payload);
            let header = if payload < 125 { 3 } else { 5 };
            let carried: Vec<u8> = burst
                .frames()
                .flat_map(|frame| frame[header..].iter().copied())
                .collect();
            assert_eq!(carried, block());
            assert!(
                burst
                    .frames()
                    .all(|frame| frame[0] == 0x82 && frame[header - 1] == 1)
            );
        }
    }
}
