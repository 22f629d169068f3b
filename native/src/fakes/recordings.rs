//! Recordings in memory, with a switch to be away; and what every adapter of the port must do.

use crate::ports::recordings::{Content, Location, Reading, RecordingError, Recordings};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bucket that the fake answers with.
pub const BUCKET: &str = "fake";

/// Recordings in memory.
#[derive(Debug, Default)]
pub struct FakeRecordings {
    versions: Mutex<BTreeMap<String, Vec<Bytes>>>,
    away: AtomicBool,
    puts: AtomicU64,
}

impl FakeRecordings {
    /// An empty store that answers.
    pub fn new() -> Self {
        Self::default()
    }

    /// From here on the store is away, or back.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often something was put, whether or not it worked.
    pub fn puts(&self) -> u64 {
        self.puts.load(Ordering::SeqCst)
    }

    /// Every version of a key, oldest first.
    pub fn versions(&self, key: &str) -> Vec<Bytes> {
        self.map().get(key).cloned().unwrap_or_default()
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Bytes>>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> Result<(), RecordingError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(unavailable(None));
        }
        Ok(())
    }
}

fn unavailable(source: Option<io::Error>) -> RecordingError {
    RecordingError::Unavailable {
        why: "the fake store is away".to_owned(),
        source,
    }
}

fn read(content: &Content) -> io::Result<Bytes> {
    match content {
        Content::Bytes(bytes) => Ok(bytes.clone()),
        Content::File { path, len } => {
            let mut bytes = Vec::new();
            File::open(path)?.take(*len).read_to_end(&mut bytes)?;
            Ok(bytes.into())
        }
    }
}

#[async_trait]
impl Recordings for FakeRecordings {
    async fn put(
        &self,
        key: &str,
        content: Content,
        sha256: &str,
    ) -> Result<Location, RecordingError> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.answer()?;
        let bytes = read(&content).map_err(|error| unavailable(Some(error)))?;
        if hash(&bytes) != sha256 {
            return Err(RecordingError::Damaged);
        }
        let mut map = self.map();
        let versions = map.entry(key.to_owned()).or_default();
        versions.push(bytes);
        let version = versions.len().to_string();
        Ok(Location {
            key: key.to_owned(),
            bucket: BUCKET.to_owned(),
            version,
        })
    }

    async fn get(&self, location: &Location) -> Result<Reading, RecordingError> {
        self.answer()?;
        let number = location
            .version
            .parse::<usize>()
            .ok()
            .and_then(|it| it.checked_sub(1));
        let bytes = number
            .filter(|_| location.bucket == BUCKET)
            .and_then(|number| self.map().get(&location.key)?.get(number).cloned())
            .ok_or(RecordingError::NotFound)?;
        let len = bytes.len() as u64;
        Ok(Reading {
            bytes: len,
            stream: stream::iter([Ok(bytes)]).boxed(),
        })
    }

    async fn check(&self) -> Result<(), RecordingError> {
        self.answer()
    }
}

/// Lower-case hex SHA-256, as `put` takes it.
pub fn hash(bytes: &[u8]) -> String {
    crate::recording::spool::hex(&Sha256::digest(bytes))
}

/// What every adapter of `Recordings` must do. `scratch` is an empty folder.
///
/// # Panics
/// Where the adapter does not: it is a test's body.
#[expect(
    clippy::unwrap_used,
    reason = "a contract is a test's body: it panics to fail"
)]
pub async fn contract(recordings: &dyn Recordings, scratch: &std::path::Path) {
    recordings.check().await.unwrap();
    saves_what_it_is_given(recordings, scratch).await;
    let put = async |key: &str, text: &'static str| {
        let content = Content::Bytes(Bytes::from_static(text.as_bytes()));
        recordings.put(key, content, &hash(text.as_bytes())).await
    };
    let get = async |location: &Location| read_all(recordings, location).await;

    // Each put is a new version, and each is read back by its own.
    let first = put("app/env/one.cast", "first").await.unwrap();
    let second = put("app/env/one.cast", "second").await.unwrap();
    let same = put("app/env/one.cast", "second").await.unwrap();
    let other = put("app/env/two.cast", "other").await.unwrap();
    assert_ne!(first.version, second.version);
    assert_ne!(second.version, same.version);
    for (location, text) in [(&first, "first"), (&second, "second"), (&other, "other")] {
        assert_eq!(get(location).await.unwrap(), text.as_bytes());
    }

    // What was never saved is not there.
    let missing = [
        Location {
            version: "9999999999".to_owned(),
            ..first.clone()
        },
        Location {
            version: "../one".to_owned(),
            ..first.clone()
        },
        Location {
            bucket: "another".to_owned(),
            ..first.clone()
        },
        Location {
            key: "app/env/nobody.cast".to_owned(),
            ..first.clone()
        },
    ];
    for location in missing {
        assert!(
            matches!(get(&location).await, Err(RecordingError::NotFound)),
            "{location:?}"
        );
    }
    assert_eq!(
        get(&first).await.unwrap(),
        b"first",
        "nothing was overwritten"
    );
}

#[expect(
    clippy::unwrap_used,
    reason = "a contract is a test's body: it panics to fail"
)]
async fn saves_what_it_is_given(recordings: &dyn Recordings, scratch: &std::path::Path) {
    let get = async |location: &Location| read_all(recordings, location).await;

    // A file is saved as far as it was said to go, however far it has grown.
    let path = scratch.join("growing");
    std::fs::write(&path, b"header\nevent\n").unwrap();
    let content = Content::File {
        path: path.clone(),
        len: 7,
    };
    let prefix = recordings
        .put("app/env/three.cast", content, &hash(b"header\n"))
        .await
        .unwrap();
    assert_eq!(get(&prefix).await.unwrap(), b"header\n");
    let content = Content::File { path, len: 100 };
    let short = recordings
        .put("app/env/three.cast", content, &hash(b"more"))
        .await;
    assert!(short.is_err(), "a file that is shorter than said");

    // What does not match its hash is not saved.
    let content = Content::Bytes(Bytes::from_static(b"changed on the way"));
    let changed = recordings
        .put("app/env/four.cast", content, &hash(b"as it was"))
        .await;
    assert!(matches!(changed, Err(RecordingError::Damaged)));
}

async fn read_all(
    recordings: &dyn Recordings,
    location: &Location,
) -> Result<Vec<u8>, RecordingError> {
    let mut reading = recordings.get(location).await?;
    let mut bytes = Vec::new();
    while let Some(part) = reading.stream.next().await {
        bytes.extend_from_slice(&part?);
    }
    assert_eq!(bytes.len() as u64, reading.bytes);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        let scratch = tempfile::tempdir().unwrap();
        contract(&FakeRecordings::new(), scratch.path()).await;
    }
}
