//! The asciicast v2 encoder: bytes in, whole lines out. No file and no clock.
//!
//! Invariants: every line is valid JSON and ends with `\n`; times never go back; the text of a
//! byte stream does not depend on where the stream was cut into calls; from the lines of one
//! direction its bytes can be restored exactly (`docs/recording-format.md`).

mod escape;

use self::escape::escape;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str;
use std::time::Duration;

/// What a recording says of itself before the first event. No command and no value of the
/// target's environment: both can hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Columns at the start.
    pub cols: u16,
    /// Rows at the start.
    pub rows: u16,
    /// Wall-clock start, in whole seconds since 1970: a fraction stops some players.
    pub timestamp: i64,
    /// Whose session on what; no secret.
    pub title: String,
    /// What the shell is told of the terminal: `xterm-256color`.
    pub term: String,
    /// The shell's path in the debug image, if it is known.
    pub shell: Option<String>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    version: u8,
    width: u16,
    height: u16,
    timestamp: i64,
    title: &'a str,
    env: BTreeMap<&'static str, &'a str>,
}

impl Header {
    /// A header for a terminal of the usual kind and size, since nobody has attached yet: the
    /// first terminal's own size follows as an event.
    pub fn new(wall: Timestamp, title: &str) -> Self {
        Self {
            cols: 80,
            rows: 24,
            timestamp: wall.as_second(),
            title: title.to_owned(),
            term: "xterm-256color".to_owned(),
            shell: None,
        }
    }

    /// The header as the recording's first line, with its `\n`.
    pub fn line(&self) -> Vec<u8> {
        let mut env = BTreeMap::from([("TERM", self.term.as_str())]);
        if let Some(shell) = &self.shell {
            env.insert("SHELL", shell);
        }
        let line = HeaderLine {
            version: 2,
            width: self.cols,
            height: self.rows,
            timestamp: self.timestamp,
            title: &self.title,
            env,
        };
        // Numbers and strings into memory: there is nothing in it that could fail.
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// What an event line is about: asciicast's codes, and one of ours that readers skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Output,
    Input,
    Resize,
    Marker,
    /// The bytes that U+FFFD stands for in the line after it.
    Bytes,
}

impl Code {
    fn letter(self) -> u8 {
        match self {
            Self::Output => b'o',
            Self::Input => b'i',
            Self::Resize => b'r',
            Self::Marker => b'm',
            Self::Bytes => b'b',
        }
    }
}

/// Turns terminal traffic into asciicast lines.
#[derive(Default)]
pub struct CastEncoder {
    last_micros: u64,
    output: Carry,
    input: Carry,
}

impl CastEncoder {
    /// An encoder for a new recording.
    pub fn new() -> Self {
        Self::default()
    }

    /// An encoder that goes on after an event at `last`, in microseconds.
    pub fn resumed(last: u64) -> Self {
        Self {
            last_micros: last,
            ..Self::default()
        }
    }

    /// Appends what the shell wrote at `at` (since the recording's start) to `lines`.
    pub fn output(&mut self, at: Duration, bytes: &[u8], lines: &mut Vec<u8>) {
        let micros = self.time(at);
        self.output.write(micros, Code::Output, bytes, lines);
    }

    /// Appends what was typed. Input has its own decoder: neither direction completes the other's
    /// characters.
    pub fn input(&mut self, at: Duration, bytes: &[u8], lines: &mut Vec<u8>) {
        let micros = self.time(at);
        self.input.write(micros, Code::Input, bytes, lines);
    }

    /// Appends a new terminal size.
    pub fn resize(&mut self, at: Duration, cols: u16, rows: u16, lines: &mut Vec<u8>) {
        begin(self.time(at), Code::Resize, lines);
        decimal(cols.into(), lines);
        lines.push(b'x');
        decimal(rows.into(), lines);
        end(lines);
    }

    /// Appends a marker: a change of the session's state. It does not cut a character
    /// whose bytes arrive before and after it.
    pub fn marker(&mut self, at: Duration, text: &str, lines: &mut Vec<u8>) {
        begin(self.time(at), Code::Marker, lines);
        escape(text, lines);
        end(lines);
    }

    /// Appends what the decoders still hold: characters that were never completed. The bytes
    /// that follow, if any, belong to another stream.
    pub fn finish(&mut self, at: Duration, lines: &mut Vec<u8>) {
        let micros = self.time(at);
        self.input.finish(micros, Code::Input, lines);
        self.output.finish(micros, Code::Output, lines);
    }

