//! The command line: arguments, and who handles them.
//!
//! Invariants: what is printed on stdout is the answer, and with `--json` it is JSON; everything
//! else goes to stderr; each kind of failure has its exit code (docs/cli.md).

mod attach;
mod client;
mod failure;
mod play;
mod policies;
mod recording;
mod serve;
mod session;
mod tty;

use clap::{Args, CommandFactory, Parser, Subcommand};
use failure::Failure;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Short, recorded debugging sessions on one pod.
#[derive(Parser)]
#[command(name = "breakglass", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the sidecar beside Backstage
    Serve {
        /// The configuration file
        #[arg(long, env = "BREAKGLASS_CONFIG")]
        config: PathBuf,
    },
    /// Looks at the sidecar's configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Opens, lists, shows, attaches to and ends sessions, through Backstage
    Session(WithBackstage<session::SessionCommand>),
    /// Gets and plays recordings
    #[command(subcommand)]
    Recording(recording::RecordingCommand),
    /// Works with the clusters' policies: renders, compares, judges and lints them
    #[command(subcommand)]
    Policies(policies::PoliciesCommand),
    /// Prints the completion script for a shell
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Reads a configuration file and says everything that is wrong with it
    Check {
        /// The configuration file
        #[arg(long, env = "BREAKGLASS_CONFIG")]
        config: PathBuf,
    },
    /// Prints the JSON schema of the configuration file
    Schema,
}

/// How Backstage is reached, and how the answer is printed.
#[derive(Args, Clone)]
struct Backstage {
    /// Backstage's address, such as https://backstage.example.org
    #[arg(long, env = "BREAKGLASS_URL", global = true)]
    url: Option<url::Url>,
    /// A Backstage token; better in the environment, or in a file, than on the command line
    #[arg(long, env = "BREAKGLASS_TOKEN", hide_env_values = true, global = true)]
    token: Option<String>,
    /// A file that holds the token
    #[arg(
        long,
        env = "BREAKGLASS_TOKEN_FILE",
        conflicts_with = "token",
        global = true
    )]
    token_file: Option<PathBuf>,
    /// Prints the answer as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Args)]
struct WithBackstage<C: Subcommand> {
    #[command(flatten)]
    backstage: Backstage,
    #[command(subcommand)]
    command: C,
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    // The one TLS provider of this binary; a second call would only find it in place.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match Cli::parse().command {
        Command::Serve { config } => serve::serve(&config),
        Command::Config(ConfigCommand::Check { config }) => serve::check(&config),
        Command::Config(ConfigCommand::Schema) => print(&format!("{:#}", crate::config::schema())),
        Command::Session(WithBackstage { backstage, command }) => {
            serve::in_runtime(session::run(backstage, command))
        }
        Command::Recording(command) => serve::in_runtime(recording::run(command)),
        Command::Policies(command) => policies::run(command),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "breakglass", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints an answer. A reader that went away (`| head`) is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Local(format!("cannot write the answer: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Tells the person something beside the answer.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
