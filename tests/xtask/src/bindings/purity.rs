//! That the decisions reach nothing outside themselves, proved by what they import and depend on.

use super::{BindingsError, cargo, read_text};
use std::collections::BTreeSet;
use std::path::Path;
use wasmparser::{Parser, Payload};

/// One crate name per line; lines that begin with `#` are comments.
const LIST: &str = "docs/allowed-dependencies.txt";

/// The crate's direct dependencies, on every target, are exactly those that the list allows.
pub(super) fn dependencies(root: &Path) -> Result<(), BindingsError> {
    let printed = cargo::output(
        root,
        &[
            "tree",
            "-p",
            "decisions",
            "-e",
            "normal",
            "--depth",
            "1",
            "--target",
            "all",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ],
    )?;
    let name = |line: &str| {
        line.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let found: BTreeSet<String> = printed.lines().skip(1).map(name).collect();
    let allowed: BTreeSet<String> = read_text(&root.join(LIST))?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(name)
        .filter(|name| !name.is_empty())
        .collect();
    if found == allowed {
        return Ok(());
    }
    let text = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    Err(BindingsError::Dependencies {
        found: text(found),
        allowed: text(allowed),
        list: LIST,
    })
}

/// wasm-bindgen's own bookkeeping, in a module that it has not processed yet. An imported
/// JavaScript function (`Date.now`, `crypto.getRandomValues`) is in the first one too, but under
/// the name `__wbg_…`.
const OWN_MODULES: [&str; 2] = ["__wbindgen_placeholder__", "__wbindgen_externref_xform__"];
const OWN_NAMES: &str = "__wbindgen_";

/// The module as the compiler made it imports wasm-bindgen's bookkeeping and nothing else.
pub(super) fn imports(module: &[u8]) -> Result<(), BindingsError> {
    let mut foreign = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(section) = payload? {
            for import in section.into_imports() {
                let import = import?;
                let own =
                    OWN_MODULES.contains(&import.module) && import.name.starts_with(OWN_NAMES);
                if !own {
                    foreign.push(format!("`{}` from `{}`", import.name, import.module));
                }
            }
        }
    }
    if foreign.is_empty() {
        Ok(())
    } else {
        Err(BindingsError::Imports(foreign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with one import: a function of type 0, no parameters and no result.
    fn importing(module: &str, name: &str) -> Vec<u8> {
        let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        let import = [vec![1], text(module), text(name), vec![0, 0]].concat();
        [
            b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02".to_vec(),
            vec![import.len() as u8],
            import,
        ]
        .concat()
    }

    #[test]
    fn a_module_that_imports_its_own_glue_is_pure() {
        imports(b"\0asm\x01\0\0\0").unwrap();
        imports(&importing(
            "__wbindgen_placeholder__",
            "__wbindgen_describe",
        ))
        .unwrap();
    }

    #[test]
    fn a_module_that_imports_anything_else_is_refused() {
        for (module, name) in [
            ("env", "now"),
            ("wasi_snapshot_preview1", "random_get"),
            ("__wbindgen_placeholder__", "__wbg_now_807e54c39636c349"),
        ] {
            let error = imports(&importing(module, name)).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(matches!(
            imports(b"<html>").unwrap_err(),
            BindingsError::Module(_)
        ));
    }
}
