//! How JSON text from outside is read: bounded, and the same in every host.
//!
//! Invariants: an input is at most [`MAX_INPUT_BYTES`] long and 127 levels deep, or it is refused
//! before anything is made of it; a text that JavaScript can hold and Unicode cannot (a lone
//! surrogate) is read as U+FFFD, once for each, wherever it comes from.

use alloc::borrow::Cow;
use alloc::string::String;
use serde_json::Value;

/// The longest JSON text that a decision reads, in bytes of UTF-8.
pub const MAX_INPUT_BYTES: usize = 1024 * 1024;

/// Why there is no decision. What a decision itself refuses is its answer and never this.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Over [`MAX_INPUT_BYTES`].
    #[error(
        "the input is longer than {MAX_INPUT_BYTES} bytes, so nothing was decided; send what the \
         decision needs and no more"
    )]
    TooLarge,
    /// Not JSON, or nested too deeply, or with a number that no `f64` holds.
    #[error("the input is not JSON that can be read, so nothing was decided: {0}")]
    NotJson(#[source] serde_json::Error),
    /// JSON, but not what this decision takes.
    #[error("the input is not what `{decision}` takes, so nothing was decided: {why}")]
    WrongShape {
        /// The decision's name.
        decision: &'static str,
        /// Where and how; nothing of the input's values.
        why: String,
    },
    /// No such decision.
    #[error("there is no decision of this name")]
    UnknownDecision,
}

impl DoorError {
    /// The stable name that programs compare.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::NotJson(_) => "not_json",
            Self::WrongShape { .. } => "wrong_shape",
            Self::UnknownDecision => "unknown_decision",
        }
    }
}

/// Reads JSON text as every host reads it. The sidecar reads request bodies with it too, so that
/// browser and server agree on every input.
///
/// # Errors
/// [`DoorError::TooLarge`] and [`DoorError::NotJson`].
pub fn read(text: &str) -> Result<Value, DoorError> {
    if text.len() > MAX_INPUT_BYTES {
        return Err(DoorError::TooLarge);
    }
    serde_json::from_str(&well_formed(text)).map_err(DoorError::NotJson)
}

/// The escape for U+FFFD, as long as the one that it replaces.
const REPLACEMENT: &str = "\\ufffd";
/// The length of `\uXXXX`.
const ESCAPE: usize = REPLACEMENT.len();

/// The JSON text with every escaped lone surrogate (`"\ud800"`) replaced by an escaped U+FFFD.
///
/// `JSON.stringify` writes a lone surrogate as an escape, which no Rust string can hold; an
/// unescaped one becomes U+FFFD when the string crosses into Rust. So both ways agree. Text
/// without one is returned as it is.
pub fn well_formed(text: &str) -> Cow<'_, str> {
    let mut made = String::new();
    let mut copied = 0; // up to here `made` holds the text
    let mut at = 0;
    while let Some(found) = text
        .as_bytes()
        .get(at..)
        .and_then(|rest| position(rest, b'\\'))
    {
        at += found;
        match unit(text, at) {
            None => at += 2, // another escape; its second byte is no backslash that begins one
            Some(high) if is_high(high) && unit(text, at + ESCAPE).is_some_and(is_low) => {
                at += 2 * ESCAPE;
            }
            Some(lone) if is_high(lone) || is_low(lone) => {
                // A backslash is never inside a character, so both cuts are between characters.
                made.push_str(text.get(copied..at).unwrap_or_default());
                made.push_str(REPLACEMENT);
                at += ESCAPE;
                copied = at;
            }
            Some(_) => at += ESCAPE,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    made.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(made)
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

/// The UTF-16 unit that is escaped at this byte, if there is such an escape.
fn unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal {
        u16::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

fn is_high(unit: u16) -> bool {
    (0xD800..=0xDBFF).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xDC00..=0xDFFF).contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn reads_as(text: &str, expected: &str) {
        assert_eq!(read(text).unwrap(), Value::from(expected), "{text}");
    }

    #[test]
    fn a_lone_surrogate_is_one_replacement_character() {
        reads_as(r#""\ud800""#, "\u{fffd}");
        reads_as(r#""\uDFFF""#, "\u{fffd}");
        reads_as(r#""a\ud800b""#, "a\u{fffd}b");
        reads_as(r#""\udc00\ud800""#, "\u{fffd}\u{fffd}");
        reads_as(r#""\ud800\ud800\udc00""#, "\u{fffd}\u{10000}");
    }

    #[test]
    fn a_pair_is_its_character() {
        reads_as(r#""\ud83d\ude00""#, "😀");
        reads_as(r#""\uD83D\uDE00!""#, "😀!");
    }

    #[test]
    fn an_escaped_backslash_before_u_is_text() {
        reads_as(r#""\\ud800""#, "\\ud800");
        reads_as(r#""\\\ud800""#, "\\\u{fffd}");
    }

    #[test]
    fn a_key_is_treated_as_a_value() {
        assert_eq!(
            read(r#"{"\ud800":1}"#).unwrap(),
            serde_json::json!({ "\u{fffd}": 1 })
        );
    }

    #[test]
    fn text_without_a_lone_surrogate_is_not_copied() {
        assert!(matches!(
            well_formed(r#"{"a":"\u0041\n\ud83d\ude00"}"#),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn what_is_cut_off_inside_an_escape_is_no_json_and_no_panic() {
        for text in [
            "\"\\",
            "\"\\u",
            "\"\\ud8",
            "\"\\ud800",
            "\"\\ud800\\",
            "\\é",
            "\\ué00",
        ] {
            assert_eq!(read(text).unwrap_err().code(), "not_json", "{text}");
        }
    }

    #[test]
    fn too_long_and_too_deep_are_answers() {
        let longest = format!("\"{}\"", "a".repeat(MAX_INPUT_BYTES - 2));
        assert!(read(&longest).is_ok());
        assert_eq!(
            read(&format!("{longest} ")).unwrap_err().code(),
            "too_large"
        );
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(127)).is_ok());
        assert_eq!(read(&nested(128)).unwrap_err().code(), "not_json");
        assert_eq!(
            read(&"[".repeat(MAX_INPUT_BYTES)).unwrap_err().code(),
            "not_json"
        );
    }

    proptest! {
        /// What JavaScript's `JSON.stringify` writes for any sequence of UTF-16 units is read as
        /// that sequence with its lone surrogates replaced: `String.prototype.toWellFormed`.
        #[test]
        fn any_utf16_is_read_as_its_well_formed_text(
            units in prop::collection::vec(
                prop_oneof![0xD7FEu16..0xE002, 0x20u16..0x80, Just(0x5Cu16), any::<u16>()],
                0..40,
            )
        ) {
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let expected = String::from_utf16_lossy(&units);
            prop_assert_eq!(read(&format!("\"{escaped}\"")).unwrap(), Value::from(expected));
        }

        #[test]
        fn no_text_panics(text in r#"[\\u"dD89cCfF0\[\]{}é😀]{0,60}"#) {
            let _ = read(&text);
        }
    }
}
