//! A value that is used and never shown.

use std::fmt;

/// A secret from the environment. Its `Debug` shows that it is set, not what it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the value; a file's final line break is not part of it.
    pub fn new(value: &str) -> Self {
        Self(value.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
