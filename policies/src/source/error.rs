//! Why a file was not read.

use super::{Position, limits};
use thiserror::Error;

/// A file that was not read. Nothing of it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The file could not be opened or read.
    #[error(
        "{file}: cannot be read: {what}; nothing of it was looked at; check its name and rights"
    )]
    Unreadable {
        /// The file.
        file: String,
        /// What the system says.
        what: String,
    },
    /// The file is too long.
    #[error(
        "{file}: has {bytes} bytes, at most {} are read; nothing was; split it",
        limits::BYTES
    )]
    TooLong {
        /// The file.
        file: String,
        /// Its length.
        bytes: usize,
    },
    /// The file is not UTF-8.
    #[error("{file}:{at}: not UTF-8 from here on; nothing of the file was read; save it as UTF-8")]
    NotUtf8 {
        /// The file.
        file: String,
        /// The first byte that is not UTF-8.
        at: Position,
    },
    /// The file is not YAML or JSON.
    #[error("{file}:{at}: not YAML: {what}; nothing of the file was read; correct it here")]
    Syntax {
        /// The file.
        file: String,
        /// Where the reader stopped.
        at: Position,
        /// What it says.
        what: String,
    },
    /// A mapping names a key twice, which clusters and tools read in different ways.
    #[error(
        "{file}:{at}: the key `{key}` stands here for the second time (first at {first}); nothing \
         of the file was read; remove one of the two"
    )]
    DuplicateKey {
        /// The file.
        file: String,
        /// The second one.
        at: Position,
        /// The key.
        key: String,
        /// The first one.
        first: Position,
    },
    /// A bound was reached.
    #[error("{file}:{at}: more than {limit} {what}; nothing of the file was read; split it")]
    TooMuch {
        /// The file.
        file: String,
        /// Where.
        at: Position,
        /// How many there may be.
        limit: usize,
        /// Of what.
        what: &'static str,
    },
}

impl SourceError {
    /// Where in the file, from 1:1.
    #[must_use]
    pub const fn at(&self) -> Position {
        match self {
            Self::TooLong { .. } | Self::Unreadable { .. } => Position { line: 1, column: 1 },
            Self::NotUtf8 { at, .. }
            | Self::Syntax { at, .. }
            | Self::DuplicateKey { at, .. }
            | Self::TooMuch { at, .. } => *at,
        }
    }
}
