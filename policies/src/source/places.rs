//! Where each character of a text stands in its file.
//!
//! Whatever the style, the characters of the value that are not white space stand in the file in
//! the same order; between them the file may have indentation, line breaks and quotes. So both
//! are walked side by side, and a new run begins wherever they part.

use super::{Position, Run, Spanned};
use granit_parser::ScalarStyle;
use std::iter::Peekable;
use std::str::Chars;

/// The text with its places. `raw` is how it stands in the file, from `at`.
pub(super) fn placed(
    value: String,
    raw: &str,
    style: ScalarStyle,
    at: Position,
) -> Spanned<String> {
    let mut walk = Walk {
        raw: raw.chars().peekable(),
        at,
    };
    let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
    if quoted {
        walk.step();
    }
    let first = walk.at;
    let as_it_stands = raw
        .get(usize::from(quoted)..)
        .is_some_and(|raw| raw.starts_with(&value));
    if as_it_stands && !value.contains('\n') {
        return Spanned::new(value, first);
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut follows = first;
    for (offset, wanted) in value.chars().enumerate() {
        let at = walk.find(wanted, style).unwrap_or(walk.at);
        if offset == 0 || at != follows {
            runs.push(Run {
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
                at,
            });
        }
        follows = Position {
            line: at.line,
            column: at.column + 1,
        };
    }
    let at = runs.first().map_or(first, |run| run.at);
    Spanned {
        value,
        at,
        runs: runs.into(),
    }
}

struct Walk<'a> {
    raw: Peekable<Chars<'a>>,
    at: Position,
}

impl Walk<'_> {
    fn step(&mut self) -> Option<char> {
        let character = self.raw.next()?;
        self.pass(character);
        Some(character)
    }

    fn pass(&mut self, character: char) {
        self.at = match character {
            '\n' => Position {
                line: self.at.line + 1,
                column: 1,
            },
            _ => Position {
                line: self.at.line,
                column: self.at.column + 1,
            },
        };
    }

    /// The place of the next character of the value, the walk standing behind it afterwards;
    /// `None` where it does not stand in the file as itself.
    fn find(&mut self, wanted: char, style: ScalarStyle) -> Option<Position> {
        if wanted.is_whitespace() && self.raw.peek() == Some(&wanted) {
            let at = self.at;
            self.step();
            return Some(at);
        }
        // Each blank of the file is passed once only, so that the walk stays linear.
        let double = style == ScalarStyle::DoubleQuoted;
        if wanted.is_whitespace() && !double {
            return None;
        }
        while let Some(blank) = self.raw.next_if(|c| c.is_whitespace()) {
            self.pass(blank);
        }
        let escape = double && self.raw.peek() == Some(&'\\');
        if wanted.is_whitespace() && !escape {
            return None;
        }
        let at = self.at;
        match self.step()? {
            '\\' if escape => self.escaped(wanted, style, at),
            '\'' if style == ScalarStyle::SingleQuoted => {
                self.step();
                Some(at)
            }
            _ => Some(at),
        }
    }

    /// Behind a backslash: skips the rest of the escape.
    fn escaped(&mut self, wanted: char, style: ScalarStyle, at: Position) -> Option<Position> {
        let digits = match self.step()? {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            // The line goes on; the character comes later.
            '\n' | '\r' => return self.find(wanted, style),
            _ => 0,
        };
        for _ in 0..digits {
            self.step();
        }
        Some(at)
    }
}
