//! `cargo xtask demo` and `sigstore`: built and run by cargo, in their own programs.

use crate::run::{cargo, chain, program, run, say, watch};
use crate::{cluster, install, needs};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::Command;

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
pub(crate) enum SigstoreCommand {
    /// Compile its programs into the cache (minutes, once) and say where they are
    Build,
    /// Start it and print its addresses; Ctrl-C ends all of it
    Run,
}

/// Builds the programs that the demo and the tests run, with the features that the tests have too.
pub(crate) fn programs(root: &Path) -> Result<(), String> {
    let mut build = cargo(root, &["build", "--workspace"]);
    for program in ["breakglass", "demo", "sigstore"] {
        build.args(["--bin", program]);
    }
    run(&mut build)
}

/// Where cargo puts what it builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Builds and starts all of it.
pub(crate) fn demo(root: &Path, options: &Options) -> Result<(), String> {
    needs::product(root)?;
    let mut command = program(root, target(root).join("debug/demo"));
    if let Some(context) = &options.context {
        command.args(["--context", context]);
    }
    if options.smoke {
        command.arg("--smoke");
    }
    command.args(&options.further);
    let status = command
        .status()
        .map_err(|error| format!("the demo: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the demo did not keep every promise".to_owned())
    }
}

/// The demo typed by a script, for the tests; it is built already.
pub(crate) fn smoke(root: &Path) -> Result<(), String> {
    typed(&mut program(root, target(root).join("debug/demo")))
}

/// The same on the test cluster in `dir`, the sidecar with the rights of C-2a alone. The context
/// is in the second of the files that `KUBECONFIG` names, as a person's may be.
pub(crate) fn smoke_on(root: &Path, dir: &Path) -> Result<(), String> {
    let image = dir.join("debug-image");
    let image = std::fs::read_to_string(&image)
        .map_err(|error| format!("`{}`: {error}", image.display()))?;
    let first = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let nothing = "{apiVersion: v1, kind: Config, clusters: [], users: [], contexts: []}\n";
    std::fs::write(first.path(), nothing).map_err(|error| error.to_string())?;
    let files = std::env::join_paths([first.path(), &dir.join("admin.conf")])
        .map_err(|error| error.to_string())?;
    let mut command = program(root, target(root).join("debug/demo"));
    command
        .args(["--context", "test", "--debug-image", image.trim()])
        .arg("--sidecar-kubeconfig")
        .arg(dir.join("sidecar.conf"))
        .env("KUBECONFIG", files);
    typed(&mut command)
}

fn typed(demo: &mut Command) -> Result<(), String> {
    let mut last = String::new();
    if watch(demo.arg("--smoke"), |line| last = line.to_owned())? {
        Ok(())
    } else {
        Err(format!("not every promise was kept: {last}"))
    }
}

/// The folder of Sigstore's programs, for those who start it.
pub(crate) const SIGSTORE: &str = "BREAKGLASS_TEST_SIGSTORE";

/// The folder of the object store's programs, for those who start it.
pub(crate) const OBJECT_STORE: &str = "BREAKGLASS_TEST_OBJECT_STORE";

/// Builds the tests' object store.
pub(crate) fn object_store() -> Result<(), String> {
    let parts = cluster::build_object_store().map_err(|error| chain(&error))?;
    say(&format!("{OBJECT_STORE}={}", parts.display()));
    Ok(())
}

/// Builds or runs the tests' Sigstore.
pub(crate) fn sigstore(root: &Path, command: &SigstoreCommand) -> Result<(), String> {
    let parts = cluster::build_sigstore().map_err(|error| chain(&error))?;
    match command {
        SigstoreCommand::Build => say(&format!("{SIGSTORE}={}", parts.display())),
        SigstoreCommand::Run => {
            install::node_packages(root)?; // its database
            programs(root)?;
            let mut command = program(root, target(root).join("debug/sigstore"));
            run(command.env(SIGSTORE, parts))?;
        }
    }
    Ok(())
}
