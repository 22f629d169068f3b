//! Child processes that say when they are ready and do not outlive their handle.

use crate::StageError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::task::Poll;
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
        if let Some(pid) = self.as_pid() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Sends a signal, and blocks this thread until it has ended: for a `drop`, which can await
    /// nothing.
    pub fn end_by(&self, signal: rustix::process::Signal, within: Duration) {
        let Some(pid) = self.as_pid() else {
            return;
        };
        let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        let _ = rustix::process::kill_process(pid, signal);
        if let Ok(within) = within.try_into() {
            let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&within));
        }
    }

    fn as_pid(&self) -> Option<Pid> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok())?;
        Pid::from_raw(pid)
    }
}

/// Waits until this process is told to end: by SIGTERM, SIGINT or SIGHUP, but for those that it was
/// started to ignore (`nohup`). Its children are in groups of their own, so that only it ends them.
///
/// # Errors
/// Signals cannot be waited for.
pub async fn told_to_end() -> Result<(), StageError> {
    let failed = |error| StageError::of("signals cannot be waited for", error);
    let status = std::fs::read_to_string("/proc/self/status").map_err(failed)?;
    let ignored = ignored_signals(&status);
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let heeded = kinds.into_iter().filter(|kind| !ignored.contains(kind));
    let signals: Result<Vec<_>, _> = heeded.map(signal).collect();
    let mut signals = signals.map_err(failed)?;
    std::future::poll_fn(|context| {
        let told = signals
            .iter_mut()
            .any(|signal| signal.poll_recv(context).is_ready());
        if told { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    Ok(())
}

/// What `/proc/PID/status` says is ignored.
fn ignored_signals(status: &str) -> Vec<SignalKind> {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    (1..=64)
        .filter(|number| mask >> (number - 1) & 1 == 1)
        .map(SignalKind::from_raw)
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_ignores_is_read_off_its_status() {
        let ignored = |mask: &str| ignored_signals(&format!("SigBlk:\t07\nSigIgn:\t{mask}\n"));
        assert_eq!(ignored("0000000000000000"), []);
        let both = [SignalKind::hangup(), SignalKind::interrupt()];
        assert_eq!(ignored("0000000000001003")[..2], both);
    }
}
