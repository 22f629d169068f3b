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
use breakglass_tests::sigstore::Sigstore;

fn adapter(sigstore: &Sigstore, key: &str) -> RekorLog {
    let key = LogKey::from_pem(key).expect("the log's key");
    let url = sigstore.log_url().parse().expect("its address");
    RekorLog::new(url, vec![key]).expect("an adapter")
}

#[tokio::test]
async fn r_16_the_adapter_keeps_the_contract_on_a_real_log() {
    let _ = rustls::crypto::ring::default_provider().install_default();
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
