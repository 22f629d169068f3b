//! The npm packages as they are published: one per platform that was built, and the loader, whose
//! optional dependencies name them all.
//!
//! The loader's committed `package.json` names none: before the first release there are no such
//! packages, and an install in this repository must not look for them.

use super::node::{PLATFORMS, Platform};
use super::{BindingsError, file_error, read, read_text, write};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Writes the packages under `out` and says where each lies. An addon that another machine built
/// is taken along if it lies in `node-binding`, under its platform's name.
///
/// # Errors
/// A file that cannot be read or written.
pub(crate) fn pack(root: &Path, out: &Path) -> Result<Vec<PathBuf>, BindingsError> {
    let package = root.join("node-binding");
    let path = package.join("package.json");
    let manifest: Map<String, Value> = serde_json::from_str(&read_text(&path)?)
        .map_err(|cause| file_error("read", &path, cause.into()))?;

    let mut packed = Vec::new();
    let built = PLATFORMS
        .iter()
        .filter(|p| package.join(addon_file(p)).exists());
    for platform in built {
        let folder = out.join(format!("decisions-node-{}", platform.name));
        write(
            &folder.join("package.json"),
            pretty(&of_platform(&manifest, platform)),
        )?;
        write(
            &folder.join(addon_file(platform)),
            read(&package.join(addon_file(platform)))?,
        )?;
        packed.push(folder);
    }

    let folder = out.join("decisions-node");
    for file in ["index.js", "index.d.ts", "README.md", "dist/facade.cjs"] {
        write(&folder.join(file), read(&package.join(file))?)?;
    }
    write(&folder.join("package.json"), pretty(&of_loader(&manifest)))?;
    packed.push(folder);
    Ok(packed)
}

fn addon_file(platform: &Platform) -> String {
    format!("decisions.{}.node", platform.name)
}

fn name_of(manifest: &Map<String, Value>, platform: &Platform) -> String {
    let name = manifest
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!("{name}-{}", platform.name)
}

fn of_platform(manifest: &Map<String, Value>, platform: &Platform) -> Value {
    let (os, cpu, libc) = platform.npm;
    let mut made = json!({
        "name": name_of(manifest, platform),
        "description": "The native addon of @hangar/breakglass-decisions-node for one platform",
        "main": addon_file(platform),
        "files": [addon_file(platform)],
        "os": [os],
        "cpu": [cpu],
    });
    for field in [
        "version",
        "license",
        "repository",
        "engines",
        "publishConfig",
    ] {
        if let Some(value) = manifest.get(field) {
            made[field] = value.clone();
        }
    }
    if let Some(libc) = libc {
        made["libc"] = json!([libc]);
    }
    made
}

fn of_loader(manifest: &Map<String, Value>) -> Value {
    let version = manifest.get("version").cloned().unwrap_or_default();
    let optional: Map<String, Value> = PLATFORMS
        .iter()
        .map(|p| (name_of(manifest, p), version.clone()))
        .collect();
    let mut made = manifest.clone();
    made.insert("optionalDependencies".to_owned(), Value::Object(optional));
    Value::Object(made)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
