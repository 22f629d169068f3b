//! The cluster's processes: started so that they outlive the driver, and found again by another
//! driver after the first was killed.
//!
//! Invariant: a signal goes only to a process whose id, start time and boot are those that were
//! written down. An id that came to be another program's is left alone.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::time::wait_for;

/// After this a part that was asked to end is killed. Nothing in a test cluster is worth keeping.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// How much of a log goes into an error.
const TAIL_LINES: usize = 12;

/// A process as it is told from a later one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct ProcessId {
    pub(super) pid: i32,
    /// In clock ticks since boot, from `/proc/<pid>/stat`.
    started: u64,
    /// Which boot, as the first half of the kernel's random id of it.
    boot: u64,
}

impl ProcessId {
    /// The running process `pid`; `None` where there is none, or only its zombie.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, started) = state_and_start(&stat)?;
        (!matches!(state, "Z" | "X")).then_some(Self {
            pid,
            started,
            boot: boot()?,
        })
    }

    /// The driver itself.
    pub(super) fn own() -> Option<Self> {
        Self::of(i32::try_from(std::process::id()).ok()?)
    }

    pub(super) fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
            // It may end between the check and the signal: then it is where it should be.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it, by force after [`ENDS_WITHIN`].
    pub(super) fn end(&self, what: &str) -> Result<(), ClusterError> {
        self.signal(Signal::TERM);
        if wait_for(what, ENDS_WITHIN, || Ok(!self.is_alive())).is_err() {
            self.kill(what)?;
        }
        Ok(())
    }

    /// Kills it and sees it gone.
    pub(super) fn kill(&self, what: &str) -> Result<(), ClusterError> {
        self.signal(Signal::KILL);
        wait_for(
            &format!("{what} (process {}) is gone", self.pid),
            ENDS_WITHIN,
            || Ok(!self.is_alive()),
        )
    }
}

/// The state letter and the start time of a `/proc/<pid>/stat` line. The name before them may
/// hold spaces and parentheses, so both are counted from the last `)`.
fn state_and_start(stat: &str) -> Option<(&str, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn boot() -> Option<u64> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .ok()?
        .replace('-', "");
    u64::from_str_radix(id.get(..16)?, 16).ok()
}

/// One long-running program of the cluster.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) command: Command,
}

/// Starts `part` with its output in the cluster's log folder, and writes down its process.
pub(super) fn start(dir: &ClusterDir, mut part: Part) -> Result<(), ClusterError> {
    let log_path = dir.log(part.name);
    let log = File::create(&log_path).map_err(ClusterError::io("create", &log_path))?;
    let stderr = log
        .try_clone()
        .map_err(ClusterError::io("open", &log_path))?;
    part.command
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(stderr)
        // Its own process group: Ctrl-C at the driver is the driver's, not the cluster's.
        .process_group(0)
        .current_dir(dir.path());
    let child = part
        .command
        .spawn()
        .map_err(ClusterError::io("start", Path::new(part.name)))?;
    let ended = || part_ended(dir, part.name);
    let id = i32::try_from(child.id())
        .ok()
        .and_then(ProcessId::of)
        .ok_or_else(ended)?;
    let record = serde_json::json!(id).to_string();
    let record_path = dir.process(part.name);
    fs::write(&record_path, record).map_err(ClusterError::io("write", &record_path))
}

/// The process of `part`, if it was started and is the one that was started.
pub(super) fn running(dir: &ClusterDir, part: &str) -> Option<ProcessId> {
    let record = fs::read_to_string(dir.process(part)).ok()?;
    let id: ProcessId = serde_json::from_str(&record).ok()?;
    id.is_alive().then_some(id)
}

/// Fails at once, with the end of its log, where `part` ended.
pub(super) fn must_run(dir: &ClusterDir, part: &str) -> Result<(), ClusterError> {
    running(dir, part)
        .map(|_| ())
        .ok_or_else(|| part_ended(dir, part))
}

fn part_ended(dir: &ClusterDir, part: &str) -> ClusterError {
    let log = dir.log(part);
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    ClusterError::PartEnded {
        part: part.to_owned(),
        log,
        tail,
    }
}

/// Every running process with its parent and command line. One that ends meanwhile is left out.
pub(super) fn all() -> Vec<(ProcessId, i32, Vec<u8>)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let read = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some((ProcessId::of(pid)?, parent, command_line))
    };
    entries.flatten().filter_map(read).collect()
}

/// Runs `command` to its end with `stdin`; its standard output.
pub(super) fn output(mut command: Command, stdin: Option<&str>) -> Result<String, ClusterError> {
    use std::io::Write;
    let shown = shown(&command);
    let io = |source| ClusterError::Io {
        doing: format!("run `{shown}`"),
        source,
    };
    let mut child = command
        .stdin(if stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io)?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        // A program that ends without reading says why by its status.
        let _ = pipe.write_all(text.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|source| ClusterError::Io {
            doing: format!("run `{shown}`"),
            source,
        })?;
    if !output.status.success() {
        return Err(ClusterError::Command {
            command: shown,
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty()
        && haystack
            .windows(needle.len())
            .any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        assert_eq!(state_and_start(stat), Some(("S", 777)));
        assert_eq!(state_and_start("42 (x) S 1"), None);
    }

    #[test]
    fn an_id_that_became_another_program_is_not_alive() {
        let own = ProcessId::own().expect("this test runs");
        assert!(own.is_alive());
        assert!(
            !ProcessId {
                started: own.started + 1,
                ..own
            }
            .is_alive()
        );
    }

    #[test]
    fn an_ended_child_is_not_alive_before_anybody_reaps_it() {
        let mut child = Command::new("true").spawn().expect("`true` runs");
        let pid = i32::try_from(child.id()).expect("an id");
        wait_for("the child has ended", ENDS_WITHIN, || {
            Ok(ProcessId::of(pid).is_none())
        })
        .expect("a zombie counts as gone");
        child.wait().expect("it can still be reaped");
    }

    #[test]
    fn a_failing_command_says_what_it_was_and_what_it_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "cat >&2; exit 3"]);
        let said = output(command, Some("why"))
            .expect_err("it exits 3")
            .to_string();
        assert_eq!(said, "`sh -c cat >&2; exit 3` failed (exit status: 3): why");
    }
}
