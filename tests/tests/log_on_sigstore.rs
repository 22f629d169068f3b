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
use breakglass_tests::processes::Process;
use breakglass_tests::sigstore::Sigstore;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Mutex;

/// One at a time: Rekor's metrics have a port that nobody can choose.
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

/// The program for people: what it started would be in its way, and in that of the tests.
#[tokio::test]
async fn a_sigstore_that_is_told_to_end_leaves_no_server() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("a folder");
    let command = Command::new(env!("CARGO_BIN_EXE_sigstore"));
    let (log, within) = (folder.path().join("log"), Duration::from_secs(180));
    let started = Process::start_until_ready("sigstore", command, &log, within).await;
    let (mut sigstore, said) = started.expect("it starts");
    let mut servers = Vec::new();
    for what in ["log", "authority", "registry", "trust"] {
        let at = said[what].as_str().expect(what);
        let at = at.strip_prefix("http://").unwrap_or(at);
        servers.push(at.split('/').next().expect("host and port").to_owned());
    }
    for server in &servers {
        let up = TcpStream::connect(server).await;
        assert!(up.is_ok(), "{server} of {said}");
    }
    let ended = sigstore.stop(Duration::from_secs(30)).await;
    assert!(ended.expect("it ends").success());
    for server in &servers {
        let left = TcpStream::connect(server).await;
        assert!(left.is_err(), "{server} of {said}");
    }
}
