//! Recordings in a folder, for the demo and for development: port `Recordings`.
//!
//! Invariants: each put is a new version, complete and durable before it has its name; no version
//! is ever overwritten or deleted; a key cannot leave the folder.
//! Layout: `<root>/<key>/<version>` and beside it `<version>.json` with hash, size and type.

use crate::ports::recordings::{Content, Location, Reading, RecordingError, Recordings};
use async_trait::async_trait;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// What a recording is served as.
pub const CONTENT_TYPE: &str = "application/x-asciicast";

/// Recordings in a folder of this machine.
#[derive(Debug, Clone)]
pub struct FolderRecordings {
    root: Arc<PathBuf>,
    name: Arc<str>,
}

/// What a version says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    sha256: String,
    bytes: u64,
    content_type: String,
}

impl FolderRecordings {
    /// Keeps recordings under `root`, which is made when it is first needed; rows call it the
    /// bucket `name`.
    pub fn new(root: PathBuf, name: &str) -> Self {
        Self {
            root: Arc::new(root),
            name: name.into(),
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, RecordingError> + Send + 'static,
    ) -> Result<T, RecordingError> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&this)).await;
        done.map_err(|error| away("the folder was not used", io::Error::other(error)))?
    }

    fn folder(&self, key: &str) -> Result<PathBuf, RecordingError> {
        if !is_key(key) {
            let why = "a key is 1 to 8 names of letters, digits, `.`, `-` and `_`";
            return Err(away(
                "the key is refused",
                io::Error::new(ErrorKind::InvalidInput, why),
            ));
        }
        Ok(self.root.join(key))
    }

    fn save(&self, key: &str, content: &Content, sha256: &str) -> Result<Location, RecordingError> {
        let folder = self.folder(key)?;
        let away = |source| away("the folder cannot be written", source);
        make_dir(&folder).map_err(away)?;
        let temporary = Temporary::create(&folder).map_err(away)?;
        let (bytes, hash) = copy(content, &temporary.file).map_err(away)?;
        if hash != sha256 {
            return Err(RecordingError::Damaged);
        }
        temporary.file.sync_all().map_err(away)?;
        let version = self.name_it(&folder, &temporary).map_err(away)?;
        let facts = Facts {
            sha256: hash,
            bytes,
            content_type: CONTENT_TYPE.to_owned(),
        };
        write_facts(&folder, &version, &facts).map_err(away)?;
        sync_up(&folder, &self.root).map_err(away)?;
        Ok(Location {
            key: key.to_owned(),
            bucket: self.name.to_string(),
            version,
        })
    }

    /// Gives the complete file the next free number. A link never replaces a file, so of two
    /// writers one takes the number after.
    fn name_it(&self, folder: &Path, temporary: &Temporary) -> io::Result<String> {
        let mut next = newest(folder)? + 1;
        loop {
            let version = format!("{next:010}");
            match std::fs::hard_link(&temporary.path, folder.join(&version)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => next += 1,
                linked => return linked.map(|()| version),
            }
        }
    }

    fn open(&self, location: &Location) -> Result<(File, Facts), RecordingError> {
        let is_version = location.version.len() == 10
            && location.version.bytes().all(|byte| byte.is_ascii_digit());
        if location.bucket != *self.name || !is_version {
            return Err(RecordingError::NotFound);
        }
        let folder = self.folder(&location.key)?;
        let read = |name: &str| match File::open(folder.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(RecordingError::NotFound),
            opened => opened.map_err(|source| away("the folder cannot be read", source)),
        };
        let file = read(&location.version)?;
        let facts = read(&format!("{}.json", location.version))?;
        let facts: Facts =
            serde_json::from_reader(facts.take(4096)).map_err(|_| RecordingError::Damaged)?;
        let size = file
            .metadata()
            .map_err(|source| away("the folder cannot be read", source))?;
        if size.len() != facts.bytes {
            return Err(RecordingError::Damaged);
        }
        Ok((file, facts))
    }

    /// Writes, reads back and removes a file that is no recording.
    fn probe(&self) -> Result<(), RecordingError> {
        let away = |source| away("the folder cannot be used", source);
        make_dir(&self.root).map_err(away)?;
        let probe = Temporary::create(&self.root).map_err(away)?;
        (&probe.file).write_all(b"probe").map_err(away)?;
        probe.file.sync_all().map_err(away)?;
        let read = std::fs::read(&probe.path).map_err(away)?;
        if read == b"probe" {
            Ok(())
        } else {
            Err(RecordingError::Damaged)
        }
    }
}

