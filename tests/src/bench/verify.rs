//! Whether a recording is what was relayed: its hash, and every byte of output in order.

use super::content::{BLOCK, block};
use super::{Done, Recorded};
use crate::StageError;
use breakglass::recording::{read_event, read_header};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Checks the one recording of a run, and deletes it.
pub(super) fn recorded(done: &Done, output: usize) -> Result<(), StageError> {
    let [recording] = done.recordings.as_slice() else {
        return Err(StageError::new("not one recording"));
    };
    let found = check(recording, output);
    std::fs::remove_file(&recording.path)
        .map_err(|error| StageError::of("the recording cannot be deleted", error))?;
    found
}

fn check(recording: &Recorded, output: usize) -> Result<(), StageError> {
    let told = |error| StageError::of("the recording cannot be read", error);
    let wrong = |what: &str| StageError::new(format!("the recording is wrong: {what}"));
    let file = File::open(&recording.path).map_err(told)?;
    let mut lines = BufReader::with_capacity(1 << 20, file);
    let (mut line, mut whole, mut shown) = (Vec::new(), Sha256::new(), Sha256::new());
    let (mut bytes, mut first) = (0, true);
    while lines.read_until(b'\n', &mut line).map_err(told)? > 0 {
        whole.update(&line);
        bytes += line.len() as u64;
        let text = line
            .strip_suffix(b"\n")
            .ok_or_else(|| wrong("its last line is torn"))?;
        if first {
            read_header(text).ok_or_else(|| wrong("it has no header"))?;
            first = false;
        } else {
            let event = read_event(text).ok_or_else(|| wrong("a line is no event"))?;
            if event.code == "o" {
                shown.update(&event.data);
            }
        }
        line.clear();
    }
    if bytes != recording.bytes || hex(whole) != recording.sha256 {
        return Err(wrong("its hash is another than was said"));
    }
    let mut expected = Sha256::new();
    let block = block();
    (0..output / BLOCK).for_each(|_| expected.update(&block));
    if shown.finalize() == expected.finalize() {
        Ok(())
    } else {
        Err(wrong("output is missing"))
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_recording_that_lacks_output_or_has_another_hash_is_found_out() {
        let text = serde_json::json!(String::from_utf8(block()).expect("text"));
        let line =
            format!("{{\"version\": 2, \"width\": 80, \"height\": 24}}\n[0.1, \"o\", {text}]\n");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(line.as_bytes()).expect("written");
        let right = Recorded {
            path: file.path().to_owned(),
            bytes: line.len() as u64,
            sha256: hex(Sha256::new_with_prefix(&line)),
        };
        assert!(check(&right, BLOCK).is_ok());
        assert!(check(&right, 2 * BLOCK).is_err());
        assert!(
            check(
                &Recorded {
                    sha256: "00".to_owned(),
                    ..right
                },
                BLOCK
            )
            .is_err()
        );
    }
}
