//! `cargo xtask demo` and `cargo xtask bench`: built and run by cargo, in their own programs.

use crate::install;
use crate::run::{cargo, program, run, say, watch};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Options {
    /// A context of your kubeconfig, instead of the stand-in
    #[arg(long)]
    context: Option<String>,
    /// Types a fixed script instead of asking a person, and prints one line of JSON last
    #[arg(long)]
    smoke: bool,
    /// Further arguments of the demo, such as `--namespace`, `--debug-image`
    #[arg(last = true)]
    further: Vec<String>,
}

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Relay and recording, beside kube's own loop and a Node server
    Relay {
        /// Prints one line of JSON last
        #[arg(long)]
        json: bool,
    },
}

/// Builds the programs and the Backstage plugin that the demo and the tests run.
pub(crate) fn build(root: &Path) -> Result<(), String> {
    install::node_packages(root)?;
    say("building the sidecar and the stage");
    run(&mut cargo(root, &["build", "-p", "breakglass", "-p", "breakglass-tests"]))?;
    crate::bindings::addon(root).map_err(|error| crate::run::chain(&error))?;
    say("building the Backstage plugin");
    run(program(root, "npm").args(["run", "--silent", "build"]))
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds and starts all of it.
pub(crate) fn demo(root: &Path, options: &Options) -> Result<(), String> {
    build(root)?;
    let mut command = program(root, target(root).join("debug/demo"));
    if let Some(context) = &options.context {
        command.args(["--context", context]);
    }
    if options.smoke {
        command.arg("--smoke");
    }
    command.args(&options.further);
    let status = command.status().map_err(|error| format!("the demo: {error}"))?;
    if status.success() { Ok(()) } else { Err("the demo did not keep every promise".to_owned()) }
}

/// The demo typed by a script, for the tests.
pub(crate) fn smoke(root: &Path) -> Result<(), String> {
    build(root)?;
    let mut command = program(root, target(root).join("debug/demo"));
    command.arg("--smoke");
    let mut last = String::new();
    let kept = watch(&mut command, |line| last = line.to_owned())?;
    if kept { Ok(()) } else { Err(format!("not every promise was kept: {last}")) }
}

/// Measures.
pub(crate) fn bench(root: &Path, command: &BenchCommand) -> Result<(), String> {
    let BenchCommand::Relay { json } = command;
    install::node_packages(root)?;
    say("building for measurement (a few minutes when nothing is cached)");
    run(&mut cargo(root, &["build", "--release", "-p", "breakglass-tests", "--bin", "bench-relay"]))?;
    let mut bench = program(root, target(root).join("release/bench-relay"));
    if *json {
        bench.arg("--json");
    }
    let status = bench.status().map_err(|error| format!("the benchmark: {error}"))?;
    if status.success() { Ok(()) } else { Err("the benchmark did not run to its end".to_owned()) }
}
