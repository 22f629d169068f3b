//! `breakglass recording play`.
//!
//! Invariant: a hostile recording cannot act on the viewer's terminal (B-14): what reports,
//! touches the clipboard, opens links or sets titles is left out, and so is what is not output.

use super::failure::Failure;
use super::say;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// The longest line that is read: one batch of output, escaped at its worst, and then some.
const LONGEST_LINE: u64 = 1 << 20;

/// How to play.
pub(super) struct Options {
    pub(super) speed: f64,
    pub(super) idle_limit: f64,
    pub(super) unfiltered: bool,
}

/// Plays a file as it was recorded.
pub(super) async fn play(path: &Path, options: &Options) -> Result<(), Failure> {
    let file = tokio::fs::File::open(path)
        .await
        .map_err(|error| Failure::Local(format!("cannot read `{}`: {error}", path.display())))?;
    let mut lines = BufReader::new(file);
    let header = line(&mut lines).await?.unwrap_or_default();
    let header: Value = serde_json::from_str(&header)
        .map_err(|_| Failure::Local("this is not a recording: no asciicast header".to_owned()))?;
    if header["version"] != 2 {
        return Err(Failure::Local(
            "only asciicast version 2 can be played".to_owned(),
        ));
    }
    let mut filter = Filter::default();
    let mut at = 0.0;
    while let Some(text) = line(&mut lines).await? {
        let Ok(Value::Array(event)) = serde_json::from_str(&text) else {
            say("\r\nthe recording ends with a torn line\r");
            break;
        };
        let (Some(time), Some(code), Some(data)) = (
            event.first().and_then(Value::as_f64),
            event.get(1).and_then(Value::as_str),
            event.get(2).and_then(Value::as_str),
        ) else {
            continue;
        };
        if code != "o" {
            continue;
        }
        let pause = ((time - at).clamp(0.0, options.idle_limit)) / options.speed;
        at = time.max(at);
        tokio::time::sleep(Duration::try_from_secs_f64(pause).unwrap_or_default()).await;
        let shown = if options.unfiltered {
            data.to_owned()
        } else {
            filter.pass(data)
        };
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(shown.as_bytes())
            .and_then(|()| stdout.flush())?;
    }
    say("\x1b[0m");
    Ok(())
}

async fn line(lines: &mut BufReader<tokio::fs::File>) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let read = lines.take(LONGEST_LINE).read_line(&mut text).await?;
    if read as u64 == LONGEST_LINE && !text.ends_with('\n') {
        return Err(Failure::Local(
            "a line of the recording is too long".to_owned(),
        ));
    }
    Ok((read > 0).then_some(text))
}

/// Lets text, colours and cursor movement through, and nothing that acts on the terminal.
#[derive(Default)]
struct Filter {
    state: State,
    sequence: String,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In a CSI sequence, which is kept until its final character tells what it is.
    Csi,
    /// In an OSC, DCS, APC, PM or SOS string: left out whole.
    Text8,
    /// In such a string, after ESC.
    Text8Escape,
}

/// Final characters of CSI sequences that only draw: cursor, erase, scroll, colours, modes.
const DRAWS: &str = "@ABCDEFGHIJKLMPSTXZ`abdefghlmrsu";

impl Filter {
    fn pass(&mut self, data: &str) -> String {
        let mut out = String::with_capacity(data.len());
        for c in data.chars() {
            self.step(c, &mut out);
        }
        out
    }

    fn step(&mut self, c: char, out: &mut String) {
        self.state = match (self.state, c) {
            (State::Text, '\x1b') => State::Escape,
            (State::Text, '\u{9b}') => self.begin_csi(),
            (State::Text, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => State::Text8,
            // Asks the terminal who it is.
            (State::Text, '\x05') => State::Text,
            (State::Text, c) => {
                out.push(c);
                State::Text
            }
            (State::Escape, '[') => self.begin_csi(),
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Text8,
            (State::Escape, '\x1b') => State::Escape,
            (State::Escape, c) => {
                // Saved cursor, index, charset, reset: they draw.
                if c != 'Z' {
                    out.push('\x1b');
                    out.push(c);
                }
                State::Text
            }
            (State::Csi, '\x1b') => State::Escape,
            (State::Csi, c @ '@'..='~') => {
                // A report is asked for with `n` and `c`, window operations with `t`; a private
                // `u` (keyboard protocol) and `q` would make the terminal answer or change.
                let private = self.sequence.starts_with(['?', '>', '<', '=']);
                if DRAWS.contains(c) && !(private && c == 'u') && self.sequence.len() <= 64 {
                    out.push_str("\x1b[");
                    out.push_str(&self.sequence);
                    out.push(c);
                }
                State::Text
            }
            (State::Csi, c) => {
                if self.sequence.len() <= 64 {
                    self.sequence.push(c);
                }
                State::Csi
            }
            (State::Text8, '\x07' | '\u{9c}') => State::Text,
            (State::Text8, '\x1b') => State::Text8Escape,
            (State::Text8, _) => State::Text8,
            (State::Text8Escape, '\\') => State::Text,
            (State::Text8Escape, _) => State::Text8,
        };
    }

    fn begin_csi(&mut self) -> State {
        self.sequence.clear();
        State::Csi
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data: &str, shown: &str) {
        assert_eq!(Filter::default().pass(data), shown);
        // Cut anywhere, it is the same.
        let mut filter = Filter::default();
        let whole: String = data.chars().map(|c| filter.pass(&c.to_string())).collect();
        assert_eq!(whole, shown);
    }

    #[test]
    fn what_draws_is_shown() {
        check("plain あ\r\n", "plain あ\r\n");
        check(
            "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[H",
            "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[H",
        );
        check("\x1b[?1049h\x1b7\x1b8\x1bc", "\x1b[?1049h\x1b7\x1b8\x1bc");
    }

    #[test]
    fn qx7_what_would_act_on_the_viewers_terminal_is_left_out() {
        check("a\x1b]52;c;ZXZpbA==\x07b", "ab");
        check("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb");
        check("a\x1b[21tb", "ab");
        check("a\x1b[6nb\x1b[cc\x1bZd\x05e", "abcde");
        check("a\x1bP+q544e\x1b\\b", "ab");
        check("a\u{9d}52;c;eA==\u{9c}b", "ab");
        check("a\x1b[>1ub", "ab");
    }
}
