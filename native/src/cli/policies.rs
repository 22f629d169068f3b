//! `breakglass policies …`: the toolkit around admission policies.

mod lint;

use super::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum PoliciesCommand {
    /// Says what is wrong with policies; exit 0 no error, 1 errors found, 2 a file was not read
    Lint(lint::LintOptions),
}

/// Runs the command that the arguments name.
pub(super) fn run(command: PoliciesCommand) -> Result<(), Failure> {
    match command {
        PoliciesCommand::Lint(options) => lint::run(&options),
    }
}
