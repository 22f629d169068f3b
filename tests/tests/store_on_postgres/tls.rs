//! An encrypted connection whose other end is checked, and never one in the clear (D-3).

use super::{Database, chain, database, database_on, store_of};
use breakglass::ports::Store;
use breakglass::store::{DatabaseConfig, TlsMode};
use breakglass_tests::postgres::Postgres;
use breakglass_tests::processes::until;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// An authority: its certificate as PEM, and what signs.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    (certificate, Issuer::new(params, key))
}

/// Gives the server a certificate for `localhost`, and waits until it speaks TLS.
async fn speak_tls(world: &Database, issuer: &Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a server");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    let folder = PathBuf::from(world.text("SHOW data_directory").await);
    let owner = folder.metadata().expect("the server's folder");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("its mode");
        chown(&path, Some(owner.uid()), Some(owner.gid())).expect("its owner");
    };
    write("server.crt", &certificate.pem());
    write("server.key", &key.serialize_pem());
    world.run("ALTER SYSTEM SET ssl = on").await;
    world.run("SELECT pg_reload_conf()").await;
    until("TLS", Duration::from_secs(10), || async {
        (world.text("SHOW ssl").await == "on").then_some(())
    })
    .await
    .expect("the server speaks TLS");
}

fn verified(world: &Database, host: &str, ca_file: &Path) -> DatabaseConfig {
    DatabaseConfig {
        host: Some(host.to_owned()),
        tls: TlsMode::VerifyFull,
        ca_file: Some(ca_file.to_owned()),
        ..world.config()
    }
}

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

async fn refused(config: &DatabaseConfig, why: &str) {
    let error = store_of(config).ping().await.expect_err("it is refused");
    let said = chain(&error).to_lowercase();
    assert!(said.contains(why), "{why}: {said}");
}

#[tokio::test]
async fn the_servers_certificate_and_name_are_checked() {
    let world = database_on(Arc::new(Postgres::start().await.expect("Postgres starts"))).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (ours, issuer) = authority();
    let (others, _) = authority();
    let ours = file(&folder, "ours.pem", &ours);
    let others = file(&folder, "others.pem", &others);
    speak_tls(&world, &issuer).await;

    let store = store_of(&verified(&world, "localhost", &ours));
    store.migrate().await.expect("it is encrypted and checked");
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'breakglass'";
    assert_eq!(world.text(encrypted).await, "t");
    refused(&verified(&world, "localhost", &others), "certificate").await;
    refused(&verified(&world, "127.0.0.1", &ours), "certificate").await;
}

#[tokio::test]
async fn a_server_without_tls_is_refused_and_not_spoken_to_in_the_clear() {
    let world = database().await;
    let folder = tempfile::tempdir().expect("a folder");
    let ours = file(&folder, "ours.pem", &authority().0);
    refused(&verified(&world, "localhost", &ours), "tls").await;
}
