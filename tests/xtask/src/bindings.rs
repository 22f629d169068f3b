//! Builds every binding of the decisions: types, wasm for browsers and Node, the native addon.
//!
//! Invariants: what is committed (`wasm/npm/types`, `node-binding/index.d.ts`) is exactly what the
//! Rust code gives; the wasm imports nothing but its own glue; what a page loads stays under its
//! limit; the crate's direct dependencies are those listed in `docs/allowed-dependencies.txt`.
//!
//! Everything else lands in ignored folders: `wasm/npm/dist`, `node-binding/dist` and
//! `node-binding/*.node`.

mod cargo;
mod node;
mod pack;
mod purity;
mod wasm;

use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use pack::pack;
use wasm::MAX_GZIP_BYTES;

/// Committed, and made by the decisions' own test from the Rust types.
const TYPES: &str = "wasm/npm/types/decisions.d.ts";
/// Committed, and made from what `napi` says of the addon.
const NODE_TYPES: &str = "node-binding/index.d.ts";

/// Why the bindings could not be built, or are not what they must be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindingsError {
    /// A file could not be read or written.
    #[error("`{}` could not be {verb}", path.display())]
    File {
        /// What was being done.
        verb: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// Cargo could not be started.
    #[error("cargo could not be started for: {command}")]
    Start {
        /// The command's arguments.
        command: String,
        /// The system's reason.
        #[source]
        cause: std::io::Error,
    },
    /// Cargo ran and failed; it has printed why.
    #[error("this failed, its output says why: cargo {command}")]
    Cargo {
        /// The command's arguments.
        command: String,
    },
    /// Cargo said that it built something else than what is needed.
    #[error("cargo built no `{wanted}`")]
    NoArtifact {
        /// The kind of file.
        wanted: &'static str,
    },
    /// wasm-bindgen refused the module.
    #[error("wasm-bindgen could not make the `{kind}` glue: {why}")]
    Glue {
        /// The kind of glue.
        kind: &'static str,
        /// Its reason.
        why: String,
    },
    /// The module does not parse.
    #[error("the wasm module cannot be read: {0}")]
    Module(#[from] wasmparser::BinaryReaderError),
    /// A clock, a random source or the browser got into the decisions.
    #[error(
        "the wasm module imports {}: a decision may not reach outside; remove what calls it",
        .0.join(", ")
    )]
    Imports(Vec<String>),
    /// The decisions' dependencies changed.
    #[error(
        "the decisions depend on [{found}], and {list} allows [{allowed}]: remove the dependency, \
         or add it to the list with its reason in the commit"
    )]
    Dependencies {
        /// What cargo says.
        found: String,
        /// What the list says.
        allowed: String,
        /// The list's path.
        list: &'static str,
    },
    /// Too large for a page that loads it before it shows a form.
    #[error("a page would load {bytes} bytes in gzip, and {MAX_GZIP_BYTES} are the limit")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// What is committed is not what the Rust code gives.
    #[error("`{path}` is not what the Rust code gives: run `cargo xtask bindings` and commit it")]
    Stale {
        /// The committed file.
        path: &'static str,
    },
    /// `napi` described a function in a way that this file does not know.
    #[error("the addon's type `{0}` is not a function from text to text")]
    AddonType(String),
    /// No napi name is known for the machine that this runs on.
    #[error("there is no package name for `{0}`: add it to the table in bindings/node.rs")]
    Platform(String),
}

/// What was built, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    /// The module that is shipped, in bytes.
    pub(crate) wasm_bytes: usize,
    /// The same in gzip.
    pub(crate) wasm_gzip_bytes: usize,
    /// What a page loads, in gzip: the module and all that it needs.
    pub(crate) loaded_gzip_bytes: usize,
    /// The addon for this machine, in bytes.
    pub(crate) addon_bytes: usize,
    /// The addon's file.
    pub(crate) addon: PathBuf,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "wasm {} bytes, {} in gzip; a page loads {} in gzip (limit {MAX_GZIP_BYTES}); addon {} \
             bytes ({})",
            self.wasm_bytes,
            self.wasm_gzip_bytes,
            self.loaded_gzip_bytes,
            self.addon_bytes,
            self.addon.display()
        )
    }
}

/// Builds everything and writes the committed files anew. `root` is the repository's root.
///
/// # Errors
/// Whatever cannot be built, or breaks one of the rules at the top of this file.
pub(crate) fn build(root: &Path) -> Result<Report, BindingsError> {
    purity::dependencies(root)?;
    cargo::types(root, cargo::Types::Write)?;
    let wasm = wasm::build(root)?;
    let node = node::build(root)?;
    write(&root.join(NODE_TYPES), &node.types)?;
    Ok(report(&wasm, node))
}

/// Builds Node's addon alone: what the Backstage plugin loads.
///
/// # Errors
/// It cannot be built.
pub(crate) fn addon(root: &Path) -> Result<PathBuf, BindingsError> {
    Ok(node::build(root)?.addon)
}

/// Builds the wasm alone, with the glue of each host: what browsers and Node's tests load.
///
/// # Errors
/// It cannot be built, or is not what it must be.
pub(crate) fn wasm(root: &Path) -> Result<(), BindingsError> {
    wasm::build(root).map(|_| ())
}

/// Builds everything and compares the committed files with what the Rust code gives.
///
/// # Errors
/// As `build`, and `Stale` for a committed file that differs; nothing committed is written.
pub(crate) fn check(root: &Path) -> Result<Report, BindingsError> {
    purity::dependencies(root)?;
    cargo::types(root, cargo::Types::Compare).map_err(|error| stale_if_cargo(error, TYPES))?;
    let wasm = wasm::build(root)?;
    let node = node::build(root)?;
    let committed = read_text(&root.join(NODE_TYPES))?;
    if committed != node.types {
        return Err(BindingsError::Stale { path: NODE_TYPES });
    }
    Ok(report(&wasm, node))
}

/// A failed comparison is a failed test to cargo; a test that does not compile has said so.
fn stale_if_cargo(error: BindingsError, path: &'static str) -> BindingsError {
    if matches!(error, BindingsError::Cargo { .. }) {
        BindingsError::Stale { path }
    } else {
        error
    }
}

fn report(wasm: &wasm::Built, node: node::Built) -> Report {
    Report {
        wasm_bytes: wasm.bytes,
        wasm_gzip_bytes: wasm.module_gzip_bytes,
        loaded_gzip_bytes: wasm.loaded_gzip_bytes,
        addon_bytes: node.bytes,
        addon: node.addon,
    }
}

fn file_error(verb: &'static str, path: &Path, cause: std::io::Error) -> BindingsError {
    BindingsError::File {
        verb,
        path: path.to_owned(),
        cause,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BindingsError> {
    std::fs::read(path).map_err(|cause| file_error("read", path, cause))
}

fn read_text(path: &Path) -> Result<String, BindingsError> {
    std::fs::read_to_string(path).map_err(|cause| file_error("read", path, cause))
}

/// Writes a file and the folders above it.
fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), BindingsError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|cause| file_error("made", folder, cause))?;
    }
    std::fs::write(path, content).map_err(|cause| file_error("written", path, cause))
}

/// Copies by a new file, so that a process which has the old one loaded keeps it whole.
fn replace(from: &Path, to: &Path) -> Result<(), BindingsError> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    write(&beside, read(from)?)?;
    std::fs::rename(&beside, to).map_err(|cause| file_error("written", to, cause))
}