    fn time(&mut self, at: Duration) -> u64 {
        let micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        self.last_micros = self.last_micros.max(micros);
        self.last_micros
    }
}

/// The first bytes of a character whose rest has not arrived: never more than three.
#[derive(Default)]
struct Carry {
    bytes: [u8; 3],
    len: u8,
}

/// What became of a carry when more bytes arrived.
enum Head {
    /// There was none.
    Nothing,
    /// One character, complete.
    Char([u8; 4], usize),
    /// It was never a character.
    Invalid([u8; 3], usize),
}

impl Carry {
    fn write(&mut self, micros: u64, code: Code, bytes: &[u8], lines: &mut Vec<u8>) {
        let Some((head, rest)) = self.take_head(bytes) else {
            return;
        };
        let (body, tail) = split_tail(rest);
        self.keep(tail);
        if body.is_empty() && matches!(head, Head::Nothing) {
            return;
        }
        // Only whether; what a broken text is made of is looked at below.
        let text = simdutf8::basic::from_utf8(body);
        if text.is_err() || matches!(head, Head::Invalid(..)) {
            raw_bytes(micros, code, &head, body, lines);
        }
        begin(micros, code, lines);
        match &head {
            Head::Nothing => {}
            // The only characters that JSON escapes are ASCII, which is never carried.
            Head::Char(char, len) => lines.extend_from_slice(&char[..*len]),
            Head::Invalid(..) => lines.extend_from_slice(REPLACEMENT),
        }
        match text {
            Ok(text) => escape(text, lines),
            Err(_) => {
                for chunk in body.utf8_chunks() {
                    escape(chunk.valid(), lines);
                    if !chunk.invalid().is_empty() {
                        lines.extend_from_slice(REPLACEMENT);
                    }
                }
            }
        }
        end(lines);
    }

    fn finish(&mut self, micros: u64, code: Code, lines: &mut Vec<u8>) {
        let len = usize::from(self.len);
        self.len = 0;
        if len > 0 {
            let head = Head::Invalid(self.bytes, len);
            raw_bytes(micros, code, &head, &[], lines);
            begin(micros, code, lines);
            lines.extend_from_slice(REPLACEMENT);
            end(lines);
        }
    }

    /// Completes or gives up the carried character; `None` while it is still incomplete.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Option<(Head, &'a [u8])> {
        if self.len == 0 {
            return Some((Head::Nothing, bytes));
        }
        let mut char = [0; 4];
        let carried = usize::from(self.len);
        char[..carried].copy_from_slice(&self.bytes[..carried]);
        for (taken, byte) in bytes.iter().enumerate() {
            let len = carried + taken;
            char[len] = *byte;
            match str::from_utf8(&char[..=len]) {
                Ok(_) => {
                    self.len = 0;
                    return Some((Head::Char(char, len + 1), &bytes[taken + 1..]));
                }
                // This byte does not go on with what was before it, and is looked at again.
                Err(error) if error.error_len().is_some() => {
                    self.len = 0;
                    let head = Head::Invalid([char[0], char[1], char[2]], len);
                    return Some((head, &bytes[taken..]));
                }
                Err(_) => {}
            }
        }
        self.keep(&char[..carried + bytes.len()]);
        None
    }

    fn keep(&mut self, tail: &[u8]) {
        // At most three bytes: a fourth completes any character.
        self.bytes[..tail.len()].copy_from_slice(tail);
        self.len = tail.len() as u8;
    }
}

/// Splits off an incomplete character at the end.
fn split_tail(bytes: &[u8]) -> (&[u8], &[u8]) {
    for back in 1..=bytes.len().min(3) {
        let start = bytes.len() - back;
        let byte = bytes[start];
        if byte & 0b1100_0000 == 0b1000_0000 {
            continue; // inside a character: its first byte is further ahead
        }
        let incomplete = str::from_utf8(&bytes[start..])
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
        return if incomplete {
            bytes.split_at(start)
        } else {
            (bytes, &[])
        };
    }
    (bytes, &[])
}

const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Writes the line that restores what the next line cannot show: for each U+FFFD of that line,
/// in order, the bytes it stands for, also where the stream held a real U+FFFD.
#[cold]
fn raw_bytes(micros: u64, code: Code, head: &Head, body: &[u8], lines: &mut Vec<u8>) {
    begin(micros, Code::Bytes, lines);
    lines.push(code.letter());
    match head {
        Head::Invalid(bytes, len) => hex_group(&bytes[..*len], lines),
        Head::Char(bytes, len) if &bytes[..*len] == REPLACEMENT => hex_group(REPLACEMENT, lines),
        Head::Char(..) | Head::Nothing => {}
    }
    for chunk in body.utf8_chunks() {
        let valid = chunk.valid();
        // Looking for the first byte is much cheaper than for the character.
        if valid.as_bytes().contains(&REPLACEMENT[0]) {
            for _ in valid.matches('\u{FFFD}') {
                hex_group(REPLACEMENT, lines);
            }
        }
        if !chunk.invalid().is_empty() {
            hex_group(chunk.invalid(), lines);
        }
    }
    end(lines);
}

fn hex_group(bytes: &[u8], lines: &mut Vec<u8>) {
    lines.push(b' ');
    for byte in bytes {
        lines.extend_from_slice(&hex_digits(*byte));
    }
}

/// `[12.345678, "o", "`
fn begin(micros: u64, code: Code, lines: &mut Vec<u8>) {
    lines.push(b'[');
    decimal(micros / 1_000_000, lines);
    lines.push(b'.');
    let mut fraction = micros % 1_000_000;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit += (fraction % 10) as u8;
        fraction /= 10;
    }
    lines.extend_from_slice(&digits);
    lines.extend_from_slice(b", \"");
    lines.push(code.letter());
    lines.extend_from_slice(b"\", \"");
}

fn end(lines: &mut Vec<u8>) {
    lines.extend_from_slice(b"\"]\n");
}

fn decimal(mut number: u64, lines: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    lines.extend_from_slice(&digits[start..]);
}

fn hex_digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

#[cfg(test)]
mod tests;
