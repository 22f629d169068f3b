//! `cargo xtask fuzz`: looks for what the linter and the expression engine cannot take.
//!
//! Invariant: what is searched is `policies` as it stands, built for coverage by stable Rust; what
//! is found ends the search, with the input in a file. It is no part of the tests, and needs a
//! C++ compiler.

use crate::demo::target;
use crate::run::{cargo, program, run, say};
use clap::{Args, ValueEnum};
use std::path::Path;

/// Feedback for the search: which edges an input takes, and what it compares.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Where it begins.
const SEEDS: [&str; 5] = [
    "tests/golden/policies/flight",
    "tests/golden/policies/ground",
    "tests/golden/lint",
    "tests/golden/policies-eval",
    "policies/fuzz/seeds",
];

#[derive(Args)]
pub(crate) struct Options {
    /// What is searched
    what: What,
    /// How long, on the wall clock
    #[arg(long, default_value_t = 600)]
    seconds: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Any bytes as a file of policies
    Files,
    /// Any text as an expression
    Engine,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Engine => "engine",
        }
    }
}

/// Builds, and searches until the time is over or something is found.
pub(crate) fn fuzz(root: &Path, options: &Options) -> Result<(), String> {
    let folder = target(root).join("fuzz");
    say("building for the search");
    let manifest = "policies/fuzz/Cargo.toml";
    // Named, the host is a target of its own: build scripts and macros get no such flags.
    let host = host(root)?;
    let build = [
        "build",
        "--release",
        "--target",
        &host,
        "--manifest-path",
        manifest,
    ];
    run(cargo(root, &build)
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTFLAGS", FLAGS))?;
    let built = folder.join(host).join("release");
    let example = [
        "run",
        "--package",
        "policies",
        "--example",
        "fuzz_seeds",
        "--",
    ];
    let mut seeds = cargo(root, &example);
    run(seeds.args(SEEDS).arg(folder.join("seeds")))?;
    let name = options.what.name();
    let corpus = folder.join("corpus").join(name);
    std::fs::create_dir_all(&corpus).map_err(|error| format!("the corpus: {error}"))?;
    let mut search = program(root, built.join(name));
    search
        .arg(&corpus)
        .arg(folder.join("seeds").join(name))
        .arg(format!("-max_total_time={}", options.seconds))
        .arg(format!("-artifact_prefix={}/", folder.display()))
        // An input's own bounds are the target's; these stop what never comes back.
        .args(["-timeout=60", "-rss_limit_mb=2048", "-malloc_limit_mb=256"])
        .args(["-max_len=65536", "-print_final_stats=1"]);
    run(&mut search)
}

fn host(root: &Path) -> Result<String, String> {
    let output = program(root, "rustc")
        .args(["--print", "host-tuple"])
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let host = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match host.is_empty() {
        true => Err("rustc does not say what it runs on".to_owned()),
        false => Ok(host),
    }
}
