//! What the tests of several commands share.

use crate::cli::failure::Failure;
use std::io::Write;

/// A file of a test's own, gone with it.
pub(super) struct File(tempfile::NamedTempFile);

impl File {
    pub(super) fn of(text: &str) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Self(file)
    }

    pub(super) fn name(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

/// The exit code.
pub(super) fn outcome(of: Result<(), Failure>) -> u8 {
    of.map_or_else(|failure| failure.code(), |()| 0)
}
