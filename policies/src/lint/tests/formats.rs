//! What is written for people, programs and code scanning, to the byte.

use super::*;
use std::path::PathBuf;

/// With `UPDATE_GOLDEN=1` the files are written instead of compared.
#[test]
fn each_format_is_what_was_reviewed() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/lint");
    let policies = std::fs::read(folder.join("policies.yaml")).unwrap();
    let files = [
        ("some policies.yaml", policies),
        ("broken.yaml", b"a: [".to_vec()),
    ]
    .map(|(name, bytes)| (name.to_owned(), Policy::parse_all(name, &bytes)));
    let report = lint(&files, KubernetesVersion::new(34).unwrap());
    for (name, how) in [
        ("report.txt", Format::Text),
        ("report.json", Format::Json),
        ("report.sarif", Format::Sarif),
    ] {
        let written = format(&report, how) + "\n";
        let path = folder.join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &written).unwrap();
        }
        let reviewed = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, reviewed, "{name}: run with UPDATE_GOLDEN=1");
    }
}
