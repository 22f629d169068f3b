//! What the tests of several commands share.

use crate::cli::failure::Failure;
use clap::{Args, Parser};
use std::io::Write;

#[derive(Parser)]
struct Line<O: Args> {
    #[command(flatten)]
    options: O,
}

/// What these words of the command line mean.
pub(super) fn options<O: Args>(arguments: &[&str]) -> O {
    let words = ["breakglass"].iter().chain(arguments);
    Line::try_parse_from(words).unwrap().options
}

/// The exit code of a command that tries a policy on cases.
pub(super) fn exit_on_cases<O: Args>(
    run: fn(&O) -> Result<(), Failure>,
    [policy, cases]: [&str; 2],
    more: &[&str],
) -> u8 {
    let [policy, cases] = [policy, cases].map(File::of);
    let named = ["--policy", policy.name(), "--cases", cases.name()];
    outcome(run(&options(&[&named, more].concat())))
}

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
