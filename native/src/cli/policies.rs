//! `breakglass policies …`: the toolkit around the clusters' fences (P-5, P-6).

mod eval;

use super::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum PoliciesCommand {
    /// Judges a request by policies, offline; exit 0 allowed, 1 denied, 2 cannot be evaluated
    Eval(eval::EvalOptions),
}

/// Runs the command that the arguments name.
pub(super) fn run(command: PoliciesCommand) -> Result<(), Failure> {
    match command {
        PoliciesCommand::Eval(options) => eval::run(&options),
    }
}
