//! `breakglass policies lint` (P-5): files in, findings out.
//!
//! Invariants: links are not followed; a file that cannot be read is said and ends nothing; the
//! answer is on stdout, progress on stderr.

use super::files::{self, Format};
use crate::cli::failure::Failure;
use crate::cli::{print, say};
use clap::Args;
use policies::cel::KubernetesVersion;
use policies::lint::{Read, format, lint_telling};
use policies::model::Policy;
use policies::source::SourceError;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More files than any collection has; a folder with more was named by mistake.
const MAX_FILES: usize = 100_000;
/// Files between two words of progress.
const STEP: usize = 500;

/// What to lint, and how to say it.
#[derive(Args)]
pub(in crate::cli) struct LintOptions {
    /// Files, or folders whose .yaml, .yml and .json files are read; `-` is stdin
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How the findings are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The release of Kubernetes that the policies are for, 1.30 to 1.37
    #[arg(long, default_value = "1.34", value_parser = files::release)]
    kubernetes: KubernetesVersion,
}

/// Lints. Exit codes: 0 no error, 1 errors found, 2 a file was not read.
pub(in crate::cli) fn run(options: &LintOptions) -> Result<(), Failure> {
    let mut files = Vec::new();
    for path in &options.files {
        gather(path, &mut files)?;
    }
    let read_so_far = Progress::new("read", files.len());
    let one = |path: &PathBuf| -> Read {
        let name = path.display().to_string();
        let documents = bytes(path, &name).and_then(|bytes| Policy::parse_all(&name, &bytes));
        read_so_far.one_more(say);
        (name, documents)
    };
    let read: Vec<Read> = files.par_iter().map(one).collect();
    let judged = Progress::new("judged", files.len());
    let report = lint_telling(&read, options.kubernetes, &|| judged.one_more(say));
    print(&format(
        &report,
        match options.format {
            Format::Text => policies::lint::Format::Text,
            Format::Json => policies::lint::Format::Json,
            Format::Sarif => policies::lint::Format::Sarif,
        },
    ))?;
    match report.exit_code() {
        0 => Ok(()),
        1 => Err(Failure::Local(
            "there are errors in the policies".to_owned(),
        )),
        _ => Err(Failure::Usage(format!(
            "{} files were not read",
            report.unread.len()
        ))),
    }
}

/// Counts files, from any thread, and says a word now and then.
struct Progress {
    what: &'static str,
    done: AtomicUsize,
    of: usize,
}

impl Progress {
    fn new(what: &'static str, of: usize) -> Self {
        let done = AtomicUsize::new(0);
        Self { what, done, of }
    }

    fn one_more(&self, say: impl FnOnce(&str)) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(STEP) {
            say(&format!("{done} of {} files {}", self.of, self.what));
        }
    }
}

/// The file itself, or what lies in the folder and below it, in the order of names.
fn gather(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        if files.len() >= MAX_FILES {
            let text = format!("more than {MAX_FILES} files; name a smaller folder");
            return Err(Failure::Usage(text));
        }
        let within = match path.is_dir() {
            true => std::fs::read_dir(&path).map_err(|error| {
                Failure::Usage(format!("cannot read `{}`: {error}", path.display()))
            })?,
            false => {
                files.push(path);
                continue;
            }
        };
        let mut names: Vec<PathBuf> = within
            .flatten()
            .filter(|entry| {
                let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let file = entry.file_type().is_ok_and(|kind| kind.is_file());
                folder || file && is_policy_file(&entry.path())
            })
            .map(|entry| entry.path())
            .collect();
        names.sort();
        left.extend(names.into_iter().rev());
    }
    Ok(())
}

fn is_policy_file(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

fn bytes(path: &Path, name: &str) -> Result<Vec<u8>, SourceError> {
    files::bytes(path).map_err(|error| SourceError::Unreadable {
        file: name.to_owned(),
        what: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_now_and_then() {
        let judged = Progress::new("judged", 1_200);
        let said = std::cell::RefCell::new(Vec::new());
        for _ in 0..1_200 {
            judged.one_more(|text| said.borrow_mut().push(text.to_owned()));
        }
        let told = ["500 of 1200 files judged", "1000 of 1200 files judged"];
        assert_eq!(said.into_inner(), told);
    }

    #[test]
    fn a_folder_gives_its_policy_files_by_name_and_no_links() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["c.yaml", "a.json", "b/x.yml", "b/readme.md"] {
            std::fs::write(folder.path().join(name), "a: 1").unwrap();
        }
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        let mut files = Vec::new();
        gather(folder.path(), &mut files).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|f| f.strip_prefix(folder.path()).unwrap())
            .collect();
        assert_eq!(
            names,
            [
                Path::new("a.json"),
                Path::new("b/x.yml"),
                Path::new("c.yaml")
            ]
        );
    }
}
