//! Reading what the encoder wrote: for recovery, for `verify`, and for restoring bytes.
//!
//! Invariant: a line is read whole or not at all; nothing here trusts a file's content.

use super::cast::Header;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The longest line that the encoder writes is a batch of control characters, six bytes each.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// One event line.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since the recording's start.
    pub micros: u64,
    /// asciicast's code: `o`, `i`, `r`, `m`, our `b`, or one that somebody else added.
    pub code: String,
    /// Its data.
    pub data: String,
}

/// Reads one event line, without its `\n`; `None` when it is not one.
pub fn read_event(line: &[u8]) -> Option<Event> {
    let (seconds, code, data): (f64, String, String) = serde_json::from_slice(line).ok()?;
    if !(0.0..1e12).contains(&seconds) {
        return None;
    }
    // In range by the check above; rounding restores the six decimals that were written.
    Some(Event {
        micros: (seconds * 1e6).round() as u64,
        code,
        data,
    })
}

#[derive(Deserialize)]
struct HeaderLine {
    version: u8,
    width: u16,
    height: u16,
    timestamp: Option<i64>,
    title: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

/// Reads a header line; `None` when it is not one of asciicast v2.
pub fn read_header(line: &[u8]) -> Option<Header> {
    let line: HeaderLine = serde_json::from_slice(line).ok()?;
    let mut env = line.env.unwrap_or_default();
    (line.version == 2).then(|| Header {
        cols: line.width,
        rows: line.height,
        timestamp: line.timestamp.unwrap_or_default(),
        title: line.title.unwrap_or_default(),
        term: env.remove("TERM").unwrap_or_default(),
        shell: env.remove("SHELL"),
    })
}

impl fmt::Debug for Event {
    /// Without its data: that is what people typed and saw.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { micros, code, data } = self;
        write!(f, "Event({micros} {code:?}, {} bytes)", data.len())
    }
}

impl Event {
    /// The bytes of an `o` or `i` event as they were, given the `b` event directly before it, if
    /// there is one; `None` when the two do not belong together.
    pub fn bytes(&self, before: Option<&Event>) -> Option<Vec<u8>> {
        let Some(raw) = before.filter(|event| event.code == "b") else {
            return Some(self.data.clone().into_bytes());
        };
        let mut groups = raw.data.split(' ');
        if groups.next() != Some(self.code.as_str()) {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.data.len());
        let mut parts = self.data.split('\u{FFFD}');
        bytes.extend_from_slice(parts.next()?.as_bytes());
        for part in parts {
            unhex(groups.next()?, &mut bytes)?;
            bytes.extend_from_slice(part.as_bytes());
        }
        groups.next().is_none().then_some(bytes)
    }
}

fn unhex(group: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let digits = group.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    for pair in digits.chunks(2) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        bytes.push(u8::try_from(high? * 16 + low?).ok()?);
    }
    Some(())
}
