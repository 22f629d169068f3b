//! Which processes belong to a container, and their end.
//!
//! A container's processes are those in the session of its first process and those that carry its
//! mark in their environment, so that a daemon that left the session dies with its pod too.

use rustix::process::{Pid, Signal, getsid, kill_process, kill_process_group};

use crate::pty::MARK;

/// Every process that carries `mark`, or whose session is `leader`'s.
pub(crate) fn of_container(leader: Option<u32>, mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let leader = leader.and_then(to_pid);
    all_processes()
        .into_iter()
        .filter(|&pid| {
            let session = to_pid(pid).and_then(|pid| getsid(Some(pid)).ok());
            (leader.is_some() && session == leader) || has_variable(pid, wanted.as_bytes())
        })
        .filter(|&pid| !is_zombie(pid))
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
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != std::process::id())
        .collect()
}

fn has_variable(pid: u32, wanted: &[u8]) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|&byte| byte == 0).any(|variable| variable == wanted)
}

fn is_zombie(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name is in parentheses and may contain any character; the state follows it.
    text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}
