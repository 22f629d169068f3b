//! Child processes that say when they are ready and do not outlive their handle.

use crate::StageError;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// A child in a process group of its own.
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts it with its output in `log`, to be read when something goes wrong.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Result<Self, StageError> {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|error| StageError::of(format!("cannot write {name}'s log"), error))?;
        let copy = file
            .try_clone()
            .map_err(|error| StageError::of(format!("{name}'s log"), error))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(file))
            .stderr(Stdio::from(copy));
        let child = spawn(name, command)?;
        Ok(Self {
            name: name.to_owned(),
            child,
        })
    }

    /// Starts it and waits for its first JSON object on stdout, which says that it is ready.
    /// What it prints later is drained.
    pub async fn start_until_ready(
        name: &str,
        mut command: Command,
        log: &Path,
        within: Duration,
    ) -> Result<(Self, serde_json::Value), StageError> {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|error| StageError::of(format!("cannot write {name}'s log"), error))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(file));
        let mut child = spawn(name, command)?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| StageError::new("no stdout"))?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = tokio::time::timeout(within, async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(value) = serde_json::from_str::<serde_json::Value>(&line)
                    && value.is_object()
                {
                    return Some(value);
                }
                append(log, &line);
            }
            None
        })
        .await;
        let Ok(Some(value)) = ready else {
            let _ = child.kill().await;
            return Err(StageError::new(format!(
                "{name} did not become ready; see {}",
                log.display()
            )));
        };
        let log = log.to_owned();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                append(&log, &line);
            }
        });
        Ok((
            Self {
                name: name.to_owned(),
                child,
            },
            value,
        ))
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it outright, as `kill -9` does.
    pub async fn kill(&mut self) -> Result<(), StageError> {
        self.child
            .kill()
            .await
            .map_err(|error| StageError::of(format!("cannot kill {}", self.name), error))
    }

    /// Sends SIGTERM and waits: how it exited.
    pub async fn stop(&mut self, within: Duration) -> Result<ExitStatus, StageError> {
        self.signal(rustix::process::Signal::TERM);
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(exited) => {
                exited.map_err(|error| StageError::of(format!("{}'s exit", self.name), error))
            }
            Err(_) => {
                let _ = self.child.kill().await;
                Err(StageError::new(format!(
                    "{} did not stop within {within:?}",
                    self.name
                )))
            }
        }
    }

    /// Sends a signal, if it runs.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self
            .child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Waits until this process is told to end: SIGTERM, SIGINT or SIGHUP. Its children are in groups
/// of their own, so that only it ends them.
///
/// # Errors
/// Signals cannot be waited for.
pub async fn told_to_end() -> Result<(), StageError> {
    let of =
        |kind| signal(kind).map_err(|error| StageError::of("signals cannot be waited for", error));
    let (mut terminated, mut interrupted, mut hung_up) = (
        of(SignalKind::terminate())?,
        of(SignalKind::interrupt())?,
        of(SignalKind::hangup())?,
    );
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        _ = hung_up.recv() => {}
    }
    Ok(())
}

fn spawn(name: &str, mut command: Command) -> Result<Child, StageError> {
    command.kill_on_drop(true).process_group(0);
    command
        .spawn()
        .map_err(|error| StageError::of(format!("cannot start {name}"), error))
}

fn append(log: &Path, line: &str) {
    use std::io::Write;
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(log) {
        let _ = writeln!(file, "{line}");
    }
}

/// Asks `question` until it answers, at most for `within`.
pub async fn until<T, F>(
    what: &str,
    within: Duration,
    mut question: impl FnMut() -> F,
) -> Result<T, StageError>
where
    F: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(within, asking)
        .await
        .map_err(|_| StageError::new(format!("{what} did not happen within {within:?}")))
}

/// A TCP port of the loopback that was free a moment ago.
pub fn free_port() -> Result<u16, StageError> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))
        .map_err(|error| StageError::of("no free port", error))?;
    let address = listener
        .local_addr()
        .map_err(|error| StageError::of("no free port", error))?;
    Ok(address.port())
}
