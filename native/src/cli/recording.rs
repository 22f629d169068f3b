//! `breakglass recording …`

use super::client::Client;
use super::failure::Failure;
use super::{Backstage, play, print, say};
use clap::{Args, Subcommand};
use http::Method;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::io::Write;
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
    let mut sink = sink(&path)?;
    let mut hash = Sha256::new();
    let mut bytes = 0;
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| Failure::Unreachable(error.to_string()))?
    {
        hash.update(&chunk);
        bytes += chunk.len();
        sink.write_all(&chunk)?;
    }
    sink.flush()?;
    let found: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match expected {
        Some(expected) if expected == found => {
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
            "the file's sha256 is {found}, but the session's record says {expected}"
        ))),
        None => Err(Failure::Local(
            "the server did not say what its hash is".to_owned(),
        )),
    }
}

fn sink(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdout()));
    }
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    file.map(|file| Box::new(file) as Box<dyn Write>)
        .map_err(|error| Failure::Local(format!("cannot write `{}`: {error}", path.display())))
}
