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
        Command::Completion { shell } => print(&completion(shell)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The completion script for a shell.
fn completion(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "breakglass", &mut script);
    String::from_utf8_lossy(&script).into_owned()
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

    use clap_complete::Shell;
    use std::process::Command;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command there is, each with its parents before it.
    fn commands(of: &clap::Command, path: &[String], into: &mut Vec<Vec<String>>) {
        for command in of.get_subcommands() {
            let mut path = path.to_vec();
            path.push(command.get_name().to_owned());
            into.push(path.clone());
            commands(command, &path, into);
        }
    }

    #[test]
    fn every_shells_completion_has_every_command() {
        let mut all = Vec::new();
        commands(&Cli::command(), &[], &mut all);
        assert!(all.len() > 15, "{all:?}");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completion(shell);
            for path in &all {
                let name = path.last().unwrap();
                let whole = |word: &str| word == name;
                let words = script.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                assert!(words.into_iter().any(whole), "{shell}: {path:?}");
            }
        }
    }

    /// As bash does it on Tab, with the script that it was given.
    #[test]
    fn bash_completes_each_command_from_its_first_letters() {
        let mut all = Vec::new();
        commands(&Cli::command(), &[], &mut all);
        let mut script = completion(Shell::Bash);
        for path in &all {
            let (name, parents) = path.split_last().unwrap();
            let start = &name[..2];
            let words = format!("breakglass {} {start}", parents.join(" "));
            script.push_str(&format!(
                "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()\n\
                 _breakglass breakglass {start} \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
                 echo \" ${{COMPREPLY[*]}} \"\n"
            ));
        }
        let ran = Command::new("bash").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        let offered: Vec<&str> = said.lines().collect();
        assert_eq!(offered.len(), all.len(), "{said}");
        for (path, offered) in all.iter().zip(offered) {
            let name = format!(" {} ", path.last().unwrap());
            assert!(offered.contains(&name), "{path:?}: {offered}");
        }
    }
}
