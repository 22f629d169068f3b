//! Repository rules that no other tool checks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

use breakglass_tests::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that the repository holds, by git's own list, so that build outputs do not count.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git lists the repository's files");
    let listed = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    listed
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let name = path.to_string_lossy();
    endings.iter().any(|ending| name.ends_with(ending))
}

fn is_source(path: &Path) -> bool {
    let generated = [
        "wasm/npm/types/",
        "tests/golden/",
        "node-binding/index.d.ts",
    ];
    let name = path.to_string_lossy();
    ends_with(path, &[".rs", ".ts", ".mjs", ".js", ".go", ".sh"])
        && !generated.iter().any(|part| name.starts_with(part))
}

#[track_caller]
fn none(problems: Vec<String>, rule: &str) {
    assert!(problems.is_empty(), "{rule}:\n{}", problems.join("\n"));
}

/// A test tells its story in one piece; what it tests does not.
fn is_test(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.starts_with("tests/")
        || name.contains("/tests/")
        || ends_with(path, &["tests.rs", ".test.ts", ".test.mjs"])
}

#[test]
fn a_file_has_at_most_500_lines() {
    let sources = files().into_iter().filter(|path| is_source(path));
    let long = sources.filter_map(|path| {
        let lines = text(&path).lines().count();
        (lines > 500).then(|| format!("{}: {lines}", path.display()))
    });
    none(long.collect(), "split these files");
}

#[test]
fn a_line_has_at_most_100_columns() {
    let product = files()
        .into_iter()
        .filter(|path| ends_with(path, &[".rs"]) && !is_test(path));
    let wide = product.flat_map(|path| {
        let text = text(&path);
        let wide: Vec<String> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.chars().count() > 100)
            .map(|(number, _)| format!("{}:{}", path.display(), number + 1))
            .collect();
        wide
    });
    none(wide.collect(), "break these lines");
}

#[test]
fn a_module_says_on_top_what_must_hold() {
    let silent = files().into_iter().filter(|path| {
        let name = path.to_string_lossy();
        let in_crate = ["wasm/src", "native/src", "policies/src", "tests/"]
            .iter()
            .any(|crate_| name.starts_with(crate_));
        let is_test = name.ends_with("tests.rs");
        in_crate && ends_with(path, &[".rs"]) && !is_test && !text(path).starts_with("//!")
    });
    none(
        silent.map(|path| path.display().to_string()).collect(),
        "these begin without `//!`",
    );
}

#[track_caller]
fn only_in(name: &str, allowed: &[&str]) {
    let elsewhere = files().into_iter().filter(|path| {
        let file = path.to_string_lossy();
        ends_with(path, &[".rs"])
            && !file.starts_with("tests/")
            && !allowed.iter().any(|prefix| file.starts_with(prefix))
            && text(path).contains(name)
    });
    none(
        elsewhere.map(|path| path.display().to_string()).collect(),
        name,
    );
}

#[test]
fn the_browsers_door_is_one_file() {
    only_in("wasm_bindgen", &["wasm/src/browser.rs"]);
}

#[test]
fn adapters_alone_name_what_is_behind_the_ports() {
    only_in("kube::", &["native/src/cluster"]);
    only_in("tokio_postgres::", &["native/src/store"]);
    only_in("axum::", &["native/src/http"]);
    only_in("reqwest::", &["native/src/cli", "native/src/rekor"]);
    only_in("use cel::", &["policies/src/cel"]);
}

#[test]
fn nothing_names_an_adapter_but_the_composition_root() {
    only_in("PgStore", &["native/src/store", "native/src/app.rs"]);
    only_in("KubeCluster", &["native/src/cluster", "native/src/app.rs"]);
    only_in("RekorLog", &["native/src/rekor", "native/src/app.rs"]);
    only_in(
        "FolderRecordings",
        &["native/src/folder", "native/src/app.rs"],
    );
    only_in("SystemClock", &["native/src/clock.rs", "native/src/app.rs"]);
}

#[test]
fn no_lock_file_has_a_download_address() {
    let addressed = files().into_iter().filter(|path| {
        ends_with(path, &["package-lock.json"]) && text(path).contains("\"resolved\": \"http")
    });
    none(
        addressed.map(|path| path.display().to_string()).collect(),
        "omit the addresses",
    );
}

#[test]
fn nothing_is_left_open() {
    let left = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| ["TODO", "FIXME", "XXX"].contains(&word))
    };
    let open = files()
        .into_iter()
        .filter(|path| is_source(path) && !ends_with(path, &["tidy.rs"]) && left(&text(path)));
    none(
        open.map(|path| path.display().to_string()).collect(),
        "finish or file these",
    );
}

#[test]
fn the_test_command_names_every_test_target() {
    let command = text(&root().join("tests/xtask/src/test.rs"));
    let is_target = |path: &PathBuf| {
        let folder = path.parent().and_then(Path::file_name);
        let package = path.ancestors().nth(2);
        folder.is_some_and(|name| name == "tests")
            && path.extension().is_some_and(|ends| ends == "rs")
            && package.is_some_and(|package| root().join(package).join("Cargo.toml").is_file())
    };
    let targets: Vec<PathBuf> = files().into_iter().filter(is_target).collect();
    assert!(targets.len() > 15, "{targets:?}");
    let forgotten = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        !command.contains(&format!("\"{name}\""))
    };
    none(
        targets
            .iter()
            .filter(|path| forgotten(path))
            .map(|path| path.display().to_string())
            .collect(),
        "no part of `cargo xtask test` runs these",
    );
}
