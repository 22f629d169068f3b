//! The processes of a benchmark: started on a core, ordered about by lines of JSON.

use super::machine::{Cores, pin_to};
use super::{Done, Order};
use crate::StageError;
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a child has for anything it is asked; opening a thousand sessions included.
const WITHIN: Duration = Duration::from_secs(90);

/// Writes one answer to stdout.
pub(super) fn say(value: &Value) {
    let mut out = std::io::stdout().lock();
    // Whoever asked is gone if this fails; stdin ends then, too.
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// A process that dies with its handle.
pub(super) struct Measured {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// What it said when it was ready.
    pub(super) ready: Value,
}

impl Measured {
    /// Starts it on `core` and waits until it says that it is ready. A process inherits its
    /// parent's core, so the calling thread goes there for a moment.
    pub(super) async fn start(
        name: &str,
        mut command: Command,
        core: usize,
        cores: Cores,
    ) -> Result<Self, StageError> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        pin_to(core)?;
        let spawned = command.spawn();
        pin_to(cores.around)?;
        let told = |error| StageError::of(format!("cannot start {name}"), error);
        let mut child = spawned.map_err(told)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StageError::new(format!("{name} cannot be talked to")));
        };
        let lines = BufReader::new(stdout).lines();
        let name = name.to_owned();
        let mut this = Self {
            name,
            child,
            stdin,
            lines,
            ready: Value::Null,
        };
        this.ready = this.answer().await?;
        Ok(this)
    }

    /// More sessions.
    pub(super) async fn open(&mut self, more: usize) -> Result<(), StageError> {
        self.order(Order::Open(more)).await.map(drop)
    }

    /// Completes the recordings and says what was used.
    pub(super) async fn stop(&mut self) -> Result<Done, StageError> {
        let answer = self.order(Order::Stop).await?;
        serde_json::from_value(answer)
            .map_err(|error| StageError::of(format!("{}'s answer", self.name), error))
    }

    /// Its process id.
    pub(super) fn pid(&self) -> Result<u32, StageError> {
        self.child
            .id()
            .ok_or_else(|| StageError::new(format!("{} is gone", self.name)))
    }

    async fn order(&mut self, order: Order) -> Result<Value, StageError> {
        let line = format!("{}\n", json!(order));
        let sent = self.stdin.write_all(line.as_bytes()).await;
        sent.map_err(|error| StageError::of(format!("{} takes no orders", self.name), error))?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Value, StageError> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        let name = &self.name;
        match line {
            Ok(Ok(Some(line))) => serde_json::from_str(&line)
                .map_err(|error| StageError::of(format!("{name} said `{line}`"), error)),
            Ok(_) => Err(StageError::new(format!(
                "{name} ended; its reason is above"
            ))),
            Err(_) => Err(StageError::new(format!(
                "{name} did not answer within {WITHIN:?}"
            ))),
        }
    }
}
