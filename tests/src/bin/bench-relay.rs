//! `cargo xtask bench relay`: measures, or plays one of the parts that are measured.
//!
//! Figures go to stdout, with `--json` as one line last; progress goes to stderr.

use breakglass_tests::StageError;
use breakglass_tests::bench::{self, copier, relay, source};
use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Measures relay and recording beside kube's loop and a Node server")]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    options: bench::Options,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Processes of their own; the benchmark starts them.
#[derive(Subcommand)]
enum Part {
    /// The far side
    #[command(hide = true)]
    Source {
        /// A folder for the kubeconfigs that lead there
        #[arg(long)]
        dir: PathBuf,
    },
    /// Who relays
    #[command(hide = true)]
    Relay(relay::Options),
    /// Who only copies
    #[command(hide = true)]
    Copier {
        /// To this local port
        #[arg(long)]
        port: u16,
    },
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), StageError> {
    // The parts are on one core, and have as many threads as that; the relay's runtime is the
    // sidecar's kind.
    let mut builder = match &arguments.part {
        Some(Part::Relay(_) | Part::Copier { .. }) => tokio::runtime::Builder::new_multi_thread(),
        Some(Part::Source { .. }) | None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| StageError::of("no runtime", error))?;
    runtime.block_on(async {
        match arguments.part {
            None => bench::run(&arguments.options).await,
            Some(Part::Source { dir }) => source::serve(&dir).await,
            Some(Part::Relay(options)) => relay::serve(options).await,
            Some(Part::Copier { port }) => copier::serve(port).await,
        }
    })
}
