//! Text as the inside of a JSON string: what a recorder does to each byte of output.
//!
//! Invariant: exactly what [`ESCAPES`] says of each byte, whatever is beside it. Looked at one by
//! one, bytes cost a fifth of all that relaying does; so 64 are looked at together, and runs are
//! copied in pieces of fixed size, whose surplus the next piece overwrites.

use wide::u8x16;

/// Bytes that are looked at together: one bit each of a word.
const BLOCK: usize = 64;
/// What is copied of a run at once; most are shorter.
const RUN: usize = 32;
/// Escaped text is put together here, then appended: a block's own size, escaped, beside it.
const STAGE: usize = 1024;
const STAGED: usize = STAGE + BLOCK * ESCAPED_MAX + BLOCK;
/// `\u001b`
const ESCAPED_MAX: usize = 6;

/// Appends `text`, escaped.
pub(super) fn escape(text: &str, lines: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    lines.reserve(rest.len() + rest.len() / 8);
    let mut stage = [0; STAGED];
    let mut len = 0;
    // Runs are copied from beyond the block, too.
    while let Some(window) = rest.first_chunk() {
        len = escape_block(window, BLOCK, &mut stage, len);
        if len >= STAGE {
            lines.extend_from_slice(&stage[..len]);
            len = 0;
        }
        rest = &rest[BLOCK..];
    }
    let mut last = [0; 3 * BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    for from in (0..rest.len()).step_by(BLOCK) {
        let valid = BLOCK.min(rest.len() - from);
        len = escape_block(&part(&last, from), valid, &mut stage, len);
    }
    lines.extend_from_slice(&stage[..len]);
}

/// Puts the first `valid` bytes of the window's first block, escaped, at `len`; returns up to
/// where there is text now.
#[inline(always)]
fn escape_block(
    window: &[u8; 2 * BLOCK],
    valid: usize,
    stage: &mut [u8; STAGED],
    mut len: usize,
) -> usize {
    let mut marks = to_escape(&part(window, 0)) & (u64::MAX >> (BLOCK - valid));
    let mut copied = 0;
    while marks != 0 {
        let at = marks.trailing_zeros() as usize;
        let run = at - copied;
        put(stage, len, part::<RUN>(window, copied));
        if run > RUN {
            put(stage, len + RUN, part::<RUN>(window, copied + RUN));
        }
        len += run;
        let escape = ESCAPES[usize::from(window[at])];
        put(stage, len, escape.to_le_bytes());
        len += (escape >> 56) as usize;
        copied = at + 1;
        marks &= marks - 1;
    }
    put(stage, len, part::<BLOCK>(window, copied));
    len + valid - copied
}

#[inline(always)]
fn part<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[from..from + N]);
    part
}

#[inline(always)]
fn put<const N: usize>(stage: &mut [u8; STAGED], at: usize, bytes: [u8; N]) {
    stage[at..at + N].copy_from_slice(&bytes);
}

/// A bit for each byte that JSON escapes, and for DEL.
#[inline(always)]
fn to_escape(block: &[u8; BLOCK]) -> u64 {
    let mut marks = 0;
    for (number, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
        let bytes = u8x16::new(*bytes);
        let equal = |byte| bytes.simd_eq(u8x16::splat(byte));
        let control = bytes.min(u8x16::splat(0x1f)).simd_eq(bytes);
        let found = control | equal(b'"') | equal(b'\\') | equal(0x7f);
        marks |= u64::from(found.to_bitmask()) << (16 * number);
    }
    marks
}

/// What stands for a byte, and in the last place how long that is. The bytes that need no escape
/// stand for themselves.
static ESCAPES: [u64; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = match byte as u8 {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            same @ (b'"' | b'\\') => same,
            _ => 0,
        };
        let escape = if letter != 0 {
            [b'\\', letter, 0, 0, 0, 0, 0, 2]
        } else if byte < 0x20 || byte == 0x7f {
            let [high, low] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
            [b'\\', b'u', b'0', b'0', high, low, 0, ESCAPED_MAX as u8]
        } else {
            [byte as u8, 0, 0, 0, 0, 0, 0, 1]
        };
        table[byte] = u64::from_le_bytes(escape);
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One character after the other.
    fn plainly(text: &str) -> String {
        let mut escaped = String::new();
        for char in text.chars() {
            let quoted = serde_json::json!(char).to_string();
            escaped.push_str(match char {
                '\u{7f}' => "\\u007f",
                _ => &quoted[1..quoted.len() - 1],
            });
        }
        escaped
    }

    #[track_caller]
    fn check(text: &str) {
        let mut lines = b"before ".to_vec();
        escape(text, &mut lines);
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            format!("before {}", plainly(text))
        );
    }

    #[test]
    fn every_byte_is_escaped_as_json_does_and_del_too() {
        check(&(0..=0xff_u8).map(char::from).collect::<String>());
    }

    #[test]
    fn an_escape_is_found_wherever_in_a_text_of_any_length_it_is() {
        for len in [1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 193, 200] {
            for at in 0..len {
                let mut text = "a".repeat(len);
                text.replace_range(at..=at, "\x1b");
                check(&text);
            }
        }
    }

    #[test]
    fn nothing_but_what_is_longest_fits() {
        check(&"\x01".repeat(64 * 1024));
    }

    proptest! {
        #[test]
        fn any_text_is_escaped_as_character_by_character(
            text in "([ -~]{0,40}|\\PC|[\x00-\x1f\"\\\\\x7f]){0,60}"
        ) {
            check(&text);
        }
    }
}
