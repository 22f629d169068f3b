//! The frames between browser and backend (T-3), as text: parsed with bounds, written as JSON.
//!
//! Invariant: what is not exactly understood is not passed on; a refusal names no content.

use serde::{Deserialize, Serialize};

/// The most that one input frame may type.
pub const MAX_INPUT: usize = 64 * 1024;
/// The longest text frame that is looked at: the largest input with every byte escaped.
pub const MAX_TEXT: usize = MAX_INPUT * 6 + 1024;

/// What a browser asks for.
#[derive(PartialEq, Eq)]
pub enum BrowserFrame {
    /// Typed or pasted.
    Input(String),
    /// The terminal's size, clamped to 10-500 × 5-300.
    Resize {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// So many more bytes of output are drawn (T-15).
    Ack(u64),
}

/// Why a frame was not understood. The text is what the browser is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// More than a frame may hold.
    #[error("the frame is too large, at most 64 KiB can be typed at once; it was ignored")]
    TooLarge,
    /// Not JSON, or fields of the wrong kind.
    #[error("the frame is malformed and was ignored")]
    Malformed,
    /// No type that this version knows, or not a text frame.
    #[error("the frame's type is unknown and it was ignored")]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Wire {
    Input {
        data: String,
    },
    Resize {
        cols: i64,
        rows: i64,
    },
    Ack {
        bytes: u64,
    },
    #[serde(other)]
    Unknown,
}

/// Reads one text frame.
///
/// # Errors
/// Why it is not passed on.
pub fn parse(text: &str) -> Result<BrowserFrame, BadFrame> {
    if text.len() > MAX_TEXT {
        return Err(BadFrame::TooLarge);
    }
    match serde_json::from_str(text).map_err(|_| BadFrame::Malformed)? {
        Wire::Input { data } if data.len() > MAX_INPUT => Err(BadFrame::TooLarge),
        Wire::Input { data } => Ok(BrowserFrame::Input(data)),
        Wire::Resize { cols, rows } => Ok(BrowserFrame::Resize {
            cols: clamp(cols, 10, 500),
            rows: clamp(rows, 5, 300),
        }),
        Wire::Ack { bytes } => Ok(BrowserFrame::Ack(bytes)),
        Wire::Unknown => Err(BadFrame::Unknown),
    }
}

fn clamp(size: i64, least: u16, most: u16) -> u16 {
    u16::try_from(size.clamp(least.into(), most.into())).unwrap_or(most)
}

/// What the backend tells a browser, beside output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum Notice<'a> {
    /// The terminal is connected.
    Attached {
        /// Until the deadline.
        seconds_left: u64,
    },
    /// The deadline is later.
    Extended {
        /// Until the new deadline.
        seconds_left: u64,
    },
    /// This connection is over, the session is not.
    Detached {
        /// Why.
        reason: &'a str,
    },
    /// The session is over.
    Ended {
        /// Why (S-4).
        reason: &'a str,
    },
    /// Something the browser sent had no effect.
    Error {
        /// What.
        message: &'a str,
    },
    /// The deadline is near (T-7).
    Warning {
        /// Until the deadline.
        seconds_left: u64,
    },
}

impl Notice<'_> {
    /// The frame's text.
    pub fn text(&self) -> String {
        // Strings and numbers into memory: there is nothing in it that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<BrowserFrame, BadFrame>) {
        assert!(parse(text) == expected, "{text:.80}");
    }

    fn resize(cols: u16, rows: u16) -> Result<BrowserFrame, BadFrame> {
        Ok(BrowserFrame::Resize { cols, rows })
    }

    #[test]
    fn what_was_typed_is_read_as_it_was_typed() {
        let typed = "ls -l\r\u{1b}[A\u{3042}".to_owned();
        check(
            r#"{"type":"input","data":"ls -l\r\u001b[A\u3042"}"#,
            Ok(BrowserFrame::Input(typed)),
        );
    }

    #[test]
    fn a_size_is_clamped() {
        check(r#"{"type":"resize","cols":132,"rows":43}"#, resize(132, 43));
        check(r#"{"type":"resize","cols":0,"rows":0}"#, resize(10, 5));
        check(
            r#"{"type":"resize","cols":-1,"rows":70000}"#,
            resize(10, 300),
        );
        check(
            r#"{"type":"resize","cols":9223372036854775807,"rows":24}"#,
            resize(500, 24),
        );
    }

    #[test]
    fn fields_of_a_later_version_do_not_disturb() {
        check(
            r#"{"type":"ack","bytes":131072,"frames":3}"#,
            Ok(BrowserFrame::Ack(131_072)),
        );
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let frames = [
            "",
            "{",
            "null",
            "[]",
            "\"input\"",
            r#"{"data":"x"}"#,
            r#"{"type":"input"}"#,
            r#"{"type":"input","data":1}"#,
            r#"{"type":"input","data":"\ud800"}"#,
            r#"{"type":"resize","cols":80.5,"rows":24}"#,
            r#"{"type":"resize","cols":99999999999999999999,"rows":24}"#,
            r#"{"type":"ack","bytes":-1}"#,
            r#"{"type":"input","data":"x"} {"type":"input","data":"y"}"#,
        ];
        for frame in frames {
            check(frame, Err(BadFrame::Malformed));
        }
        check(&"[".repeat(MAX_TEXT), Err(BadFrame::Malformed));
    }

    #[test]
    fn an_unknown_type_is_refused() {
        check(r#"{"type":"output","data":"x"}"#, Err(BadFrame::Unknown));
    }

    #[test]
    fn exactly_64_kib_can_be_typed_at_once_however_they_are_escaped() {
        let input = |data: &str| format!(r#"{{"type":"input","data":"{data}"}}"#);
        let most = "\u{0}".repeat(MAX_INPUT);
        check(
            &input(&"\\u0000".repeat(MAX_INPUT)),
            Ok(BrowserFrame::Input(most)),
        );
        check(&input(&"a".repeat(MAX_INPUT + 1)), Err(BadFrame::TooLarge));
        check(&input(&"a".repeat(MAX_TEXT)), Err(BadFrame::TooLarge));
    }

    #[test]
    fn notices_are_what_clients_know() {
        let notices = [
            (
                Notice::Attached { seconds_left: 1800 },
                r#"{"type":"attached","secondsLeft":1800}"#,
            ),
            (
                Notice::Extended { seconds_left: 60 },
                r#"{"type":"extended","secondsLeft":60}"#,
            ),
            (
                Notice::Detached {
                    reason: "opened in another tab",
                },
                r#"{"type":"detached","reason":"opened in another tab"}"#,
            ),
            (
                Notice::Ended { reason: "expired" },
                r#"{"type":"ended","reason":"expired"}"#,
            ),
            (
                Notice::Error { message: "no" },
                r#"{"type":"error","message":"no"}"#,
            ),
            (
                Notice::Warning { seconds_left: 300 },
                r#"{"type":"warning","secondsLeft":300}"#,
            ),
        ];
        for (notice, text) in notices {
            assert_eq!(notice.text(), text);
        }
    }
}
