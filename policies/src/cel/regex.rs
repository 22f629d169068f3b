//! Regular expressions: RE2's dialect, as the API server reads it, on the crate `regex`.
//!
//! Invariants: a pattern means here what it means to the API server, or is refused; it is
//! bounded in length and in what it compiles to, and a match needs time linear in the text.

use super::EvalError;
use regex::{Regex, RegexBuilder};

/// The longest pattern, in bytes.
pub const MAX_PATTERN: usize = 4096;
/// What a pattern may compile to, in bytes.
const MAX_COMPILED: usize = 1 << 20;
/// RE2's own limit of a repetition.
const MAX_REPEAT: u32 = 1000;

/// Why a pattern was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    /// It is none of RE2's.
    #[error("error parsing regexp: {0}")]
    Invalid(String),
    /// RE2 may take it, this engine does not.
    #[error("{0} is not supported by this engine")]
    Limit(String),
}

impl PatternError {
    pub(super) fn is_limit(&self) -> bool {
        matches!(self, Self::Limit(_))
    }
}

impl From<PatternError> for EvalError {
    fn from(error: PatternError) -> Self {
        match error {
            PatternError::Invalid(_) => Self::BadValue(error.to_string()),
            PatternError::Limit(what) => Self::Unsupported(what),
        }
    }
}

/// Compiles a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, PatternError> {
    if pattern.len() > MAX_PATTERN {
        let length = pattern.len();
        return Err(PatternError::Limit(format!("a pattern of {length} bytes")));
    }
    let translated = Translate::new(pattern).run()?;
    RegexBuilder::new(&translated)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(50)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => PatternError::Limit(format!(
                "a pattern that compiles to more than {limit} bytes"
            )),
            regex::Error::Syntax(_) | _ => invalid("the pattern is not one"),
        })
}

fn invalid(what: &str) -> PatternError {
    PatternError::Invalid(what.to_owned())
}

/// Writes a pattern of RE2 as the crate reads it. They differ in that RE2's `\d`, `\s`, `\w` and
/// `\b` mean ASCII, and in what a bracket and a doubled sign mean inside a class.
struct Translate<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    out: String,
}

impl<'a> Translate<'a> {
    fn new(pattern: &'a str) -> Self {
        Self {
            rest: pattern.chars().peekable(),
            out: String::with_capacity(pattern.len() + 16),
        }
    }

    fn run(mut self) -> Result<String, PatternError> {
        while let Some(character) = self.rest.next() {
            match character {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '{' => self.repeat()?,
                '(' => self.group()?,
                other => self.out.push(other),
            }
        }
        Ok(self.out)
    }

    /// The flags of RE2 are `imsU`; the crate has more.
    fn group(&mut self) -> Result<(), PatternError> {
        self.out.push('(');
        if self.rest.peek() != Some(&'?') {
            return Ok(());
        }
        self.rest.next();
        self.out.push('?');
        while let Some(&character) = self.rest.peek() {
            match character {
                'i' | 'm' | 's' | 'U' | '-' => {
                    self.rest.next();
                    self.out.push(character);
                }
                ':' | ')' | 'P' => return Ok(()),
                _ => return Err(unsupported(&format!("(?{character}"))),
            }
        }
        Ok(())
    }

    fn repeat(&mut self) -> Result<(), PatternError> {
        let mut text = String::new();
        while let Some(&character) = self.rest.peek() {
            if !(character.is_ascii_digit() || character == ',') {
                break;
            }
            text.push(character);
            self.rest.next();
        }
        let closed = self.rest.peek() == Some(&'}');
        let repeat = closed && text.starts_with(|c: char| c.is_ascii_digit());
        if !repeat {
            // RE2 takes what is no repetition for itself.
            self.out.push_str("\\{");
            self.out.push_str(&text);
            return Ok(());
        }
        if text
            .split(',')
            .any(|n| n.parse::<u32>().is_ok_and(|n| n > MAX_REPEAT))
        {
            return Err(invalid(&format!("invalid repeat count: `{{{text}}}`")));
        }
        self.out.push('{');
        self.out.push_str(&text);
        Ok(())
    }

    fn class(&mut self) -> Result<(), PatternError> {
        self.out.push('[');
        if self.rest.peek() == Some(&'^') {
            self.rest.next();
            self.out.push('^');
        }
        let mut first = true;
        while let Some(character) = self.rest.next() {
            match character {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '\\' => self.escape(true)?,
                '[' if self.rest.peek() == Some(&':') => self.posix()?,
                // Inside a class these are signs of the crate, or may become so when doubled.
                '[' | ']' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                '-' if self.rest.peek() == Some(&'-') => return Err(unsupported("--")),
                other => self.out.push(other),
            }
            first = false;
        }
        Err(invalid("missing closing ]"))
    }

    fn posix(&mut self) -> Result<(), PatternError> {
        let mut name = String::from("[");
        for character in self.rest.by_ref() {
            name.push(character);
            if character == ']' {
                break;
            }
        }
        if !name.ends_with(":]") {
            return Err(unsupported(&name));
        }
        self.out.push_str(&name);
        Ok(())
    }

    fn escape(&mut self, in_class: bool) -> Result<(), PatternError> {
        let Some(character) = self.rest.next() else {
            return Err(invalid("trailing backslash at end of expression"));
        };
        let text = match (character, in_class) {
            ('d', false) => "[0-9]",
            ('d', true) => "0-9",
            ('D', _) => "[^0-9]",
            ('s', false) => "[\\t\\n\\f\\r ]",
            ('s', true) => "\\t\\n\\f\\r ",
            ('S', _) => "[^\\t\\n\\f\\r ]",
            ('w', false) => "[0-9A-Za-z_]",
            ('w', true) => "0-9A-Za-z_",
            ('W', _) => "[^0-9A-Za-z_]",
            ('b', false) => "(?-u:\\b)",
            ('A', false) => "\\A",
            ('z', false) => "\\z",
            ('a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | 'p' | 'P', _) => {
                self.out.push('\\');
                self.out.push(character);
                return Ok(());
            }
            (other, _) if other.is_ascii_punctuation() && other != '<' && other != '>' => {
                self.out.push('\\');
                self.out.push(other);
                return Ok(());
            }
            ('<' | '>', _) => {
                self.out.push(character);
                return Ok(());
            }
            (other, _) => return Err(unsupported(&format!("\\{other}"))),
        };
        self.out.push_str(text);
        Ok(())
    }
}

fn unsupported(what: &str) -> PatternError {
    PatternError::Limit(format!("`{what}` in a pattern"))
}
