//! `breakglass recording play`.
//!
//! Invariants: a hostile recording cannot act on the viewer's terminal (B-14), see [`filter`];
//! however playing ends, the terminal is left as it was found.

mod filter;

use super::failure::Failure;
use super::say;
use filter::Filter;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

/// The longest line that is read: one batch of output, escaped at its worst, and then some.
const LONGEST_LINE: u64 = 1 << 20;

/// How to play.
pub(super) struct Options {
    pub(super) speed: f64,
    pub(super) idle_limit: f64,
    pub(super) unfiltered: bool,
}

/// Plays a file as it was recorded, until its end or Ctrl-C.
pub(super) async fn play(path: &Path, options: &Options) -> Result<(), Failure> {
    let file = tokio::fs::File::open(path)
        .await
        .map_err(|error| Failure::Local(format!("cannot read `{}`: {error}", path.display())))?;
    let mut lines = BufReader::new(file);
    let header = line(&mut lines).await?.unwrap_or_default();
    let header: Value = serde_json::from_str(&header)
        .map_err(|_| Failure::Local("this is not a recording: no asciicast header".to_owned()))?;
    if header["version"] != 2 {
        return Err(Failure::Local(
            "only asciicast version 2 can be played".to_owned(),
        ));
    }
    let mut filter = Filter::default();
    let outcome = tokio::select! {
        outcome = events(&mut lines, &mut filter, options) => outcome,
        stopped = tokio::signal::ctrl_c() => stopped.map_err(Failure::from),
    };
    draw(&filter.reset())?;
    outcome
}

async fn events(
    lines: &mut BufReader<tokio::fs::File>,
    filter: &mut Filter,
    options: &Options,
) -> Result<(), Failure> {
    let mut at = 0.0;
    while let Some(text) = line(lines).await? {
        let Ok(Value::Array(event)) = serde_json::from_str(&text) else {
            say("\r\nthe recording ends with a torn line\r");
            break;
        };
        let (Some(time), Some(code), Some(data)) = (
            event.first().and_then(Value::as_f64),
            event.get(1).and_then(Value::as_str),
            event.get(2).and_then(Value::as_str),
        ) else {
            continue;
        };
        if code != "o" {
            continue;
        }
        let pause = ((time - at).clamp(0.0, options.idle_limit)) / options.speed;
        at = time.max(at);
        tokio::time::sleep(Duration::try_from_secs_f64(pause).unwrap_or_default()).await;
        // It sees everything, so that it knows what to reset.
        let harmless = filter.pass(data);
        draw(if options.unfiltered { data } else { &harmless })?;
    }
    Ok(())
}

fn draw(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

async fn line(lines: &mut BufReader<tokio::fs::File>) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let read = lines.take(LONGEST_LINE).read_line(&mut text).await?;
    if read as u64 == LONGEST_LINE && !text.ends_with('\n') {
        return Err(Failure::Local(
            "a line of the recording is too long".to_owned(),
        ));
    }
    Ok((read > 0).then_some(text))
}
