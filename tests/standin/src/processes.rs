//! Which processes belong to a container, and their end.
//!
//! A container's processes are those in the session of its first process and those that carry its
//! mark in their environment, so that a daemon that left the session dies with its pod too.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::pty::MARK;

/// Every process that carries `mark`, or whose session is `leader`'s.
pub(crate) fn of_container(leader: Option<u32>, mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    all_processes()
        .into_iter()
        .filter(|&pid| {
            living_session(pid).is_some_and(|session| {
                leader == Some(session) || has_variable(pid, wanted.as_bytes())
            })
        })
        .collect()
}

/// Kills them all, and again until none is left (one may have forked meanwhile), within a bound.
pub(crate) fn kill_container(leader: Option<u32>, mark: &str) {
    if let Some(leader) = leader.and_then(to_pid) {
        // Also where there is no /proc to look into.
        let _ = kill_process_group(leader, Signal::KILL);
    }
    for _ in 0..8 {
        let left = of_container(leader, mark);
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(to_pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn to_pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

fn all_processes() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != std::process::id())
        .collect()
}

fn has_variable(pid: u32, wanted: &[u8]) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment
        .split(|&byte| byte == 0)
        .any(|variable| variable == wanted)
}

/// The session of a process, unless it is gone or a zombie. Not `getsid`: a session whose leader
/// is outside our PID namespace is 0, which is no process id.
fn living_session(pid: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any character; state, parent, group and session
    // follow it.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(session)
}
