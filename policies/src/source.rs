//! Files of policies as trees of values that know where they stand.
//!
//! Invariants: no input makes the reader crash, recurse, or use more than its bounds ([`limits`]);
//! a file is read whole or not at all; every string knows the place of each of its characters, in
//! block and folded text too. JSON is read as the YAML that it is.
//!
//! Not here: what the values mean (`model`).

mod error;
mod places;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's events may become more; those that are no value are passed over"
)]
mod reader;

#[cfg(test)]
mod tests;

pub use error::SourceError;

use std::fmt;

/// What a file may be at most. A published bundle with all its CRDs is far below.
pub mod limits {
    /// Bytes of a file.
    pub const BYTES: usize = 8 * 1024 * 1024;
    /// Mappings and sequences within each other.
    pub const DEPTH: usize = 64;
    /// Documents in a file.
    pub const DOCUMENTS: usize = 4_000;
    /// Values of a file, those that aliases repeat included.
    pub const NODES: usize = 400_000;
    /// Bytes of text that aliases repeat.
    pub const REPEATED_BYTES: usize = 1024 * 1024;
}

/// A place in a file: line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// From here on, a text's characters stand side by side in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// Characters of the text before this run.
    offset: u32,
    at: Position,
}

/// A value with the place of its first character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where its first character stands.
    pub at: Position,
    /// Empty for text that stands on one line as it is.
    runs: Box<[Run]>,
}

impl<T> Spanned<T> {
    /// A value that stands, or begins, at one place.
    pub fn new(value: T, at: Position) -> Self {
        let runs = Box::default();
        Self { value, at, runs }
    }
}

impl Spanned<String> {
    /// Where in the file the text's character number `offset` (from 0) stands.
    #[must_use]
    pub fn place(&self, offset: usize) -> Position {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let run = match self.runs.partition_point(|run| run.offset <= offset) {
            0 => Run {
                offset: 0,
                at: self.at,
            },
            after => self.runs.get(after - 1).copied().unwrap_or(Run {
                offset: 0,
                at: self.at,
            }),
        };
        let column = run
            .at
            .column
            .saturating_add(offset.saturating_sub(run.offset));
        Position {
            line: run.at.line,
            column,
        }
    }

    /// Where in the file the text's own line and column (both from 1) stand.
    #[must_use]
    pub fn place_of(&self, line: u32, column: u32) -> Position {
        let before: usize = self
            .value
            .split_inclusive('\n')
            .take(line.saturating_sub(1) as usize)
            .map(|line| line.chars().count())
            .sum();
        self.place(before + column.saturating_sub(1) as usize)
    }
}

/// A value of a file, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub value: Value,
}

/// What stands in a file, as `kubectl` would understand it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing, `null` or `~`.
    Null,
    /// A truth value; the old spellings `yes`, `no`, `on`, `off` too.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Spanned<String>),
    /// A list.
    List(Vec<Node>),
    /// Keys and values in the file's order; no key twice.
    Map(Vec<(Spanned<String>, Node)>),
}

impl Value {
    /// The kind of value, for people.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value under a key of a mapping; `None` also for `null` and for what is no mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let (_, node) = self.entries().iter().find(|(name, _)| name.value == key)?;
        (node.value != Value::Null).then_some(node)
    }

    /// The value at the end of a chain of keys.
    #[must_use]
    pub fn at_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The entries of a mapping, none for anything else.
    #[must_use]
    pub fn entries(&self) -> &[(Spanned<String>, Self)] {
        if let Value::Map(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// The items of a list, none for anything else.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value {
            items
        } else {
            &[]
        }
    }

    /// The text with its places, if it is text.
    #[must_use]
    pub const fn text(&self) -> Option<&Spanned<String>> {
        if let Value::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    /// The text, if it is text.
    #[must_use]
    pub fn str(&self) -> Option<&str> {
        self.text().map(|text| text.value.as_str())
    }

    /// The truth value, if it is one.
    #[must_use]
    pub const fn bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value {
            Some(value)
        } else {
            None
        }
    }

    /// The value as JSON: what an API server would be sent. Its depth is bounded by
    /// [`limits::DEPTH`], so that the recursion is too.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.value.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.value.clone(), node.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}

/// Reads a file: its documents, the empty ones left out.
///
/// # Errors
/// [`SourceError`]: the file is over a bound, is not UTF-8, is not YAML, or says a key twice.
pub fn read(file: &str, bytes: &[u8]) -> Result<Vec<Node>, SourceError> {
    reader::read(file, bytes)
}
