use super::*;
use crate::config::Secret;
use std::error::Error;

fn verified(ca_file: Option<PathBuf>) -> DatabaseConfig {
    DatabaseConfig {
        tls: TlsMode::VerifyFull,
        ca_file,
        password: Some(Secret::new("open sesame")),
        ..DatabaseConfig::default()
    }
}

/// The whole chain of a refusal, as it is logged.
#[track_caller]
fn refusal(config: &DatabaseConfig) -> String {
    let Err(error) = pool(config) else {
        panic!("{config:?} is not good");
    };
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(": ");
        said.push_str(&error.to_string());
        cause = error.source();
    }
    said
}

#[test]
fn certificates_that_cannot_be_used_are_refused_at_start_by_their_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let half = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    for (path, why) in [
        (folder.path().join("missing.pem"), "cannot be read"),
        (file("empty.pem", ""), "holds no certificate"),
        (
            file("prose.pem", "this is not a certificate\n"),
            "holds no certificate",
        ),
        (file("half.pem", half), "cannot be read"),
        (file("bad.pem", no_certificate), "cannot be used"),
    ] {
        let said = refusal(&verified(Some(path.clone())));
        assert!(said.contains(why), "{said}");
        assert!(said.contains(&*path.to_string_lossy()), "{said}");
        assert!(!said.contains("sesame"), "{said}");
    }
}

#[test]
fn without_a_file_the_systems_certificates_are_used() {
    assert!(pool(&verified(None)).is_ok());
}

#[test]
fn a_password_is_not_in_what_is_printed_of_a_configuration() {
    let config = verified(None);
    assert!(!format!("{config:?}").contains("sesame"), "{config:?}");
    let pool = pool(&config).expect("a pool");
    assert!(!format!("{pool:?}").contains("sesame"), "{pool:?}");
}
