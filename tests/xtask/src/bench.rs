//! `cargo xtask bench`: built optimised and run by cargo, in programs of their own.

use crate::demo::target;
use crate::install;
use crate::run::{cargo, program, run, say};
use clap::Subcommand;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Relay and recording, beside kube's own loop and a Node server
    Relay {
        /// Prints one line of JSON last
        #[arg(long)]
        json: bool,
    },
    /// The linter: policies a second
    Lint {
        /// Prints one line of JSON last
        #[arg(long)]
        json: bool,
        /// Files or folders of policies, instead of the project's own
        paths: Vec<PathBuf>,
    },
}

/// Measures.
pub(crate) fn bench(root: &Path, command: &BenchCommand) -> Result<(), String> {
    let (package, built, json, paths) = match command {
        BenchCommand::Relay { json } => {
            install::node_packages(root)?;
            (
                ["breakglass-tests", "--bin", "bench-relay"],
                "release/bench-relay",
                json,
                &[][..],
            )
        }
        BenchCommand::Lint { json, paths } => (
            ["policies", "--example", "bench_lint"],
            "release/examples/bench_lint",
            json,
            paths.as_slice(),
        ),
    };
    say("building for measurement (a few minutes when nothing is cached)");
    let arguments = [&["build", "--release", "-p"][..], &package].concat();
    run(&mut cargo(root, &arguments))?;
    let mut bench = program(root, target(root).join(built));
    if *json {
        bench.arg("--json");
    }
    let status = bench
        .args(paths)
        .status()
        .map_err(|error| format!("the benchmark: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the benchmark did not run to its end".to_owned())
    }
}
