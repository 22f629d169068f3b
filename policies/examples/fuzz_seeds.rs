//! Writes where `cargo xtask fuzz` begins: `fuzz_seeds FOLDERS-OF-POLICIES… OUT`.
//!
//! Invariant: every document goes to `OUT/files`; every expression of a policy, and every file that
//! ends in `.cel`, goes to `OUT/engine`.

use policies::model::{Document, Policy};
use std::io::Error;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let mut folders: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let out = folders
        .pop()
        .ok_or_else(|| Error::other("a folder is wanted last"))?;
    let mut seeds = Seeds { out, written: 0 };
    for folder in &folders {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let bytes = std::fs::read(&path)?;
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("cel") => seeds.write("engine", &bytes)?,
                Some("yaml") => seeds.policies(&path, &bytes)?,
                _ => {}
            }
        }
    }
    Ok(())
}

struct Seeds {
    out: PathBuf,
    written: usize,
}

impl Seeds {
    fn policies(&mut self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        self.write("files", bytes)?;
        for document in String::from_utf8_lossy(bytes).split("\n---\n") {
            self.write("files", document.as_bytes())?;
        }
        let name = path.display().to_string();
        for document in Policy::parse_all(&name, bytes).unwrap_or_default() {
            let Document::Policy(policy) = document else {
                continue;
            };
            for (_, text) in policy.expressions() {
                self.write("engine", text.value.as_bytes())?;
            }
        }
        Ok(())
    }

    fn write(&mut self, kind: &str, bytes: &[u8]) -> std::io::Result<()> {
        let folder = self.out.join(kind);
        std::fs::create_dir_all(&folder)?;
        self.written += 1;
        std::fs::write(folder.join(format!("{:05}", self.written)), bytes)
    }
}
