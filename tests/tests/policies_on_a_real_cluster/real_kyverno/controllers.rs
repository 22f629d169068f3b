//! Kyverno's controllers, ended and started again as the driver of the cluster started them.
//!
//! Invariant: what was ended runs again when its handle is gone, and the driver finds the new
//! process where it wrote down the old one.

use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One controller.
pub(super) struct Controller {
    /// Where the driver keeps its process id.
    record: PathBuf,
    log: PathBuf,
    pid: i32,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    as_before: bool,
}

impl Controller {
    pub(super) const ADMISSION: &str = "kyverno-admission-controller";
    pub(super) const CLEANUP: &str = "kyverno-cleanup-controller";

    /// The one that runs beside the cluster in this folder.
    pub(super) fn beside(cluster: &Path, name: &str) -> Self {
        let record = cluster.join("run").join(format!("{name}.json"));
        let pid = recorded(&record)["pid"].as_i64().expect("a process id");
        let process = PathBuf::from(format!("/proc/{pid}"));
        let words = |file: &str| {
            let bytes = fs::read(process.join(file)).expect("the controller runs");
            let words = bytes
                .split(|byte| *byte == 0)
                .filter(|word| !word.is_empty());
            let words = words.map(|word| OsStr::from_bytes(word).to_owned());
            words.collect::<Vec<_>>()
        };
        let mut arguments = words("cmdline");
        let program = PathBuf::from(arguments.remove(0));
        let environment = words("environ").into_iter().filter_map(|variable| {
            let at = variable.as_bytes().iter().position(|byte| *byte == b'=')?;
            let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((
                part(&variable.as_bytes()[..at]),
                part(&variable.as_bytes()[at + 1..]),
            ))
        });
        Self {
            log: cluster.join("log").join(format!("{name}.log")),
            pid: i32::try_from(pid).expect("a process id"),
            environment: environment.collect(),
            record,
            program,
            arguments,
            as_before: true,
        }
    }

    /// Ends it on the spot, as a node that fails would.
    pub(super) fn kill(&self) {
        self.signal("-KILL");
    }

    /// Asks it to end, as the kubelet does.
    pub(super) fn ask_to_end(&self) {
        self.signal("-TERM");
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        let status = kill.args([signal, &self.pid.to_string()]).status();
        assert!(status.expect("`kill` runs").success(), "it ran until now");
    }

    /// A process that nobody has waited for yet counts as gone.
    pub(super) fn is_gone(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, fields)| &fields[..1]);
        matches!(state, None | Some("Z" | "X"))
    }

    /// Starts it again, as it was.
    pub(super) fn start(&mut self) {
        self.start_with(self.arguments.clone());
        self.as_before = true;
    }

    /// Starts it as if in a pod: found by its Service, whose port this is, and not by an address.
    pub(super) fn start_behind_its_service(&mut self, port: u16) {
        let by_address = |argument: &&OsString| argument.as_bytes().starts_with(b"--serverIP=");
        let kept = self.arguments.iter().filter(|one| !by_address(one));
        let mut arguments: Vec<_> = kept.cloned().collect();
        arguments.push(format!("--servicePort={port}").into());
        self.start_with(arguments);
        self.as_before = false;
    }

    #[expect(
        clippy::zombie_processes,
        reason = "it outlives the test, and the driver ends it"
    )]
    fn start_with(&mut self, arguments: Vec<OsString>) {
        let log = OpenOptions::new().append(true).open(&self.log);
        let log = log.expect("its log");
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("its log"))
            .stderr(log)
            .process_group(0);
        let child = command.spawn().expect("it starts");
        self.pid = i32::try_from(child.id()).expect("a process id");
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).expect("it runs");
        let fields = stat.rsplit_once(") ").expect("fields").1;
        let started = fields.split(' ').nth(19).expect("when it started");
        let mut record = recorded(&self.record);
        record["pid"] = self.pid.into();
        record["started"] = started.parse::<u64>().expect("a number").into();
        fs::write(&self.record, record.to_string()).expect("written");
    }
}

fn recorded(record: &Path) -> Value {
    let text = fs::read_to_string(record).expect("the driver wrote down its process");
    serde_json::from_str(&text).expect("JSON")
}

impl Drop for Controller {
    fn drop(&mut self) {
        let gone = self.is_gone();
        if !gone && !self.as_before {
            self.kill();
        }
        if gone || !self.as_before {
            self.start();
        }
    }
}
