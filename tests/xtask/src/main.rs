//! The project's own commands: `cargo xtask test | demo | cluster | sigstore | object-store |
//! bench | fuzz | bindings`.
//!
//! Invariant: what is missing is installed or named, with the reason; a part that cannot run fails.

mod bench;
mod bindings;
mod cluster;
mod demo;
mod fuzz;
mod install;
mod needs;
mod run;
mod test;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
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
    /// A real Sigstore for tests
    #[command(subcommand)]
    Sigstore(demo::SigstoreCommand),
    /// A real object store for tests
    #[command(subcommand)]
    ObjectStore(cluster::ObjectStoreCommand),
    /// Measures; see docs/benchmarks.md
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Looks for inputs that the policies' reader, linter or engine cannot take
    Fuzz(fuzz::Options),
    /// Builds the Node and browser bindings
    Bindings {
        /// Compares what is committed with what the code generates, and writes nothing that is
        #[arg(long)]
        check: bool,
        /// Also lays out the npm packages of the addon in this folder
        #[arg(long, value_name = "FOLDER")]
        pack: Option<PathBuf>,
    },
}

fn make_bindings(root: &Path, check: bool, pack: Option<&Path>) -> Result<(), String> {
    let made = if check {
        bindings::check(root)
    } else {
        bindings::build(root)
    };
    run::say(&made.map_err(|error| run::chain(&error))?.to_string());
    if let Some(out) = pack {
        for folder in bindings::pack(root, out).map_err(|error| run::chain(&error))? {
            run::say(&folder.display().to_string());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let root = run::root();
    let outcome = match Xtask::parse().command {
        Command::Test(options) => return test::test(&root, &options),
        Command::Demo(options) => demo::demo(&root, &options),
        Command::Cluster(command) => cluster::run(command).map_err(|error| run::chain(&error)),
        Command::Sigstore(command) => demo::sigstore(&root, &command),
        Command::ObjectStore(cluster::ObjectStoreCommand::Build) => demo::object_store(),
        Command::Bench(command) => bench::bench(&root, &command),
        Command::Fuzz(options) => fuzz::fuzz(&root, &options),
        Command::Bindings { check, pack } => make_bindings(&root, check, pack.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            run::say(&format!("xtask: {problem}"));
            ExitCode::FAILURE
        }
    }
}
