use super::*;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CAST: &str = "{\"version\":2}\n";

/// A Backstage that answers one request with a recording and says that this is its hash.
async fn backstage(hash: Option<String>) -> Client {
    backstage_of(hash, CAST.len()).await
}

/// The same, saying that so many bytes come.
async fn backstage_of(hash: Option<String>, len: usize) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(socket.read_u8().await.unwrap());
        }
        let hash = hash.map(|hash| format!("x-recording-sha256: {hash}\r\n"));
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {len}\r\n{}\r\n{CAST}",
            hash.unwrap_or_default()
        );
        socket.write_all(answer.as_bytes()).await.unwrap();
    });
    let backstage = Backstage {
        url: Some(url.parse().unwrap()),
        token: Some("t".to_owned()),
        token_file: None,
        json: false,
    };
    Client::new(&backstage).unwrap()
}

fn sha256() -> String {
    let hash = Sha256::digest(CAST.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn a_recording_with_the_rows_hash_is_saved_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cast");
    let client = backstage(Some(sha256())).await;
    get(&client, "x", false, Some(path.clone())).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), CAST);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["x.cast"]);
}

#[tokio::test]
async fn a_recording_with_another_hash_or_none_leaves_no_file() {
    for hash in [Some("0".repeat(64)), None] {
        let folder = tempfile::tempdir().unwrap();
        let client = backstage(hash).await;
        let path = folder.path().join("x.cast");
        let failure = get(&client, "x", false, Some(path)).await.unwrap_err();
        assert!(failure.to_string().starts_with("not saved"), "{failure}");
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

#[tokio::test]
async fn a_recording_that_breaks_off_is_not_saved_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let client = backstage_of(Some(sha256()), CAST.len() + 1).await;
    let path = folder.path().join("x.cast");
    let failure = get(&client, "x", false, Some(path)).await.unwrap_err();
    let text = failure.to_string();
    assert!(
        text.starts_with("not saved: the recording broke off"),
        "{text}"
    );
    assert!(text.contains("end of file before message length"), "{text}");
    assert!(!text.contains("127.0.0.1"), "{text}");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_file_that_is_there_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.cast");
    let early = Partial::create(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(Partial::create(&path).is_err());
    assert!(early.keep().is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(names(folder.path()), ["x.cast"]);
}
