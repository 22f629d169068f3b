//! The tests' Sigstore, until it is told to end: for a person who wants to sign an image or to look at a log.
//! Prints one JSON object once all of it answers.

use breakglass_tests::StageError;
use breakglass_tests::processes::told_to_end;
use breakglass_tests::sigstore::Sigstore;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), StageError> {
    // A second start by another part of the process is no failure.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::select! {
        run = run() => run,
        told = told_to_end() => told,
    }
}

async fn run() -> Result<(), StageError> {
    let sigstore = Sigstore::start().await?;
    let said = json!({
        "log": sigstore.log_url(),
        "authority": sigstore.authority_url(),
        "issuers": sigstore.issuers().each_ref().map(|issuer| issuer.url().to_owned()),
        "registry": sigstore.registry(),
        "trust": sigstore.trust_mirror(),
        "folder": sigstore.folder(),
    });
    #[expect(clippy::print_stdout, reason = "the answer of this command")]
    {
        println!("{said}");
    }
    std::future::pending().await
}
