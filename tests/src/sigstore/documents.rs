//! Documents over HTTP on loopback: all that an OpenID issuer and a trust repository have to be.

use crate::StageError;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// What is served, by its path.
pub(super) type Contents = BTreeMap<String, Vec<u8>>;

/// A server of documents, until it is dropped.
pub(super) struct Documents {
    url: String,
    serving: JoinHandle<()>,
}

impl Documents {
    /// Serves what `contents` makes of the server's own address.
    pub(super) async fn serve(
        contents: impl FnOnce(&str) -> Result<Contents, StageError>,
    ) -> Result<Self, StageError> {
        let told = |error| StageError::of("documents cannot be served", error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(told)?;
        let url = format!("http://{}", listener.local_addr().map_err(told)?);
        let contents = Arc::new(contents(&url)?);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new(); // which end with this task
            while let Ok((stream, _)) = listener.accept().await {
                let contents = Arc::clone(&contents);
                let answer = service_fn(move |request| {
                    let answer = answer(&contents, &request);
                    async { Ok::<_, Infallible>(answer) }
                });
                let io = TokioIo::new(stream);
                connections.spawn(http1::Builder::new().serve_connection(io, answer));
            }
        });
        Ok(Self { url, serving })
    }

    /// Its address, without a slash at the end.
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn answer(contents: &Contents, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let content = contents.get(request.uri().path());
    let mut response = Response::new(Full::from(content.cloned().unwrap_or_default()));
    if content.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}
