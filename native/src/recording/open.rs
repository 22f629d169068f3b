//! Reading a saved recording back.
//!
//! Invariant: what does not match its row's hash is refused before a byte of it is given away, and
//! what changes while it is read breaks off.

use super::Recorder;
use crate::ports::RecordingError;
use crate::ports::recordings::{Location, Reading};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sha2::{Digest, Sha256};

impl Recorder {
    /// Opens one version after hashing it whole.
    ///
    /// # Errors
    /// `Damaged` when its hash is not `sha256` (lower-case hex).
    pub async fn open(
        &self,
        location: &Location,
        sha256: &str,
    ) -> Result<Reading, RecordingError> {
        let mut checking = checked(self.recordings().get(location).await?.stream, sha256);
        while let Some(chunk) = checking.next().await {
            chunk?;
        }
        let Reading { bytes, stream } = self.recordings().get(location).await?;
        Ok(Reading { bytes, stream: checked(stream, sha256) })
    }
}

/// The same chunks; an error at the end when their hash is another.
fn checked(
    stream: BoxStream<'static, Result<Bytes, RecordingError>>,
    sha256: &str,
) -> BoxStream<'static, Result<Bytes, RecordingError>> {
    let expected = sha256.to_owned();
    let state = (stream, Sha256::new(), expected, false);
    futures_util::stream::unfold(state, |(mut stream, mut hash, expected, over)| async move {
        if over {
            return None;
        }
        match stream.next().await {
            Some(Ok(chunk)) => {
                hash.update(&chunk);
                Some((Ok(chunk), (stream, hash, expected, false)))
            }
            Some(Err(error)) => Some((Err(error), (stream, hash, expected, true))),
            None => {
                let found: String =
                    hash.clone().finalize().iter().map(|b| format!("{b:02x}")).collect();
                let agrees = found == expected;
                (!agrees).then(|| (Err(RecordingError::Damaged), (stream, hash, expected, true)))
            }
        }
    })
    .boxed()
}
