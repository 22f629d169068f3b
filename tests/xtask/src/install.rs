//! What the tests and the demo need beside Rust and Node, installed with the reason said.

use crate::run::{program, run, say};
use std::path::Path;
use std::process::{Command, Stdio};

/// Node packages, exactly as locked: Backstage's, and the browser's driver.
pub(crate) fn node_packages(root: &Path) -> Result<(), String> {
    locked(root, "Backstage, Postgres and the test tools (minutes when nothing is cached)")?;
    locked(&root.join("tests/vectors"), "the browser's driver and the type checker")
}

fn locked(root: &Path, what: &str) -> Result<(), String> {
    let stamp = root.join("node_modules/.package-lock.json");
    let lock = root.join("package-lock.json");
    let newer = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    if newer(&stamp).is_some() && newer(&stamp) >= newer(&lock) {
        return Ok(());
    }
    say(&format!("npm ci: {what}"));
    run(program(root, "npm").args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]))
}

/// The target that the decisions are compiled to for the browser.
pub(crate) fn wasm_target(root: &Path) -> Result<(), String> {
    let installed = Command::new("rustup")
        .current_dir(root)
        .args(["target", "list", "--installed"])
        .stderr(Stdio::null())
        .output();
    let present = installed.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|l| l == "wasm32-unknown-unknown")
    });
    if present {
        return Ok(());
    }
    say("rustup target add wasm32-unknown-unknown: the decisions run in the browser too");
    run(program(root, "rustup").args(["target", "add", "wasm32-unknown-unknown"]))
}

/// Debian packages that provide these programs; each is `(program, package, why)`.
pub(crate) fn debian(root: &Path, wanted: &[(&str, &str, &str)]) -> Result<(), String> {
    let missing: Vec<_> = wanted.iter().filter(|(path, ..)| !Path::new(path).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for (_, package, why) in &missing {
        say(&format!("apt-get install {package}: {why}"));
    }
    if !rustix::process::geteuid().is_root() {
        let packages: Vec<_> = missing.iter().map(|(_, package, _)| *package).collect();
        return Err(format!("install them as root: apt-get install {}", packages.join(" ")));
    }
    run(program(root, "apt-get").args(["update", "-q"]).stdout(Stdio::null()))?;
    let mut install = program(root, "apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    install.args(["install", "-y", "-q", "--no-install-recommends"]);
    install.args(missing.iter().map(|(_, package, _)| *package));
    run(&mut install)
}

/// What the browser's part of the vectors needs.
pub(crate) const BROWSER: [(&str, &str, &str); 1] =
    [("/usr/bin/chromium", "chromium", "the decisions are tested in a real browser")];
