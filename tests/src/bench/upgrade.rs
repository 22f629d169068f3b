//! A WebSocket's handshake, the server's half.

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// The answer's key, if this asks for a WebSocket.
pub(super) fn accept<B>(request: &Request<B>) -> Option<String> {
    let headers = request.headers();
    let wanted = headers
        .get(UPGRADE)?
        .as_bytes()
        .eq_ignore_ascii_case(b"websocket");
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    wanted.then(|| derive_accept_key(key.as_bytes()))
}

/// 101, with the protocol that was chosen.
pub(super) fn switching(accept: &str, protocol: Option<&'static str>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // Base64 is always a header's value.
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    response
}
