//! Lints a folder and says how long it took: `cargo run --release -p policies --example
//! lint_speed -- FOLDER… > findings.json`.

use policies::cel::KubernetesVersion;
use policies::lint::{Format, Read, format, lint};
use policies::model::Policy;
use std::path::PathBuf;
use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "it measures")]
#[expect(clippy::print_stdout, reason = "its answer")]
fn main() -> std::io::Result<()> {
    let mut left: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)?.flatten() {
                left.push(entry.path());
            }
        } else if path
            .extension()
            .is_some_and(|e| e == "yaml" || e == "yml" || e == "json")
        {
            files.push((path.display().to_string(), std::fs::read(&path)?));
        }
    }
    files.sort();
    let begun = Instant::now();
    let read: Vec<Read> = files
        .into_iter()
        .map(|(name, bytes)| {
            let documents = Policy::parse_all(&name, &bytes);
            (name, documents)
        })
        .collect();
    let parsed = begun.elapsed();
    let version = KubernetesVersion::new(34).unwrap_or(KubernetesVersion::NEWEST);
    let report = lint(&read, version);
    let judged = begun.elapsed();
    println!("{}", format(&report, Format::Json));
    let (files, policies) = (read.len(), report.policies);
    eprintln!("{files} files read in {parsed:?}; {policies} policies judged by {judged:?}");
    Ok(())
}
