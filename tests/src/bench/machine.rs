//! What the numbers were measured on, and with: cores, CPU time, private memory.

use crate::StageError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::read_to_string;

/// The cores that are used: one for whoever relays, one for everything around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Cores {
    /// Source, reader and typist.
    pub(super) around: usize,
    /// Who relays, and Node between browser and relay.
    pub(super) relay: usize,
}

impl Cores {
    /// Two cores that this process may use; the same one twice where there is only one.
    pub(super) fn choose() -> Result<Self, StageError> {
        let allowed =
            sched_getaffinity(None).map_err(|error| StageError::of("the cores", error))?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let around = cores
            .next()
            .ok_or_else(|| StageError::new("no core to run on"))?;
        Ok(Self {
            around,
            relay: cores.next().unwrap_or(around),
        })
    }

    /// Whether sender and relay have a core each.
    pub(super) fn differ(self) -> bool {
        self.around != self.relay
    }
}

/// Pins the calling thread, and with it every thread and process that it starts from here on.
///
/// # Errors
/// The core is not one of ours.
pub fn pin_to(core: usize) -> Result<(), StageError> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| StageError::of(format!("core {core} cannot be had"), error))
}

/// User and system seconds of this process, all threads.
pub(super) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// As many open files as we are allowed: three for each idle session.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where it stays low, opening sessions says so.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// Bytes that a process has to itself: not what it shares with others, such as program code
/// that is mapped elsewhere too.
pub(super) fn private_bytes(pid: u32) -> Result<u64, StageError> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = read_to_string(&path).map_err(|error| StageError::of(path.clone(), error))?;
    let kib: u64 = text
        .lines()
        .filter(|line| line.starts_with("Private_Clean:") || line.starts_with("Private_Dirty:"))
        .filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok())
        .sum();
    if kib == 0 {
        Err(StageError::new(format!("{path} says nothing")))
    } else {
        Ok(kib * 1024)
    }
}

/// The machine in words.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    node: String,
    /// The 1-minute load average before anything was started.
    load_before: f64,
}

impl Machine {
    pub(super) fn look(node: String) -> Self {
        let cpus = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        let first = load.split_ascii_whitespace().next();
        Self {
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: cpus
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            node,
            load_before: first.and_then(|load| load.parse().ok()).unwrap_or_default(),
        }
    }

    pub(super) fn words(&self) -> String {
        let Self {
            cpu,
            cores,
            kernel,
            node,
            load_before,
        } = self;
        format!("{cpu}, {cores} cores, Linux {kernel}, Node {node}, load before {load_before}")
    }
}