#[async_trait]
impl Recordings for FolderRecordings {
    async fn put(
        &self,
        key: &str,
        content: Content,
        sha256: &str,
    ) -> Result<Location, RecordingError> {
        let (key, sha256) = (key.to_owned(), sha256.to_owned());
        self.blocking(move |this| this.save(&key, &content, &sha256))
            .await
    }

    async fn get(&self, location: &Location) -> Result<Reading, RecordingError> {
        let location = location.clone();
        let (file, facts) = self.blocking(move |this| this.open(&location)).await?;
        // The version's own size: what a reader was promised is what it gets.
        let file = tokio::fs::File::from_std(file).take(facts.bytes);
        let stream = ReaderStream::with_capacity(file, 64 * 1024);
        let stream = stream
            .map(|read| read.map_err(|source| away("the folder cannot be read", source)))
            .boxed();
        Ok(Reading {
            bytes: facts.bytes,
            stream,
        })
    }

    async fn check(&self) -> Result<(), RecordingError> {
        self.blocking(Self::probe).await
    }
}

fn away(why: &str, source: io::Error) -> RecordingError {
    RecordingError::Unavailable {
        why: format!("{why}: {source}"),
        source: Some(source),
    }
}

fn is_key(key: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 128
            && !name.starts_with('.')
            && name
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || b".-_".contains(&it))
    };
    key.split('/').count() <= 8 && key.split('/').all(is_name)
}

/// The highest version number in the folder; zero in an empty one.
fn newest(folder: &Path) -> io::Result<u64> {
    let mut newest = 0;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .filter(|name| name.len() == 10)
            .and_then(|it| it.parse().ok());
        newest = newest.max(number.unwrap_or(0));
    }
    Ok(newest)
}

/// Copies and hashes; a file is read up to `len` bytes and must have them.
fn copy(content: &Content, mut to: &File) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let bytes = match content {
        Content::Bytes(bytes) => {
            hash.update(bytes);
            to.write_all(bytes)?;
            bytes.len() as u64
        }
        Content::File { path, len } => {
            let mut from = File::open(path)?.take(*len);
            let mut block = vec![0; 64 * 1024];
            loop {
                let read = match from.read(&mut block) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    read => read?,
                };
                if read == 0 {
                    break len - from.limit();
                }
                hash.update(&block[..read]);
                to.write_all(&block[..read])?;
            }
        }
    };
    Ok((bytes, crate::recording::spool::hex(&hash.finalize())))
}

fn write_facts(folder: &Path, version: &str, facts: &Facts) -> io::Result<()> {
    let path = folder.join(format!("{version}.json"));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .open(path)?;
    file.write_all(&serde_json::to_vec(facts)?)?;
    file.sync_all()
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Makes the names durable, from the new file's folder up to the root.
fn sync_up(folder: &Path, root: &Path) -> io::Result<()> {
    let mut inside = folder.ancestors().take_while(|dir| dir.starts_with(root));
    inside.try_for_each(crate::recording::spool::sync_dir)
}

/// A file that is deleted when it goes out of scope; a version that was linked to it stays.
struct Temporary {
    file: File,
    path: PathBuf,
}

impl Temporary {
    fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!(".{:016x}", rand::random::<u64>()));
        // A version is read-only from its first moment; the open file can still be written.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)?;
        Ok(Self { file, path })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // At worst a hidden file stays, which no version is read from.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
