//! The whole benchmark: starts the source, measures, says the figures.

use super::child::Measured;
use super::figure::Figure;
use super::machine::{Cores, Machine, pin_to, raise_open_files};
use super::throughput::Amount;
use super::{Way, interrupt, latency, memory, throughput};
use crate::{StageError, root};
use serde::Serialize;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// Nothing of it takes longer than this, all together.
const BOUND: Duration = Duration::from_secs(290);

/// What is measured, and how much.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Prints one line of JSON last
    #[arg(long)]
    json: bool,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// MiB of output in each run
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=1024))]
    mib: u16,
    /// Runs of which the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// Keystrokes
    #[arg(long, default_value_t = 2500, value_parser = clap::value_parser!(u16).range(100..))]
    keys: u16,
    /// Idle sessions
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(10..=2000))]
    sessions: u16,
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Relay and recording
    Throughput,
    /// Keystrokes
    Latency,
    /// Ctrl-C in a flood
    Interrupt,
    /// Idle sessions
    Memory,
}

/// Where everything is while it is measured.
pub(super) struct Place {
    pub(super) cores: Cores,
    /// The source's folder, with its kubeconfigs.
    pub(super) source: PathBuf,
    dir: tempfile::TempDir,
    program: PathBuf,
}

#[derive(Serialize)]
struct Report {
    machine: Machine,
    cores: Cores,
    figures: Vec<Figure>,
}

/// Measures everything and prints it.
///
/// # Errors
/// What could not be measured; no figure is said then.
pub async fn run(options: &Options) -> Result<(), StageError> {
    let report = tokio::time::timeout(BOUND, measure(options))
        .await
        .map_err(|_| StageError::new(format!("the benchmark took more than {BOUND:?}")))??;
    let mut out = std::io::stdout().lock();
    let mut print =
        |line: &str| writeln!(out, "{line}").map_err(|error| StageError::of("the figures", error));
    print(&format!("measured on: {}", report.machine.words()))?;
    print(&pinned(report.cores))?;
    report
        .figures
        .iter()
        .try_for_each(|figure| print(&figure.to_string()))?;
    if options.json {
        print(&serde_json::json!(report).to_string())?;
    }
    Ok(())
}

fn pinned(cores: Cores) -> String {
    let Cores { around, relay } = cores;
    if cores.differ() {
        format!(
            "pinned: source, reader and typist to core {around}; relay and Node to core {relay}"
        )
    } else {
        format!("pinned: everything to core {around}, there is no other; latency says little")
    }
}

async fn measure(options: &Options) -> Result<Report, StageError> {
    raise_open_files();
    let cores = Cores::choose()?;
    let machine = Machine::look(node_version().await?);
    let place = Place::new(cores)?;
    pin_to(cores.around)?;
    say(&pinned(cores));
    let mut source = Command::new(&place.program);
    source.arg("source").arg("--dir").arg(&place.source);
    let source = Measured::start("the source", source, cores.around, cores).await?;
    let wanted = |part| options.only.is_none_or(|only| only == part);
    let mut figures = Vec::new();
    if wanted(Part::Throughput) {
        let amount = Amount {
            mib: options.mib.into(),
            runs: options.runs.into(),
        };
        figures.extend(throughput::measure(&place, amount).await?);
    }
    if wanted(Part::Latency) {
        figures.extend(latency::measure(&place, options.keys.into()).await?);
    }
    if wanted(Part::Interrupt) {
        figures.extend(interrupt::measure(&place).await?);
    }
    if wanted(Part::Memory) {
        figures.extend(memory::measure(&place, options.sessions.into()).await?);
    }
    drop(source);
    Ok(Report {
        machine,
        cores,
        figures,
    })
}

async fn node_version() -> Result<String, StageError> {
    let output = Command::new("node").arg("--version").output().await;
    let output = output.map_err(|error| StageError::of("the baseline needs `node`", error))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim()
        .trim_start_matches('v')
        .to_owned())
}

impl Place {
    fn new(cores: Cores) -> Result<Self, StageError> {
        // In memory: a disk is not what is measured.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let dir = tempfile::Builder::new()
            .prefix("breakglass-bench-")
            .tempdir_in(parent)
            .map_err(|error| StageError::of("no folder", error))?;
        let source = dir.path().join("source");
        std::fs::create_dir(&source).map_err(|error| StageError::of("no folder", error))?;
        let program =
            std::env::current_exe().map_err(|error| StageError::of("this program", error))?;
        Ok(Self {
            cores,
            source,
            dir,
            program,
        })
    }

    /// A new folder for one process.
    pub(super) fn folder(&self) -> Result<PathBuf, StageError> {
        let made = tempfile::Builder::new()
            .prefix("r")
            .tempdir_in(self.dir.path());
        made.map(tempfile::TempDir::keep)
            .map_err(|error| StageError::of("no folder", error))
    }

    /// This program, for its other parts.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Starts whoever relays, told the same either way.
    pub(super) fn relay(&self, way: Way, kubeconfig: &str, pod: &str, dir: &Path) -> Command {
        let mut command = match way {
            Way::Node => self.node("node-baseline.mjs", []),
            Way::Ours | Way::Kube => {
                let mut command = Command::new(&self.program);
                command.args(["relay", "--way", way.name()]);
                command
            }
        };
        command
            .arg("--kubeconfig")
            .arg(self.source.join(kubeconfig));
        command.args(["--pod", pod]).arg("--dir").arg(dir);
        command
    }

    /// One of our programs for Node.
    pub(super) fn node<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> Command {
        let mut command = Command::new("node");
        command
            .arg(root().join("tests/bench").join(program))
            .args(arguments);
        command
    }
}

/// Progress, and what went wrong.
pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
