//! `breakglass recording …`
//!
//! Invariant: a file with a recording's name is whole, has the hash of the session's row, and is
//! readable by its owner alone; no file is replaced.

use super::client::{Client, without_url};
use super::failure::Failure;
use super::{Backstage, play, print, say};
use clap::{Args, Subcommand};
use http::Method;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(super) enum RecordingCommand {
    /// Saves a session's recording and checks its hash
    Get(Get),
    /// Plays a recording file in this terminal; needs no network
    Play(Play),
}

#[derive(Args)]
pub(super) struct Get {
    #[command(flatten)]
    backstage: Backstage,
    /// The session's id
    id: String,
    /// Where to; `-` is stdout. Default: `<id>.cast`
    #[arg(long, short)]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Play {
    /// The `.cast` file
    file: PathBuf,
    /// How many times as fast
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// The longest pause, in seconds
    #[arg(long, default_value_t = 2.0)]
    idle_limit: f64,
    /// Passes escape sequences through that could act on this terminal (clipboard, reports, links)
    #[arg(long)]
    unfiltered: bool,
}

pub(super) async fn run(command: RecordingCommand) -> Result<(), Failure> {
    match command {
        RecordingCommand::Get(Get { backstage, id, out }) => {
            get(&Client::new(&backstage)?, &id, backstage.json, out).await
        }
        RecordingCommand::Play(Play {
            file,
            speed,
            idle_limit,
            unfiltered,
        }) => {
            if !(speed > 0.0 && speed.is_finite() && idle_limit >= 0.0) {
                return Err(Failure::Usage(
                    "--speed must be above 0 and --idle-limit not below".to_owned(),
                ));
            }
            play::play(
                &file,
                &play::Options {
                    speed,
                    idle_limit,
                    unfiltered,
                },
            )
            .await
        }
    }
}

async fn get(client: &Client, id: &str, json: bool, out: Option<PathBuf>) -> Result<(), Failure> {
    let url = client.url(&["sessions", id, "recording"]);
    let mut response = client.send(Method::GET, url, None).await?;
    let expected = response
        .headers()
        .get("x-recording-sha256")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let path = out.unwrap_or_else(|| PathBuf::from(format!("{id}.cast")));
    let mut sink = Sink::to(&path)?;
    let mut hash = Sha256::new();
    let mut bytes = 0;
    while let Some(chunk) = response.chunk().await.map_err(|error| {
        let why = without_url(error);
        Failure::Unreachable(format!("not saved: the recording broke off: {why}"))
    })? {
        hash.update(&chunk);
        bytes += chunk.len();
        sink.write(&chunk)?;
    }
    let found: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match expected {
        Some(expected) if expected == found => {
            sink.keep()?;
            if json && path != Path::new("-") {
                let file = path.display().to_string();
                return print(&json!({"file": file, "bytes": bytes, "sha256": found}).to_string());
            }
            say(&format!(
                "{bytes} bytes, sha256 {found}, as the session's record says"
            ));
            Ok(())
        }
        Some(expected) => Err(Failure::Local(format!(
            "not saved: what came has sha256 {found}, but the session's record says {expected}"
        ))),
        None => Err(Failure::Local(
            "not saved: the server did not say what its hash is".to_owned(),
        )),
    }
}

/// Where a recording goes. A file appears under its name only when it is kept.
enum Sink {
    Stdout(std::io::Stdout),
    File(Partial),
}

impl Sink {
    fn to(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout(std::io::stdout()));
        }
        Partial::create(path)
            .map(Self::File)
            .map_err(|error| cannot_write(path, &error))
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.write_all(bytes),
            Self::File(partial) => partial.file.write_all(bytes),
        }
    }

    fn keep(self) -> Result<(), Failure> {
        match self {
            Self::Stdout(mut stdout) => Ok(stdout.flush()?),
            Self::File(partial) => {
                let path = partial.path.clone();
                partial.keep().map_err(|error| cannot_write(&path, &error))
            }
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Local(format!("cannot write `{}`: {error}", path.display()))
}

/// A file under a name of its own, for the person alone; dropped, it is deleted.
struct Partial {
    file: File,
    at: PathBuf,
    path: PathBuf,
}

impl Partial {
    /// In the folder of `path`, which must not exist.
    fn create(path: &Path) -> std::io::Result<Self> {
        must_not_exist(path)?;
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{:016x}.part", rand::random::<u64>()));
        let at = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&at)?;
        Ok(Self {
            file,
            at,
            path: path.to_owned(),
        })
    }

    /// Gives the file its name, and replaces nothing.
    fn keep(self) -> std::io::Result<()> {
        self.file.sync_all()?;
        match renameat_with(CWD, &self.at, CWD, &self.path, RenameFlags::NOREPLACE) {
            // A file system that cannot tell.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                must_not_exist(&self.path)?;
                std::fs::rename(&self.at, &self.path)
            }
            outcome => Ok(outcome?),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Under its final name it is not found here.
        let _ = std::fs::remove_file(&self.at);
    }
}

fn must_not_exist(path: &Path) -> std::io::Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(std::io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
