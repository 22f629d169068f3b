//! The real adapter of the transparency log's port, on a real Rekor: the contract
//! that it shares with the fake.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test panics to fail"
)]

use breakglass::fakes::log_contract::{contract, entry};
use breakglass::ports::log::{LogError, TransparencyLog as _};
use breakglass::rekor::{LogKey, RekorLog};
use breakglass_tests::processes::{Process, until};
use breakglass_tests::sigstore::Sigstore;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Mutex;

/// One at a time: each is seven servers, on a machine with few cores.
static ALONE: Mutex<()> = Mutex::const_new(());

fn adapter(sigstore: &Sigstore, key: &str) -> RekorLog {
    let key = LogKey::from_pem(key).expect("the log's key");
    let url = sigstore.log_url().parse().expect("its address");
    RekorLog::new(url, vec![key]).expect("an adapter")
}

#[tokio::test]
async fn r_16_the_adapter_keeps_the_contract_on_a_real_log() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let _alone = ALONE.lock().await;
    let mut sigstore = Sigstore::start().await.expect("Sigstore starts");
    let log = adapter(&sigstore, &sigstore.log_key().expect("its key"));
    contract(&log).await;

    // What another key signed is not believed, though the entry is made.
    let other = breakglass::fakes::log::pem(&breakglass::fakes::log::key(3));
    let answer = adapter(&sigstore, &other)
        .submit(&entry(b"a fourth recording", 9))
        .await;
    assert!(
        matches!(answer, Err(LogError::NotBelieved { .. })),
        "{answer:?}"
    );
    let there = log.find(&entry(b"a fourth recording", 9)).await;
    assert!(there.expect("it answers").is_some());

    sigstore.stop_log().await.expect("it ends");
    let away = log.submit(&entry(b"a fifth recording", 9)).await;
    assert!(matches!(away, Err(LogError::Away { .. })), "{away:?}");
}

/// What a process has started and not yet reaped, by Linux's word.
struct Children(Vec<Pid>);

impl Children {
    fn of(parent: u32) -> Self {
        let parent = parent.to_string();
        let processes = std::fs::read_dir("/proc").expect("/proc");
        let pids = processes.filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let [_, of] = state_and_parent(pid)?;
            Pid::from_raw(pid).filter(|_| of == parent)
        });
        Self(pids.collect())
    }

    /// Those that still run. Who ended and was left by its parent is not waited for by anybody.
    fn left(&self) -> Vec<Pid> {
        let runs = |pid: &Pid| {
            let state = state_and_parent(pid.as_raw_nonzero().get());
            state.is_some_and(|[state, _]| state != "Z" && state != "X")
        };
        self.0.iter().copied().filter(runs).collect()
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for pid in self.left() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn state_and_parent(pid: i32) -> Option<[String; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').map(str::to_owned);
    Some([fields.next()?, fields.next()?])
}

/// The program for people: what it started would be in its way, and in that of the tests.
#[tokio::test]
async fn a_sigstore_that_is_told_to_end_leaves_no_server() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("a folder");
    let command = Command::new(env!("CARGO_BIN_EXE_sigstore"));
    let (log, within) = (folder.path().join("log"), Duration::from_secs(180));
    let started = Process::start_until_ready("sigstore", command, &log, within).await;
    let (mut sigstore, said) = started.expect("it starts");
    let servers = Children::of(sigstore.pid().expect("it runs"));
    assert!(servers.left().len() >= 5, "{said}: {:?}", servers.left());
    let ended = sigstore.stop(Duration::from_secs(30)).await;
    assert!(ended.expect("it ends").success());
    let gone = async || servers.left().is_empty().then_some(());
    let gone = until("the end of the servers", Duration::from_secs(30), gone).await;
    gone.unwrap_or_else(|error| panic!("{error}: {:?}", servers.left()));
}
