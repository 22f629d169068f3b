//! Who is not on the list of peers gets no byte, and nothing happens (it must hold 5).

use crate::stand::{ALICE, Plan, SOON, Stand, caller, request_for};
use breakglass::http::caller::encode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// What comes back for these bytes until the other side closes, and whether it closed in order.
async fn heard(stand: &Stand, sent: &str) -> (Vec<u8>, bool) {
    let mut stream = UnixStream::connect(stand.socket())
        .await
        .expect("the socket");
    // The other side may have hung up before all of it was sent.
    let _ = stream.write_all(sent.as_bytes()).await;
    let mut all = Vec::new();
    let reading = tokio::time::timeout(SOON, stream.read_to_end(&mut all)).await;
    let in_order = reading.expect("it is closed").is_ok();
    (all, in_order)
}

fn requests(stand: &Stand) -> [String; 3] {
    let who = encode(&caller(ALICE, "shop"));
    let body = request_for(&stand.ready_pod().0).to_string();
    [
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: x\r\nx-breakglass-caller: {who}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        format!(
            "GET /v1/sessions/0123456789ab/attach HTTP/1.1\r\nhost: x\r\n\
             x-breakglass-caller: {who}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ),
    ]
}

#[tokio::test]
async fn a_peer_of_another_user_gets_no_byte_and_nothing_happens() {
    let plan = Plan::new().unasked().change(|config| {
        config.peers.uids = vec![rustix::process::geteuid().as_raw() + 1];
        config.peers.gids = vec![rustix::process::getegid().as_raw() + 1];
    });
    let stand = plan.start().await;
    let asked = stand.standin.requests().len();
    let (bytes, in_order) = heard(&stand, "").await;
    assert!(bytes.is_empty() && in_order, "{bytes:?}");
    for request in requests(&stand) {
        // With the request unread, the close may be told as a reset.
        let (bytes, _) = heard(&stand, &request).await;
        let said = String::from_utf8_lossy(&bytes);
        assert!(bytes.is_empty(), "{request:.20}: {said}");
    }
    assert!(stand.rows().await.is_empty());
    // Of its own accord the sidecar asks who it is and what is left over, in no namespace.
    let since = stand.standin.requests().split_off(asked);
    let of_a_session = since.iter().find(|r| r.path.contains("/namespaces/"));
    assert!(of_a_session.is_none(), "{of_a_session:?}");
    assert!(stand.grants().is_empty());
}

#[tokio::test]
async fn a_peer_of_a_listed_group_is_served() {
    let plan = Plan::new().change(|config| {
        config.peers.uids = vec![rustix::process::geteuid().as_raw() + 1];
        config.peers.gids = vec![rustix::process::getegid().as_raw()];
    });
    let stand = plan.start().await;
    let open = stand.open().await;
    stand.end(&open.id).await;
    stand.ended(&open.id).await;
}
