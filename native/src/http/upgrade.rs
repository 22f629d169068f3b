//! The WebSocket handshake of a terminal (T-1, T-2): 101, or a complete refusal before it.

use super::error::ApiError;
use super::socket::Slot;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, Request, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// A request that asks for a WebSocket, checked; answering it makes the upgrade happen.
pub struct Handshake {
    accept: String,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Checks the request's head; nothing is promised to the client yet.
    pub fn check(request: &mut Request<Body>) -> Result<Self, ApiError> {
        let headers = request.headers();
        let wanted = names(headers, header::CONNECTION, "upgrade")
            && names(headers, header::UPGRADE, "websocket")
            && names(headers, header::SEC_WEBSOCKET_VERSION, "13");
        let key = headers
            .get(header::SEC_WEBSOCKET_KEY)
            .map(|key| key.as_bytes().to_vec());
        let (true, Some(key)) = (wanted, key) else {
            return Err(ApiError::Malformed(
                "this route is a WebSocket of version 13; no terminal was opened".to_owned(),
            ));
        };
        let upgrade = request
            .extensions_mut()
            .remove::<OnUpgrade>()
            .ok_or_else(|| ApiError::Malformed("this connection cannot be upgraded".to_owned()))?;
        Ok(Self {
            accept: derive_accept_key(&key),
            upgrade,
        })
    }

    /// The 101, and the stream that follows it.
    pub fn accept(self) -> (Response, OnUpgrade) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(
            header::CONNECTION,
            http::HeaderValue::from_static("Upgrade"),
        );
        headers.insert(header::UPGRADE, http::HeaderValue::from_static("websocket"));
        if let Ok(accept) = self.accept.parse() {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        (response, self.upgrade)
    }
}

/// An upgraded connection, which counts among the socket's as long as it lives.
pub(super) struct Counted<IO> {
    io: IO,
    _slot: Option<Slot>,
}

impl<IO> Counted<IO> {
    pub(super) fn new(io: IO, slot: Option<Slot>) -> Self {
        Self { io, _slot: slot }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Counted<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, to)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Counted<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// Whether a comma-separated header names a token, in any case.
fn names(headers: &HeaderMap, header: header::HeaderName, token: &str) -> bool {
    headers.get_all(header).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',')
                .any(|part| part.trim().eq_ignore_ascii_case(token))
        })
    })
}
