//! What of a recording's output reaches the viewer's terminal (B-14).
//!
//! Invariants: lists say what may pass, and everything else is left out: text, colours, cursor
//! movement and the modes that only draw pass; what reports, changes what keys send, touches the
//! clipboard or sets titles does not. A sequence passes whole or not at all, wherever the
//! recording's events cut it.

/// Lets text, colours and cursor movement through, and nothing that acts on the terminal.
#[derive(Default)]
pub(super) struct Filter {
    state: State,
    sequence: String,
    /// The sequence has something in it that no such sequence has.
    spoilt: bool,
    /// The recording is on the alternate screen.
    alternate: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and the intermediate that designates a character set.
    Charset(char),
    /// After ESC and any other intermediate: left out up to its final character.
    Ignored,
    /// In a CSI sequence, which is kept until its final character tells what it is.
    Csi,
    /// In an OSC, DCS, APC, PM or SOS string: left out whole.
    Command,
    /// In such a string, after ESC.
    CommandEscape,
}

/// Control characters that only draw: bell, movement, and the choice between character sets.
const CONTROLS: &str = "\x07\x08\t\n\x0b\x0c\r\x0e\x0f";
/// What may follow ESC: saved cursor, reset, line movement, tab stop, keypad.
const ESCAPES: &str = "78cDEHM=>";
/// Final characters of CSI sequences that only draw: cursor, erase, scroll, colours.
const DRAWS: &str = "@ABCDEFGHIJKLMPSTXZ`abdefgmrsu";
/// Private modes that only draw. Mouse, focus and bracketed paste would change what is typed.
const PRIVATE_MODES: [&str; 11] = [
    "1", "5", "6", "7", "12", "25", "45", "47", "1047", "1048", "1049",
];
/// Insert mode; of the others one locks the keyboard and one changes what Enter sends.
const MODES: [&str; 1] = ["4"];
const ALTERNATE: [&str; 3] = ["47", "1047", "1049"];
const LONGEST_SEQUENCE: usize = 64;

impl Filter {
    /// What of the recording's next output may be drawn.
    pub(super) fn pass(&mut self, data: &str) -> String {
        let mut out = String::with_capacity(data.len());
        for c in data.chars() {
            self.state = self.step(c, &mut out);
        }
        out
    }

    /// What leaves the terminal as it was found: the first screen, a visible cursor, no colours,
    /// normal keys; nothing in it moves the cursor.
    pub(super) fn reset(&self) -> String {
        let screen = if self.alternate { "\x1b[?1049l" } else { "" };
        // CAN ends a sequence that the recording left open.
        format!(
            "\x18{screen}\x1b[!p\x1b[?7h\x1b[?25h\x1b[?1l\x1b[?5l\x1b[?45l\
             \x1b[4l\x1b>\x1b(B\x0f\x1b[0m"
        )
    }

    fn step(&mut self, c: char, out: &mut String) -> State {
        match self.state {
            State::Text => self.text(c, out),
            State::Escape => self.escape(c, out),
            State::Charset(intermediate) => match c {
                '0'..='~' => {
                    out.extend(['\x1b', intermediate, c]);
                    State::Text
                }
                c => self.ignored(c),
            },
            State::Ignored => self.ignored(c),
            State::Csi => self.csi(c, out),
            State::Command => match c {
                '\x07' | '\x18' | '\x1a' | '\u{9c}' => State::Text,
                '\x1b' => State::CommandEscape,
                _ => State::Command,
            },
            State::CommandEscape => match c {
                '\\' => State::Text,
                // It broke the string off.
                c => self.escape(c, out),
            },
        }
    }

    fn text(&mut self, c: char, out: &mut String) -> State {
        if !c.is_control() || CONTROLS.contains(c) {
            out.push(c);
            return State::Text;
        }
        self.control(c)
    }

    /// A control character that is left out: where it leads.
    fn control(&mut self, c: char) -> State {
        match c {
            '\x1b' => State::Escape,
            '\u{9b}' => self.begin_csi(),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => State::Command,
            _ => State::Text,
        }
    }

    fn escape(&mut self, c: char, out: &mut String) -> State {
        match c {
            '[' => self.begin_csi(),
            ']' | 'P' | 'X' | '^' | '_' => State::Command,
            '(' | ')' | '*' | '+' => State::Charset(c),
            ' '..='/' => State::Ignored,
            c if c.is_control() => self.control(c),
            c => {
                if ESCAPES.contains(c) {
                    out.extend(['\x1b', c]);
                }
                State::Text
            }
        }
    }

    fn ignored(&mut self, c: char) -> State {
        match c {
            ' '..='/' => State::Ignored,
            c if c.is_control() => self.control(c),
            _ => State::Text,
        }
    }

    fn csi(&mut self, c: char, out: &mut String) -> State {
        match c {
            '@'..='~' => {
                if !self.spoilt {
                    self.drawn(c, out);
                }
                State::Text
            }
            ' '..='?' if self.sequence.len() < LONGEST_SEQUENCE => {
                self.sequence.push(c);
                State::Csi
            }
            '\x1b' | '\x18' | '\x1a' | '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}' => {
                self.control(c)
            }
            _ => {
                self.spoilt = true;
                State::Csi
            }
        }
    }

    /// A whole CSI sequence: what of it may pass.
    fn drawn(&mut self, last: char, out: &mut String) {
        let (marker, parameters) = match self.sequence.strip_prefix(['?', '>', '<', '=']) {
            Some(rest) => (self.sequence.get(..1).unwrap_or_default(), rest),
            None => ("", self.sequence.as_str()),
        };
        if !parameters.chars().all(|c| matches!(c, '0'..=';')) {
            return;
        }
        let modes: &[&str] = match (marker, last) {
            ("?", 'h' | 'l') => &PRIVATE_MODES,
            ("", 'h' | 'l') => &MODES,
            // With more than one parameter it is a kind of mouse tracking.
            ("", 'T') if parameters.contains(';') => return,
            ("", last) if DRAWS.contains(last) => {
                out.push_str(&format!("\x1b[{parameters}{last}"));
                return;
            }
            _ => return,
        };
        let kept: Vec<&str> = parameters
            .split(';')
            .filter(|mode| modes.contains(mode))
            .collect();
        if kept.is_empty() {
            return;
        }
        if marker == "?" && kept.iter().any(|mode| ALTERNATE.contains(mode)) {
            self.alternate = last == 'h';
        }
        out.push_str(&format!("\x1b[{marker}{}{last}", kept.join(";")));
    }

    fn begin_csi(&mut self) -> State {
        self.sequence.clear();
        self.spoilt = false;
        State::Csi
    }
}

#[cfg(test)]
mod tests;
