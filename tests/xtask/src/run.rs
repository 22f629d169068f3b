//! Running other programs, with their output in sight.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .ancestors()
        .nth(2)
        .unwrap_or(manifest)
        .to_path_buf()
}

/// Tells the person something.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A program in the repository's root.
pub(crate) fn program(root: &Path, name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root);
    command
}

/// Cargo, as this process was started by it.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let name = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = program(root, name);
    command.args(arguments);
    // What cargo tells this program of its own package must not reach another cargo: a build
    // script that watches it (ring's) would be run again, and all that rests on it built again,
    // at each change between `cargo xtask` and plain cargo.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs it; a failure names the command.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let named = named(command);
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{named}` failed: {status}")),
        Err(error) => Err(format!("`{named}` cannot be started: {error}")),
    }
}

/// Runs it, shows its stdout as it comes and gives each line to `see`; answers whether it
/// succeeded.
pub(crate) fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool, String> {
    let named = named(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{named}` cannot be started: {error}"))?;
    if let Some(stdout) = child.stdout.take() {
        let mut own = std::io::stdout();
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|error| format!("`{named}`: {error}"))?;
            let line = String::from_utf8_lossy(&line);
            let _ = writeln!(own, "{line}");
            see(&line);
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("`{named}`: {error}"))?;
    Ok(status.success())
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn named(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}
