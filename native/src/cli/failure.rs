//! Why a command failed, and its exit code (docs/cli.md).

use crate::http::error::chain;
use std::io::Write;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Something on this machine: exit 1.
    #[error("{0}")]
    Local(String),
    /// The arguments do not make sense together: exit 2, as clap's own.
    #[error("{0}")]
    Usage(String),
    /// The server refused: the exit code tells which kind.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The server cannot be reached: exit 7.
    #[error("{0}")]
    Unreachable(String),
}

impl Failure {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Local(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 7,
            Self::Refused { status, .. } => match status {
                400 | 413 | 415 => 2,
                401 => 3,
                403 => 4,
                404 | 410 => 5,
                409 => 6,
                _ => 7,
            },
        }
    }

    pub(super) fn report(&self) -> ExitCode {
        let _ = writeln!(std::io::stderr(), "breakglass: {self}");
        ExitCode::from(self.code())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Local(chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of exit codes in docs/cli.md: code, and what it means.
    fn documented() -> Vec<(u8, &'static str)> {
        let docs = include_str!("../../../docs/cli.md");
        let (_, table) = docs.split_once("| exit | meaning |").unwrap();
        let rows = table.lines().filter_map(|line| {
            let (code, meaning) = line.strip_prefix("| ")?.split_once(" | ")?;
            Some((code.parse().ok()?, meaning))
        });
        rows.collect()
    }

    fn refused(status: u16) -> u8 {
        let message = String::new();
        Failure::Refused { status, message }.code()
    }

    #[test]
    fn each_failure_has_the_exit_code_that_is_documented() {
        let table = documented();
        let codes: Vec<u8> = table.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(Failure::Local(String::new()).code(), 1);
        assert_eq!(Failure::from(std::io::Error::other("x")).code(), 1);
        assert_eq!(Failure::Usage(String::new()).code(), 2);
        assert_eq!(Failure::Unreachable(String::new()).code(), 7);

        let mut named = Vec::new();
        for (code, meaning) in table {
            let words = meaning.split(|c: char| !c.is_ascii_digit());
            let statuses = words.filter(|word| word.len() == 3);
            for status in statuses.filter_map(|word| word.parse::<u16>().ok()) {
                assert_eq!(refused(status), code, "{status}: {meaning}");
                named.push(status);
            }
        }
        assert_eq!(named, [400, 413, 415, 401, 403, 404, 410, 409]);
        // What nobody documented is nobody's promise: the server, or what stands before it, is ill.
        for status in (300..=599).filter(|status| !named.contains(status)) {
            assert_eq!(refused(status), 7, "{status}");
        }
    }
}
