use super::*;
use axum::routing::get;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A socket that says `here`, and its folder.
async fn served(most: usize) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let socket = Socket::bind(&path).await.unwrap();
    let routes = Router::new().route("/", get(|| async { "here" }));
    let never = CancellationToken::new();
    tokio::spawn(socket.serve_at_most(most, routes, Peers::default(), never));
    (folder, path)
}

async fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).await.unwrap()
}

/// All that comes, until the other side closes.
async fn heard(stream: &mut UnixStream) -> String {
    let mut all = String::new();
    // A close before everything was read is told as a reset.
    let _ = stream.read_to_string(&mut all).await;
    all
}

async fn asked(path: &Path) -> String {
    let mut stream = connect(path).await;
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    // Who is turned away may be gone by now.
    let _ = stream.write_all(request).await;
    heard(&mut stream).await
}

#[tokio::test]
async fn only_a_listed_user_or_group_may_connect_and_without_a_list_only_ourselves() {
    let (stream, _other) = UnixStream::pair().unwrap();
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let may = |uids: &[u32], gids: &[u32]| {
        let (uids, gids) = (uids.to_vec(), gids.to_vec());
        allowed(&stream, &Peers { uids, gids })
    };
    assert!(may(&[], &[]));
    assert!(may(&[uid], &[]));
    assert!(may(&[uid + 1, uid], &[]));
    assert!(may(&[uid + 1], &[gid]));
    assert!(!may(&[uid + 1], &[]), "a list leaves out who is not on it");
    assert!(!may(&[], &[gid + 1]), "of groups too");
    assert!(!may(&[uid + 1], &[gid + 1]));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_to_its_end_is_waited_for_no_longer_than_the_bound() {
    let (_folder, path) = served(8).await;
    for sent in ["", "G", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let began = tokio::time::Instant::now();
        let mut stream = connect(&path).await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let closing = tokio::time::timeout(HEADER_TIMEOUT * 2, heard(&mut stream));
        let said = closing.await.expect("it is closed");
        assert!(!said.contains("200"), "{sent:?}: {said}");
        let took = began.elapsed();
        assert!(took >= HEADER_TIMEOUT, "{sent:?}: {took:?}");
    }
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_a_place_that_is_free_again_is_taken() {
    let (_folder, path) = served(2).await;
    let (first, second) = (connect(&path).await, connect(&path).await);
    assert_eq!(asked(&path).await, "", "not a byte");
    drop(first);
    // When the place is free is the server's to say.
    let again = async {
        loop {
            let answer = asked(&path).await;
            if !answer.is_empty() {
                break answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), again).await;
    assert!(answer.expect("a place").ends_with("here"));
    drop(second);
}
