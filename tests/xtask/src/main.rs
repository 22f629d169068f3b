//! The project's own commands: `cargo xtask test | demo | cluster | bench | bindings`.
//!
//! Invariant: what is missing is installed or named, with the reason; a part that cannot run fails.

mod bindings;
mod cluster;
mod demo;
mod install;
mod run;
mod test;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about)]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds, installs what is missing, starts each server and runs every test there is
    Test(test::Options),
    /// Builds and starts all of it, opens a session and puts you into its terminal
    Demo(demo::Options),
    /// A real one-node Kubernetes for tests
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Measures; see docs/benchmarks.md
    #[command(subcommand)]
    Bench(demo::BenchCommand),
    /// Builds the Node and browser bindings
    Bindings {
        /// Compares what is committed with what the code generates
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let root = run::root();
    let outcome = match Xtask::parse().command {
        Command::Test(options) => return test::test(&root, &options),
        Command::Demo(options) => demo::demo(&root, &options),
        Command::Cluster(command) => cluster::run(command).map_err(|error| error.to_string()),
        Command::Bench(command) => demo::bench(&root, &command),
        Command::Bindings { check: true } => {
            bindings::check(&root).map_err(|error| error.to_string())
        }
        Command::Bindings { check: false } => {
            bindings::build(&root).map_err(|error| error.to_string())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            run::say(&format!("xtask: {problem}"));
            ExitCode::FAILURE
        }
    }
}
