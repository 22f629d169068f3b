//! The project's own commands.

pub mod cluster;

use clap::Parser;

#[derive(Debug, Parser)]
enum Xtask {
    /// The tests' own Kubernetes
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
}

fn main() -> std::process::ExitCode {
    let Xtask::Cluster(command) = Xtask::parse();
    match cluster::run(command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            std::process::ExitCode::FAILURE
        }
    }
}
