//! `standin`: the stand-in cluster as a program of its own, for the demo and for tests in other
//! languages.
//!
//! It writes `kubeconfig` into the folder it is given, prints one line of JSON when it serves, and
//! stops, with every process in its containers, at SIGTERM, SIGINT or the end of its input.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Parser;
use standin::{AppSeed, Options, Standin};
use tokio::signal::unix::{SignalKind, signal};

/// A stand-in for a Kubernetes cluster on 127.0.0.1.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// The folder for `kubeconfig`, which holds tokens; it is made if it is not there.
    #[arg(long)]
    dir: PathBuf,
    /// The port; 0 chooses a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Another namespace, with labels: `bank:hangar.io/app=bank,hangar.io/env=flight`.
    #[arg(long = "namespace", value_name = "NAME[:LABELS]")]
    namespaces: Vec<String>,
    /// Another app: `bank/ledger:3` (namespace, name, replicas).
    #[arg(long = "app", value_name = "NAMESPACE/NAME[:REPLICAS]")]
    apps: Vec<String>,
    /// Runs on when its input ends (for `nohup` and service managers).
    #[arg(long)]
    ignore_stdin: bool,
}

/// Why the program stops before it serves.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Start(#[from] standin::Error),
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
    #[error("`{0}` is not NAMESPACE/NAME or NAMESPACE/NAME:REPLICAS")]
    App(String),
    #[error("`{0}` is not NAME or NAME:KEY=VALUE,KEY=VALUE")]
    Namespace(String),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            let cause = std::error::Error::source(&failure).map(|cause| format!(": {cause}"));
            let _ = writeln!(
                std::io::stderr(),
                "standin: {failure}{}",
                cause.unwrap_or_default()
            );
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut options = Options::default().port(arguments.port);
    for text in &arguments.namespaces {
        options = add_namespace(options, text)?;
    }
    for text in &arguments.apps {
        options = options.app(parse_app(text)?);
    }
    // Before anything is started, so that no signal finds us without a handler.
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let standin = Standin::start(options).await?;
    let kubeconfig = arguments.dir.join("kubeconfig");
    write_private(&arguments.dir, &kubeconfig, &standin.kubeconfig()).map_err(|source| {
        Failure::Write {
            path: kubeconfig.clone(),
            source,
        }
    })?;
    let ready = serde_json::json!({
        "ready": true, "url": standin.url(), "kubeconfig": kubeconfig, "pid": std::process::id(),
    });
    // Nobody may be reading; that does not stop a cluster.
    let _ = writeln!(std::io::stdout(), "{ready}");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = end_of_input(), if !arguments.ignore_stdin => {}
    }
    standin.shutdown().await;
    // A read of standard input cannot be cancelled: leaving is the only way to end it.
    std::process::exit(0)
}

async fn end_of_input() {
    let read = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    // An input that cannot be read has ended too.
    let _ = tokio::task::spawn_blocking(read).await;
}

fn write_private(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    // Whoever waits for the file must not see half of it.
    let partial = folder.join(".kubeconfig.partial");
    if let Err(error) = std::fs::remove_file(&partial)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&partial, path)
}

fn add_namespace(options: Options, text: &str) -> Result<Options, Failure> {
    let (name, labels) = text.split_once(':').unwrap_or((text, ""));
    let pairs: Option<Vec<(&str, &str)>> = labels
        .split(',')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('='))
        .collect();
    match pairs {
        Some(pairs) if !name.is_empty() => Ok(options.namespace(name, &pairs)),
        _ => Err(Failure::Namespace(text.to_owned())),
    }
}

fn parse_app(text: &str) -> Result<AppSeed, Failure> {
    let wrong = || Failure::App(text.to_owned());
    let (namespace, rest) = text.split_once('/').ok_or_else(wrong)?;
    let (name, replicas) = rest.split_once(':').unwrap_or((rest, "1"));
    let replicas = replicas
        .parse()
        .ok()
        .filter(|count| *count <= 100)
        .ok_or_else(wrong)?;
    if namespace.is_empty() || name.is_empty() {
        return Err(wrong());
    }
    Ok(AppSeed::new(namespace, name).replicas(replicas))
}
