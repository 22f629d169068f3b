//! Why a command failed, and its exit code (docs/cli.md).

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
        Self::Local(error.to_string())
    }
}
