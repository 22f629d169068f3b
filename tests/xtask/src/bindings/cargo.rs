//! Cargo, asked for what it built instead of guessed at: a target folder may lie anywhere.

use super::BindingsError;
use crate::run::cargo;
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether the decisions' test writes the types or compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    /// Write the committed file.
    Write,
    /// Fail if the committed file differs.
    Compare,
}

/// The test in the decisions that knows their types.
const TYPES_TEST: &str = "door::types::the_committed_types_are_those_of_the_rust_types";

/// Runs the test that makes or compares the TypeScript types.
pub(super) fn types(root: &Path, what: Types) -> Result<(), BindingsError> {
    let arguments = [
        "test",
        "--quiet",
        "-p",
        "decisions",
        "--lib",
        "--",
        "--exact",
        TYPES_TEST,
    ];
    let mut command = cargo(root, &arguments);
    match what {
        Types::Write => command.env("BREAKGLASS_WRITE_TYPES", "1"),
        Types::Compare => command.env_remove("BREAKGLASS_WRITE_TYPES"),
    };
    run(command, &arguments)
}

/// What cargo prints, on standard output, with these arguments.
pub(super) fn output(root: &Path, arguments: &[&str]) -> Result<String, BindingsError> {
    printed(cargo(root, arguments), arguments)
}

fn printed(mut command: Command, arguments: &[&str]) -> Result<String, BindingsError> {
    let ended =
        command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|cause| BindingsError::Start {
                command: arguments.join(" "),
                cause,
            })?;
    if ended.status.success() {
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    } else {
        Err(BindingsError::Cargo {
            command: arguments.join(" "),
        })
    }
}

/// One line of `--message-format json`; other kinds of line have no such fields.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// What a build is for.
pub(super) struct Wanted<'a> {
    /// The library's name.
    pub(super) library: &'a str,
    /// The endings of its file, one per system.
    pub(super) endings: &'static [&'static str],
    /// Where napi describes the functions that it compiles.
    pub(super) described: Option<&'a Path>,
}

/// Builds, and finds the wanted file.
pub(super) fn build(
    root: &Path,
    arguments: &[&str],
    wanted: &Wanted<'_>,
) -> Result<PathBuf, BindingsError> {
    let mut all = vec!["build", "--message-format", "json-render-diagnostics"];
    all.extend_from_slice(arguments);
    let mut command = cargo(root, &all);
    if let Some(folder) = wanted.described {
        command.env("NAPI_TYPE_DEF_TMP_FOLDER", folder);
    }
    let printed = printed(command, &all)?;
    let Wanted {
        library,
        endings,
        described: _,
    } = *wanted;
    let built = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok())
        .filter(|message| message.reason == "compiler-artifact")
        .filter(|message| {
            message
                .target
                .as_ref()
                .is_some_and(|target| target.name == library)
        })
        .flat_map(|message| message.filenames)
        .find(|file| {
            endings
                .iter()
                .any(|e| file.extension() == Some(OsStr::new(e)))
        });
    built.ok_or(BindingsError::NoArtifact {
        wanted: endings.first().copied().unwrap_or("file"),
    })
}

fn run(mut command: Command, arguments: &[&str]) -> Result<(), BindingsError> {
    let status = command.status().map_err(|cause| BindingsError::Start {
        command: arguments.join(" "),
        cause,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(BindingsError::Cargo {
            command: arguments.join(" "),
        })
    }
}
