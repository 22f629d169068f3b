//! What several of the commands are given: files of policies and cases, and a release.
//!
//! Invariant: no more of a file is read than one is taken to have.

use policies::cel::KubernetesVersion;
use policies::eval::Case;
use policies::model::{Document, Policy, PolicyKind};
use policies::source::limits;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The release that an argument names.
pub(super) fn release(text: &str) -> Result<KubernetesVersion, String> {
    text.strip_prefix("1.")
        .and_then(|minor| minor.parse().ok())
        .and_then(KubernetesVersion::new)
        .ok_or_else(|| "a release from 1.30 to 1.37 is wanted".to_owned())
}

/// A file's name and content, or one byte more than is taken; `-` is stdin.
pub(super) fn read(path: &Path) -> Result<(String, Vec<u8>), String> {
    let name = path.display().to_string();
    let failed = |error: std::io::Error| format!("cannot read `{name}`: {error}");
    let mut source: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut bytes = Vec::new();
    let most = limits::BYTES as u64 + 1;
    source
        .by_ref()
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok((name, bytes))
}

/// Every object of the files.
pub(super) fn documents(paths: &[PathBuf]) -> Result<Vec<Document>, String> {
    let mut documents = Vec::new();
    for path in paths {
        let (name, bytes) = read(path)?;
        let parsed = Policy::parse_all(&name, &bytes).map_err(|error| error.to_string())?;
        documents.extend(parsed);
    }
    Ok(documents)
}

/// The policies of the files that expressions alone decide, and the names of the others.
pub(super) fn policies(paths: &[PathBuf]) -> Result<(Vec<Policy>, Vec<String>), String> {
    let (mut judged, mut others) = (Vec::new(), Vec::new());
    for document in documents(paths)? {
        let Document::Policy(policy) = document else {
            continue;
        };
        match policy.kind {
            PolicyKind::ValidatingAdmissionPolicy | PolicyKind::KyvernoValidatingPolicy => {
                judged.push(*policy);
            }
            PolicyKind::ImageValidatingPolicy | PolicyKind::WebhookConfiguration => {
                others.push(policy.name.value);
            }
        }
    }
    match judged.is_empty() {
        true => Err("there is no policy in these files that expressions alone decide".to_owned()),
        false => Ok((judged, others)),
    }
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
}
