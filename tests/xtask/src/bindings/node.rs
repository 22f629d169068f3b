//! The native addon for this machine, and the types of its package.
//!
//! Invariant: `index.d.ts` is made from what `napi` says of the compiled functions, and each
//! function's type is that of the decision of the same name. So an addon without a decision, or a
//! decision without a line in the addon, does not pass the type check.

use super::{BindingsError, cargo, file_error, read, read_text, replace, wasm};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A machine that the addon is built for, by napi's names.
pub(super) struct Platform {
    /// Rust's name: architecture, system and, on Linux, the C library.
    pub(super) rust: (&'static str, &'static str, &'static str),
    /// What follows the package's name and stands in the file's.
    pub(super) name: &'static str,
    /// `os`, `cpu` and `libc` of the platform's package.
    pub(super) npm: (&'static str, &'static str, Option<&'static str>),
}

/// Where Backstage runs, and where it is developed. Elsewhere the wasm answers.
pub(super) const PLATFORMS: [Platform; 7] = [
    platform(
        ("x86_64", "linux", "gnu"),
        "linux-x64-gnu",
        ("linux", "x64", Some("glibc")),
    ),
    platform(
        ("x86_64", "linux", "musl"),
        "linux-x64-musl",
        ("linux", "x64", Some("musl")),
    ),
    platform(
        ("aarch64", "linux", "gnu"),
        "linux-arm64-gnu",
        ("linux", "arm64", Some("glibc")),
    ),
    platform(
        ("aarch64", "linux", "musl"),
        "linux-arm64-musl",
        ("linux", "arm64", Some("musl")),
    ),
    platform(
        ("x86_64", "macos", ""),
        "darwin-x64",
        ("darwin", "x64", None),
    ),
    platform(
        ("aarch64", "macos", ""),
        "darwin-arm64",
        ("darwin", "arm64", None),
    ),
    platform(
        ("x86_64", "windows", "msvc"),
        "win32-x64-msvc",
        ("win32", "x64", None),
    ),
];

const fn platform(
    rust: (&'static str, &'static str, &'static str),
    name: &'static str,
    npm: (&'static str, &'static str, Option<&'static str>),
) -> Platform {
    Platform { rust, name, npm }
}

/// What was built.
pub(super) struct Built {
    pub(super) addon: PathBuf,
    pub(super) bytes: usize,
    /// The text of `index.d.ts`.
    pub(super) types: String,
}

/// Builds the addon and puts it beside its loader, under napi's name for this machine.
pub(super) fn build(root: &Path) -> Result<Built, BindingsError> {
    // A fresh folder each time: its name is an input of the build, so that an unchanged crate
    // describes its functions once more.
    let described =
        tempfile::tempdir().map_err(|cause| file_error("made", &std::env::temp_dir(), cause))?;
    let library = cargo::build(
        root,
        &["-p", "decisions-node", "--release"],
        &cargo::Wanted {
            library: "decisions_node",
            endings: &["so", "dylib", "dll"],
            described: Some(described.path()),
        },
    )?;
    let package = root.join("node-binding");
    let addon = package.join(format!("decisions.{}.node", this_platform()?.name));
    replace(&library, &addon)?;
    wasm::facade(&root.join("wasm/npm/src/facade.js"), &package.join("dist"))?;
    let types = types(&read_text(&described.path().join("decisions-node"))?)?;
    let bytes = read(&addon)?.len();
    Ok(Built {
        addon,
        bytes,
        types,
    })
}

fn this_platform() -> Result<&'static Platform, BindingsError> {
    let abi = if cfg!(target_env = "musl") {
        "musl"
    } else if cfg!(target_env = "gnu") {
        "gnu"
    } else if cfg!(target_env = "msvc") {
        "msvc"
    } else {
        ""
    };
    let here = (std::env::consts::ARCH, std::env::consts::OS, abi);
    PLATFORMS
        .iter()
        .find(|platform| platform.rust == here)
        .ok_or_else(|| BindingsError::Platform(format!("{}-{}-{}", here.0, here.1, here.2)))
}

/// One line that `napi` writes while it compiles.
#[derive(Deserialize)]
struct Described {
    kind: String,
    name: String,
    def: String,
}

/// Functions of the door itself, which are no decisions.
const OF_THE_DOOR: [&str; 3] = ["decisionNames", "maxInputBytes", "version"];

const HEAD: &str = "\
// Made from the addon's functions by `cargo xtask bindings`, which also compares. Do not edit.

import type { Decisions, DecisionsApi } from '@hangar/breakglass-decisions/node';

export * from '@hangar/breakglass-decisions/node';

/** Every decision, by the addon or by wasm. */
export declare const decisions: DecisionsApi;
/** Which build answers: the addon, or wasm where no addon fits this machine. */
export declare const host: 'native' | 'wasm';
/** Why each addon that was tried did not load; empty if the first one did. */
export declare const loadErrors: readonly Error[];

/** The functions that are compiled into the addon, from JSON text to JSON text. */
interface Addon {
";

const TAIL: &str = "\
}

type None<T extends never> = T;
/** These two do not compile where addon and decisions differ. */
type Missing = None<Exclude<keyof Decisions, keyof Addon>>;
type Unknown = None<Exclude<keyof Addon, keyof Decisions>>;
export type AddonDiffersIn = Missing | Unknown;
";

fn types(described: &str) -> Result<String, BindingsError> {
    let mut members = Vec::new();
    for line in described.lines().filter(|line| !line.trim().is_empty()) {
        let unknown = || BindingsError::AddonType(line.to_owned());
        let one: Described = serde_json::from_str(line).map_err(|_| unknown())?;
        if OF_THE_DOOR.contains(&one.name.as_str()) {
            continue;
        }
        let signature = format!("{}(input: string): string", one.name);
        if one.kind != "fn" || one.def != format!("function {signature}") {
            return Err(unknown());
        }
        members.push(format!("  {signature};\n"));
    }
    members.sort();
    Ok([HEAD, &members.concat(), TAIL].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, def: &str) -> String {
        format!("{{\"kind\":\"fn\",\"name\":\"{name}\",\"js_doc\":\"\",\"def\":\"{def}\"}}\n")
    }

    #[test]
    fn each_function_gets_the_type_of_its_decision() {
        let described = line("tierFor", "function tierFor(input: string): string")
            + &line("version", "function version(): string");
        let text = types(&described).unwrap();
        assert!(
            text.contains("  tierFor(input: string): string;\n"),
            "{text}"
        );
        assert!(!text.contains("version"), "{text}");
    }

    #[test]
    fn a_function_that_is_not_from_text_to_text_is_refused() {
        let error = types(&line("add", "function add(a: number): number"))
            .err()
            .unwrap();
        assert!(matches!(error, BindingsError::AddonType(_)), "{error}");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(this_platform().is_ok());
    }
}
