//! What several of the commands are given: files of policies and cases, a release, a format.
//!
//! Invariant: no more of a file is read than one is taken to have.

use crate::cli::say;
use clap::{Args, ValueEnum};
use policies::cel::KubernetesVersion;
use policies::eval::Case;
use policies::model::{Document, Policy, PolicyKind};
use policies::sarif::Sources;
use policies::source::limits;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Policies, and the cases on which they are tried.
#[derive(Args)]
pub(super) struct Tried {
    /// Files of policies; other objects in them are left out
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    policy: Vec<PathBuf>,
    /// Files of cases: requests, and which policy refuses them in which words
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    cases: Vec<PathBuf>,
    /// The release of Kubernetes whose expressions are meant, from 1.30 to 1.37
    #[arg(long, default_value = "1.34", value_parser = release)]
    pub(super) kubernetes: KubernetesVersion,
}

impl Tried {
    /// The policies that expressions alone decide, and the cases. What is left out is said.
    pub(super) fn read(&self) -> Result<(Policies, Vec<Case>), String> {
        let kinds = [
            PolicyKind::ValidatingAdmissionPolicy,
            PolicyKind::KyvernoValidatingPolicy,
        ];
        let policies = Policies::of(&documents(&self.policy)?, &kinds)?;
        Ok((policies, cases(&self.cases)?))
    }
}

/// Policies that expressions alone decide, each with its file.
pub(super) struct Policies {
    /// The policies.
    pub(super) all: Vec<Policy>,
    files: Vec<String>,
}

impl Policies {
    /// Those of these kinds. What is left out is said.
    pub(super) fn of(documents: &[Named], kinds: &[PolicyKind]) -> Result<Self, String> {
        let meant: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        let meant = meant.join(" or ");
        let (mut all, mut files) = (Vec::new(), Vec::new());
        for (file, document) in documents {
            let Document::Policy(policy) = document else {
                continue;
            };
            if kinds.contains(&policy.kind) {
                all.push(Policy::clone(policy));
                files.push(file.clone());
            } else {
                let Policy { name, kind, .. } = &**policy;
                say(&format!(
                    "`{}` is left out: it is no {meant}, but of the kind {kind}",
                    name.value
                ));
            }
        }
        match all.is_empty() {
            true => Err(format!("there is no {meant} in these files")),
            false => Ok(Self { all, files }),
        }
    }

    /// Where they stand.
    pub(super) fn sources(&self) -> Sources<'_> {
        let files = self.files.iter().map(String::as_str);
        files.zip(&self.all).collect()
    }
}

/// How an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

/// The release that an argument names.
pub(super) fn release(text: &str) -> Result<KubernetesVersion, String> {
    text.strip_prefix("1.")
        .and_then(|minor| minor.parse().ok())
        .and_then(KubernetesVersion::new)
        .ok_or_else(|| "a release from 1.30 to 1.37 is wanted".to_owned())
}

/// A file's content, or one byte more than is taken; `-` is stdin.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path)?),
    };
    let mut bytes = Vec::new();
    let most = limits::BYTES as u64 + 1;
    source.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's name and content.
pub(super) fn read(path: &Path) -> Result<(String, Vec<u8>), String> {
    let name = path.display().to_string();
    let bytes = bytes(path).map_err(|error| format!("cannot read `{name}`: {error}"))?;
    Ok((name, bytes))
}

/// An object, with its file.
pub(super) type Named = (String, Document);

/// Every object of the files.
pub(super) fn documents(paths: &[PathBuf]) -> Result<Vec<Named>, String> {
    let mut documents = Vec::new();
    for path in paths {
        let (name, bytes) = read(path)?;
        let parsed = Policy::parse_all(&name, &bytes).map_err(|error| error.to_string())?;
        documents.extend(parsed.into_iter().map(|one| (name.clone(), one)));
    }
    Ok(documents)
}

/// The cases of the files.
pub(super) fn cases(paths: &[PathBuf]) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for path in paths {
        let (name, bytes) = read(path)?;
        cases.extend(Case::parse_all(&name, &bytes).map_err(|error| error.to_string())?);
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_one_whose_expressions_are_known() {
        assert_eq!(release("1.34").map(KubernetesVersion::minor), Ok(34));
        for text in ["1.29", "1.38", "1", "34", "1.x", "v1.34", ""] {
            assert!(release(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_more_of_a_file_is_read_than_tells_that_it_is_too_large() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(limits::BYTES as u64 + 9).unwrap();
        assert_eq!(bytes(file.path()).unwrap().len(), limits::BYTES + 1);
        assert!(bytes(Path::new("/nowhere")).is_err());
    }
}
