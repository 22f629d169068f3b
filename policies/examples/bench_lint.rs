//! `cargo xtask bench lint`: how many policies the linter takes in a second.
//!
//! Invariants: measured is all that the command does but reading the disk: from the files' bytes to
//! the findings as JSON, on as many cores as it takes, in seconds that pass; the processor's time
//! is told beside. Each round reads every byte anew. A file that cannot be read ends it.

use policies::cel::KubernetesVersion;
use policies::lint::{Format, Read, format, lint};
use policies::model::Policy;
use rayon::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What stands for policies of all kinds: the fence of both tiers, and what the tests lint.
const OURS: [&str; 4] = [
    "tests/golden/policies/flight",
    "tests/golden/policies/ground",
    "tests/golden/lint/policies.yaml",
    "tests/golden/policies-eval/policies.yaml",
];
/// Policies of a round, at least: ours are repeated under other names.
const POLICIES: usize = 2_000;
const ROUNDS: usize = 5;
/// Policies a second.
const GOAL: f64 = 1_000.0;

type Files = Vec<(String, Vec<u8>)>;

#[expect(clippy::print_stdout, reason = "its answer")]
fn main() -> Result<(), String> {
    let (options, named): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--json");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = match named.as_slice() {
        [] => repeated(&gather(OURS.iter().map(|path| root.join(path)))?),
        _ => gather(named.iter().map(PathBuf::from))?,
    };
    let mut rates = Vec::new();
    let mut single = Vec::new();
    let mut counted = (0, 0);
    for _ in 0..ROUNDS {
        let (begun, work) = (passed(), worked());
        counted = round(&files, named.is_empty())?;
        rates.push((counted.0 as f64 / (passed() - begun)).round());
        single.push((counted.0 as f64 / (worked() - work)).round());
    }
    rates.sort_by(f64::total_cmp);
    single.sort_by(f64::total_cmp);
    let (policies, findings) = counted;
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let median = rates.get(ROUNDS / 2).copied().unwrap_or_default();
    let met = median >= GOAL;
    println!(
        "{policies} policies in {} files of {bytes} bytes, {findings} findings",
        files.len()
    );
    let word = if met { "met" } else { "MISSED" };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{median} policies a second on {cores} cores, goal >= {GOAL}: {word}; {rates:?}");
    println!("a processor's second takes {:?}", single.get(ROUNDS / 2));
    if !options.is_empty() {
        let figure = json!({
            "name": "lint: policies a second", "value": median, "unit": "1/s", "runs": rates,
            "cores": cores, "a processor's second": single.get(ROUNDS / 2),
            "goal": format!(">= {GOAL}"), "met": met,
        });
        println!("{}", json!({ "figures": [figure] }));
    }
    Ok(())
}

/// Reads, lints and writes; policies and findings.
fn round(files: &Files, all: bool) -> Result<(usize, usize), String> {
    let read: Vec<Read> = files
        .par_iter()
        .map(|(name, bytes)| (name.clone(), Policy::parse_all(name, bytes)))
        .collect();
    let version = KubernetesVersion::new(34).unwrap_or(KubernetesVersion::NEWEST);
    let report = lint(&read, version);
    match report.unread.first() {
        Some(error) if all => return Err(error.to_string()),
        _ => {}
    }
    std::hint::black_box(format(&report, Format::Json));
    Ok((report.policies, report.findings.len()))
}

/// The files, or those in the folders and below, in the order of names.
fn gather(paths: impl Iterator<Item = PathBuf>) -> Result<Files, String> {
    let mut left: Vec<PathBuf> = paths.collect();
    let mut files = Files::new();
    while let Some(path) = left.pop() {
        let failed = |error: std::io::Error| format!("`{}`: {error}", path.display());
        if path.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                left.push(entry.map_err(failed)?.path());
            }
        } else if path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
        {
            let bytes = std::fs::read(&path).map_err(failed)?;
            files.push((path.display().to_string(), bytes));
        }
    }
    files.sort();
    Ok(files)
}

/// The same files again and again, each time under other names.
fn repeated(files: &Files) -> Files {
    let once: usize = files
        .iter()
        .filter_map(|(name, bytes)| Policy::parse_all(name, bytes).ok())
        .flatten()
        .filter(|document| matches!(document, policies::model::Document::Policy(_)))
        .count();
    (0..POLICIES.div_ceil(once.max(1)))
        .flat_map(|copy| {
            let named =
                move |(name, bytes): &(String, Vec<u8>)| (format!("{copy}/{name}"), bytes.clone());
            files.iter().map(named)
        })
        .collect()
}

/// Seconds that pass.
fn passed() -> f64 {
    seconds(rustix::time::ClockId::Monotonic)
}

/// Seconds that this process has had a processor.
fn worked() -> f64 {
    seconds(rustix::time::ClockId::ProcessCPUTime)
}

fn seconds(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
