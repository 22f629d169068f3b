//! `breakglass policies render`: one cluster's manifests as files (P-2).
//!
//! Invariant: only files that an earlier rendering could have written are removed, so that what
//! is no longer rendered does not stay in Git, and nothing of anybody else's goes.

use super::super::failure::Failure;
use super::super::{print, serve};
use crate::config::Config;
use clap::Args;
use policies::fence::render_fence;
use policies::render::{Rendered, render_rbac};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(in crate::cli) struct Render {
    /// The configuration file
    #[arg(long, env = "BREAKGLASS_CONFIG")]
    config: PathBuf,
    /// The cluster, as `policies.clusters` calls it
    #[arg(long)]
    cluster: String,
    /// The folder; made if it is not there
    #[arg(long)]
    out: PathBuf,
}

/// Where rendered files are, below the folder that is named.
const FOLDERS: [&str; 2] = ["", "argocd/"];

/// How every rendered file begins; a file that begins otherwise is not ours to remove.
const OURS: &str = "# Rendered by `breakglass policies render`.";

pub(super) fn run(arguments: &Render) -> Result<(), Failure> {
    let config = serve::configuration(&arguments.config)?;
    let files = manifests(&config, &arguments.cluster)?;
    let said = write(&arguments.out, &files).map_err(|(path, error)| {
        Failure::Local(format!(
            "`{}`: {error}; the rendering is not whole",
            path.display()
        ))
    })?;
    print(&said.join("\n"))
}

/// Everything that is rendered for the cluster, in the order in which it is applied.
pub(super) fn manifests(config: &Config, cluster: &str) -> Result<Vec<Rendered>, Failure> {
    let from = config
        .fence(cluster)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let mut files = render_fence(&from.fence);
    files.extend(render_rbac(&from.rbac));
    files.sort_by_key(|file| file.file_name);
    Ok(files)
}

/// Writes the files and removes what an earlier rendering left beside them; says what it did.
fn write(out: &Path, files: &[Rendered]) -> Result<Vec<String>, (PathBuf, std::io::Error)> {
    let mut said = Vec::new();
    for file in files {
        let path = out.join(file.file_name);
        let at = |error| (path.clone(), error);
        fs::create_dir_all(path.parent().unwrap_or(out)).map_err(at)?;
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            said.push(format!("same     {}", file.file_name));
            continue;
        }
        fs::write(&path, &file.text).map_err(at)?;
        said.push(format!("written  {}", file.file_name));
    }
    for folder in FOLDERS {
        remove_old(out, folder, files, &mut said)?;
    }
    Ok(said)
}

/// Removes what an earlier rendering left in this folder below `out`.
fn remove_old(
    out: &Path,
    folder: &str,
    files: &[Rendered],
    said: &mut Vec<String>,
) -> Result<(), (PathBuf, std::io::Error)> {
    let within = out.join(folder);
    let at = |error| (within.clone(), error);
    let entries = match fs::read_dir(&within) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(at)?,
    };
    for entry in entries {
        let path = entry.map_err(at)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{folder}{name}");
        let wanted = files.iter().any(|file| file.file_name == name);
        let is_ours = || fs::read_to_string(&path).is_ok_and(|text| text.starts_with(OURS));
        if !wanted && name.ends_with(".yaml") && is_ours() {
            fs::remove_file(&path).map_err(|error| (path.clone(), error))?;
            said.push(format!("removed  {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(file_name: &'static str, text: &str) -> Rendered {
        Rendered {
            file_name,
            text: format!("{OURS} {text}\n"),
        }
    }

    #[test]
    fn what_is_no_longer_rendered_goes_and_what_is_not_ours_stays() {
        let out = tempfile::tempdir().expect("a folder");
        let at = |name: &str| out.path().join(name);
        let both = [
            file("a.yaml", "1"),
            file("argocd/b.yaml", "2"),
            file("c.yaml", "3"),
        ];
        let said = write(out.path(), &both).expect("written");
        assert_eq!(
            said,
            [
                "written  a.yaml",
                "written  argocd/b.yaml",
                "written  c.yaml"
            ]
        );
        fs::write(at("own.yaml"), "kind: ConfigMap\n").expect("written");
        let said = write(out.path(), &both[..2]).expect("written");
        assert_eq!(
            said,
            [
                "same     a.yaml",
                "same     argocd/b.yaml",
                "removed  c.yaml"
            ]
        );
        assert!(at("own.yaml").exists() && !at("c.yaml").exists());
        assert_eq!(
            fs::read_to_string(at("argocd/b.yaml")).expect("a file"),
            both[1].text
        );
    }

    #[test]
    fn the_application_goes_when_argo_cd_is_configured_no_longer() {
        let out = tempfile::tempdir().expect("a folder");
        let at = |name: &str| out.path().join(name);
        let both = [file("a.yaml", "1"), file("argocd/application.yaml", "2")];
        write(out.path(), &both).expect("written");
        fs::write(at("argocd/own.yaml"), "kind: Application\n").expect("written");
        let said = write(out.path(), &both[..1]).expect("written");
        assert_eq!(
            said,
            ["same     a.yaml", "removed  argocd/application.yaml"]
        );
        assert!(at("argocd/own.yaml").exists() && !at("argocd/application.yaml").exists());
    }

    /// A name in one folder is not wanted in the other.
    #[test]
    fn a_file_that_is_rendered_elsewhere_is_not_kept() {
        let out = tempfile::tempdir().expect("a folder");
        write(out.path(), &[file("argocd/a.yaml", "1")]).expect("written");
        let said = write(out.path(), &[file("a.yaml", "1")]).expect("written");
        assert_eq!(said, ["written  a.yaml", "removed  argocd/a.yaml"]);
    }
}
