//! `breakglass policies …`: the toolkit around the clusters' fences (P-2, P-4, P-5, P-6, P-8, P-9).

mod diff;
mod equivalent;
mod eval;
mod files;
mod lint;
mod mutate;
mod never_errors;
mod render;

#[cfg(test)]
mod tests;

use super::failure::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub(super) enum PoliciesCommand {
    /// Writes a cluster's policies and rights into a folder, for Git and Argo CD
    Render(render::Render),
    /// Compares what is rendered with what the cluster has; exit 0 same, 1 differs, 2 cannot say
    Diff(diff::Diff),
    /// Judges a request by policies, offline; exit 0 allowed, 1 denied, 2 cannot be evaluated
    Eval(eval::EvalOptions),
    /// Says what is wrong with policies; exit 0 no error, 1 errors found, 2 a file was not read
    Lint(lint::LintOptions),
    /// Tries every expression on what cases span; exit 0 none fails, 1 one fails, 2 not tried
    NeverErrors(never_errors::NeverErrors),
    /// Compares native policies with Kyverno's; exit 0 alike, 1 not, 2 not compared
    Equivalent(equivalent::EquivalentOptions),
    /// Changes policies a little; exit 0 the cases notice, 1 they do not, 2 not tried
    Mutate(mutate::Mutate),
}

/// Runs the command that the arguments name.
pub(super) fn run(command: PoliciesCommand) -> Result<(), Failure> {
    match command {
        PoliciesCommand::Render(arguments) => render::run(&arguments),
        PoliciesCommand::Diff(arguments) => super::serve::in_runtime(diff::run(arguments)),
        PoliciesCommand::Eval(options) => eval::run(&options),
        PoliciesCommand::Lint(options) => lint::run(&options),
        PoliciesCommand::NeverErrors(options) => never_errors::run(&options),
        PoliciesCommand::Equivalent(options) => equivalent::run(&options),
        PoliciesCommand::Mutate(options) => mutate::run(&options),
    }
}
