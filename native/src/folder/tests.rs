use super::*;
use crate::fakes::recordings::{contract, hash};
use bytes::Bytes;
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "payments/prod/abcdefghijkl.cast";

async fn put(store: &FolderRecordings, key: &str, text: &str) -> Result<Location, RecordingError> {
    let content = Content::Bytes(Bytes::copy_from_slice(text.as_bytes()));
    store.put(key, content, &hash(text.as_bytes())).await
}

#[tokio::test]
async fn the_folder_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderRecordings::new(dir.path().join("recordings"), "folder");
    contract(&store, dir.path()).await;
    let names = std::fs::read_dir(dir.path().join("recordings/app/env/four.cast")).unwrap();
    assert_eq!(names.count(), 0, "what did not match its hash left nothing");
}

#[tokio::test]
async fn a_key_cannot_leave_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderRecordings::new(dir.path().join("recordings"), "folder");
    let keys = [
        "",
        "/etc/x",
        "../x",
        "a/../../x",
        "a//b",
        "a/.",
        "a/\0",
        ".hidden",
        "a\\b",
    ];
    for key in keys {
        assert!(put(&store, key, "x").await.is_err(), "{key:?}");
    }
    assert!(put(&store, &"a/".repeat(9), "x").await.is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_once_never_take_each_others_version() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderRecordings::new(dir.path().to_owned(), "folder");
    let writers = (0..16).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { put(&store, KEY, &format!("{number}")).await.unwrap() })
    });
    let mut versions = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        versions.push(writer.await.unwrap().version);
    }
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 16);
}

#[tokio::test]
async fn a_version_that_was_cut_short_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderRecordings::new(dir.path().to_owned(), "folder");
    let location = put(&store, KEY, "a recording").await.unwrap();
    let path = dir.path().join(KEY).join(&location.version);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o400, "a version is read-only");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a rec").unwrap();
    assert!(matches!(
        store.get(&location).await,
        Err(RecordingError::Damaged)
    ));
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let store = FolderRecordings::new(file, "folder");
    let unavailable = |answer| matches!(answer, Err(RecordingError::Unavailable { .. }));
    assert!(unavailable(store.check().await));
    assert!(unavailable(put(&store, KEY, "x").await.map(drop)));
}
