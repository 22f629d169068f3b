//! The wasm module and its glue for each kind of host, in `wasm/npm/dist`.
//!
//! Invariants: generated code is never edited as text; what a host needs beside the glue is written
//! by hand in `wasm/npm` and put beside it whole. What a page loads stays under its limit,
//! whichever entry it takes: the module, its glue and what is written by hand, each in gzip.

use super::{BindingsError, cargo, file_error, purity, read, read_text, write};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use wasm_bindgen_cli_support::Bindgen;

/// The most that a page may load (B-11), in bytes of gzip.
pub(crate) const MAX_GZIP_BYTES: usize = 60_000;

/// What was built.
pub(super) struct Built {
    pub(super) bytes: usize,
    pub(super) module_gzip_bytes: usize,
    /// What a page loads for the heaviest entry.
    pub(super) loaded_gzip_bytes: usize,
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

/// What a page loads for each of the browser's entries, below `wasm/npm`.
const LOADED: [&[&str]; 3] = [
    &[
        "web.mjs",
        "dist/facade.mjs",
        "dist/web/decisions.js",
        "dist/web/decisions_bg.wasm",
    ],
    &[
        "bundler.mjs",
        "dist/facade.mjs",
        "dist/bundler/decisions.js",
        "dist/bundler/decisions_bg.js",
        "dist/bundler/decisions_bg.wasm",
    ],
    &[
        "inline.mjs",
        "dist/facade.mjs",
        "dist/inline/bytes.mjs",
        "dist/bundler/decisions_bg.js",
    ],
];

/// Builds everything in `wasm/npm/dist`; checks what the module imports and what pages load.
pub(super) fn build(root: &Path) -> Result<Built, BindingsError> {
    let package = root.join("wasm/npm");
    let dist = package.join("dist");
    if dist.exists() {
        std::fs::remove_dir_all(&dist).map_err(|cause| file_error("emptied", &dist, cause))?;
    }
    let module = compile(root)?;
    for kind in [Kind::Nodejs, Kind::Web, Kind::Bundler] {
        glue(&module, &dist, kind)?;
    }
    let shipped = read(&dist.join("bundler/decisions_bg.wasm"))?;
    facade(&package.join("src/facade.js"), &dist)?;
    inline(&shipped, &dist)?;

    let mut heaviest = 0;
    for files in LOADED {
        let bytes = loaded(&package, files)?;
        if bytes > MAX_GZIP_BYTES {
            return Err(BindingsError::TooLarge { bytes });
        }
        heaviest = heaviest.max(bytes);
    }
    Ok(Built {
        bytes: shipped.len(),
        module_gzip_bytes: gzip(&shipped).len(),
        loaded_gzip_bytes: heaviest,
    })
}

/// What travels for these files, each on its own.
fn loaded(package: &Path, files: &[&str]) -> Result<usize, BindingsError> {
    let mut bytes = 0;
    for file in files {
        bytes += gzip(&read(&package.join(file))?).len();
    }
    Ok(bytes)
}

/// Compiles the module and proves that it imports nothing.
fn compile(root: &Path) -> Result<PathBuf, BindingsError> {
    let arguments = [
        "-p",
        "decisions",
        "--lib",
        "--target",
        "wasm32-unknown-unknown",
        "--profile",
        "wasm",
    ];
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

/// The module in gzip as text, in a file of its own that bundlers cache and that loads on demand.
fn inline(module: &[u8], dist: &Path) -> Result<(), BindingsError> {
    let text = STANDARD.encode(gzip(module));
    write(
        &dist.join("inline/bytes.mjs"),
        format!("export const base64 = \"{text}\";\n"),
    )
}

/// In gzip at its highest level, as a web server would send it.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // A Vec takes everything.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}
