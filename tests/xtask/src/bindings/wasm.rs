//! The wasm modules and their glue for each kind of host, in `wasm/npm/dist`: Node's with every
//! decision, the browser's with those that a form asks for.
//!
//! Invariant: generated code is never edited as text; what a host needs beside the glue is written
//! by hand in `wasm/npm` and put beside it whole.

use super::{BindingsError, cargo, file_error, purity, read, read_text, write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use wasm_bindgen_cli_support::Bindgen;

/// The most that the module may weigh in gzip (B-11), in bytes.
pub(crate) const MAX_GZIP_BYTES: usize = 60_000;

/// What was built.
pub(super) struct Built {
    pub(super) bytes: usize,
    pub(super) gzip_bytes: usize,
}

/// A kind of glue, which is also its folder's name.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Nodejs,
    Web,
    Bundler,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Nodejs => "nodejs",
            Self::Web => "web",
            Self::Bundler => "bundler",
        }
    }

    /// What the folder's `.js` files are to Node.
    fn module_type(self) -> &'static str {
        match self {
            Self::Nodejs => "commonjs",
            Self::Web | Self::Bundler => "module",
        }
    }
}

const NAME: &str = "decisions";

/// Builds both modules and everything in `wasm/npm/dist`; checks their imports, and the size of
/// the one that pages load.
pub(super) fn build(root: &Path) -> Result<Built, BindingsError> {
    let package = root.join("wasm/npm");
    let dist = package.join("dist");
    if dist.exists() {
        std::fs::remove_dir_all(&dist).map_err(|cause| file_error("emptied", &dist, cause))?;
    }
    // Both have one path, so each is used before the next is built.
    let full = compile(root, &[])?;
    glue(&full, &dist, Kind::Nodejs)?;
    let form = compile(root, &["--no-default-features"])?;
    for kind in [Kind::Web, Kind::Bundler] {
        glue(&form, &dist, kind)?;
    }
    let shipped = read(&dist.join("bundler/decisions_bg.wasm"))?;
    facade(&package.join("src/facade.js"), &dist)?;
    inline(&shipped, &dist)?;

    let gzip_bytes = gzip_length(&shipped);
    if gzip_bytes > MAX_GZIP_BYTES {
        return Err(BindingsError::TooLarge { bytes: gzip_bytes });
    }
    Ok(Built {
        bytes: shipped.len(),
        gzip_bytes,
    })
}

/// Compiles the module and proves that it imports nothing.
fn compile(root: &Path, features: &[&str]) -> Result<PathBuf, BindingsError> {
    let mut arguments = vec![
        "-p",
        "decisions",
        "--lib",
        "--target",
        "wasm32-unknown-unknown",
        "--profile",
        "wasm",
    ];
    arguments.extend_from_slice(features);
    let wanted = cargo::Wanted {
        library: NAME,
        endings: &["wasm"],
        described: None,
    };
    let module = cargo::build(root, &arguments, &wanted)?;
    purity::imports(&read(&module)?)?;
    Ok(module)
}

fn glue(module: &Path, dist: &Path, kind: Kind) -> Result<(), BindingsError> {
    let folder = dist.join(kind.folder());
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .out_name(NAME)
        .typescript(false) // the types come from the Rust types, not from `string`
        .remove_name_section(true)
        .remove_producers_section(true);
    let switched = match kind {
        Kind::Nodejs => bindgen.nodejs(true),
        Kind::Web => bindgen.web(true),
        Kind::Bundler => bindgen.bundler(true),
    };
    switched
        .and_then(|bindgen| bindgen.generate(&folder))
        .map_err(|why| BindingsError::Glue {
            kind: kind.folder(),
            why: format!("{why:#}"),
        })?;
    let manifest = format!("{{\"type\":\"{}\"}}\n", kind.module_type());
    write(&folder.join("package.json"), manifest)
}

/// The façade is written once, without a module system, and gets one line for each.
pub(super) fn facade(source: &Path, dist: &Path) -> Result<(), BindingsError> {
    let body = read_text(source)?;
    write(
        &dist.join("facade.cjs"),
        format!("{body}\nmodule.exports = {{ {FACADE} }};\n"),
    )?;
    write(
        &dist.join("facade.mjs"),
        format!("{body}\nexport {{ {FACADE} }};\n"),
    )
}

const FACADE: &str = "DecisionInputError, bind";

/// The module as text, in a file of its own that bundlers cache and that loads on demand.
fn inline(module: &[u8], dist: &Path) -> Result<(), BindingsError> {
    let text = STANDARD.encode(module);
    write(
        &dist.join("inline/bytes.mjs"),
        format!("export const base64 = \"{text}\";\n"),
    )
}

/// The length in gzip at its highest level, as a web server would send it.
fn gzip_length(bytes: &[u8]) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // A Vec takes everything.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.map_or(usize::MAX, |compressed| compressed.len())
}
