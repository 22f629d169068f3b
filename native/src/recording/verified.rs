//! A saved recording, hashed while it is read.
//!
//! Invariant: the last piece is given out only when the whole fits the hash, so a reader that
//! checks for errors never takes another file for this one.

use super::spool::hex;
use crate::ports::RecordingError;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use sha2::{Digest, Sha256};

type Pieces = BoxStream<'static, Result<Bytes, RecordingError>>;

struct Verifying {
    pieces: Pieces,
    hash: Sha256,
    /// Read and hashed, not given out yet.
    held: Option<Bytes>,
    expected: String,
}

/// The same pieces, breaking off with `Damaged` before the last one if they are not what
/// `sha256` (lower-case hex) says.
pub(super) fn verified(pieces: Pieces, sha256: &str) -> Pieces {
    let state = Verifying {
        pieces,
        hash: Sha256::new(),
        held: None,
        expected: sha256.to_owned(),
    };
    unfold(Some(state), |state| async move {
        let mut state = state?;
        loop {
            match state.pieces.next().await {
                Some(Ok(piece)) => {
                    state.hash.update(&piece);
                    if let Some(before) = state.held.replace(piece) {
                        return Some((Ok(before), Some(state)));
                    }
                }
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    let whole = hex(&state.hash.finalize()) == state.expected;
                    let last = if whole {
                        Ok(state.held?)
                    } else {
                        Err(RecordingError::Damaged)
                    };
                    return Some((last, None));
                }
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn read(pieces: &[&'static [u8]], sha256: &str) -> (Vec<u8>, bool) {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece)))
            .collect();
        let mut stream = verified(stream::iter(pieces).boxed(), sha256);
        let mut read = Vec::new();
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(piece) => read.extend(piece),
                Err(_) => return (read, false),
            }
        }
        (read, true)
    }

    #[tokio::test]
    async fn a_recording_is_given_out_whole_only_if_it_is_what_its_row_says() {
        let hash = hex(&Sha256::digest(b"one two"));
        assert_eq!(
            read(&[b"one", b" ", b"two"], &hash).await,
            (b"one two".to_vec(), true)
        );
        assert_eq!(
            read(&[b"one", b" ", b"too"], &hash).await,
            (b"one ".to_vec(), false)
        );
        assert_eq!(read(&[b"one two"], "00").await, (Vec::new(), false));
        assert_eq!(
            read(&[], &hex(&Sha256::digest(b""))).await,
            (Vec::new(), true)
        );
        assert_eq!(read(&[], "00").await, (Vec::new(), false));
    }
}
