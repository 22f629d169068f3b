//! The far side: as much of an API server as an attach needs, over TLS and without.
//!
//! A pod's name says what its shell does: `idle` prints a prompt, `echo` sends back what is typed,
//! `flood-FRAME-BYTES` writes so many bytes in frames of that size once something is typed,
//! `endless` writes until it is interrupted, and says when that was.
//! Invariant: frames are made before anything is measured. Over TLS each frame has a record of its
//! own, as API servers send them.

use super::content::{BLOCK, Burst};
use super::upgrade::{accept, switching};
use super::{CONTAINER, NAMESPACE};
use crate::StageError;
use crate::tls::acceptor;
use base64::Engine as _;
use breakglass::clock::SystemClock;
use breakglass::ports::{Clock, Elapsed};
use futures_util::{SinkExt, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

const PROMPT: &[u8] = b"\x01app@web-0:/srv$ ";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;

/// The kubeconfig that leads to the source over TLS, in the source's folder.
pub(super) const OVER_TLS: &str = "tls.kubeconfig";
/// The one that leads there without.
pub(super) const PLAIN: &str = "plain.kubeconfig";

/// When an `endless` shell was interrupted: a file in the source's folder, nanoseconds on the clock
/// that counts suspension.
pub(super) const INTERRUPTED: &str = "interrupted";
/// Ctrl-C.
const INTERRUPT: u8 = 3;
/// Payload of an endless flood's frames.
const USUAL_FRAME: usize = 4096;

/// Serves until the process ends; writes both kubeconfigs into `dir` and says on stdout that it is
/// ready.
///
/// # Errors
/// It could not listen, or the folder cannot be written.
pub async fn serve(dir: &Path) -> Result<(), StageError> {
    super::machine::raise_open_files();
    let (acceptor, authority) = acceptor()?;
    let plain = listen(dir, PLAIN, None).await?;
    let tls = listen(dir, OVER_TLS, Some(&authority)).await?;
    super::child::say(&json!({"ready": true}));
    let dir: Arc<Path> = dir.into();
    let plain = async {
        loop {
            if let Ok((stream, _)) = plain.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(stream, Arc::clone(&dir)));
            }
        }
    };
    let tls = async {
        loop {
            if let Ok((stream, _)) = tls.accept().await {
                let _ = stream.set_nodelay(true);
                let (acceptor, dir) = (acceptor.clone(), Arc::clone(&dir));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        connection(stream, dir).await;
                    }
                });
            }
        }
    };
    tokio::join!(plain, tls);
    Ok(())
}

async fn listen(
    dir: &Path,
    file: &str,
    authority: Option<&str>,
) -> Result<TcpListener, StageError> {
    let told = |error| StageError::of("the source cannot listen", error);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(told)?;
    let port = listener.local_addr().map_err(told)?.port();
    let mut cluster = json!({"server": format!("http://127.0.0.1:{port}")});
    if let Some(authority) = authority {
        let encoded = base64::engine::general_purpose::STANDARD.encode(authority);
        cluster = json!({
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": encoded,
        });
    }
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {
            "cluster": "bench", "user": "bench", "namespace": NAMESPACE,
        }}],
    });
    std::fs::write(dir.join(file), kubeconfig.to_string())
        .map_err(|error| StageError::of("the kubeconfig cannot be written", error))?;
    Ok(listener)
}

/// A connection that can take a burst.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn burst(&mut self, burst: &Burst) -> impl Future<Output = io::Result<()>> + Send;
}

impl Wire for TcpStream {
    async fn burst(&mut self, burst: &Burst) -> io::Result<()> {
        self.write_all(burst.bytes()).await
    }
}

impl Wire for TlsStream<TcpStream> {
    async fn burst(&mut self, burst: &Burst) -> io::Result<()> {
        let tls = self.get_mut().1;
        // Each write makes a record; they leave together.
        tls.set_buffer_limit(None);
        for frame in burst.frames() {
            tls.writer().write_all(frame)?;
        }
        self.flush().await
    }
}

async fn connection<W: Wire>(stream: W, dir: Arc<Path>) {
    let service = service_fn(|mut request: Request<Incoming>| {
        let answer = answer::<W>(&mut request, &dir);
        async { Ok::<_, std::convert::Infallible>(answer) }
    });
    // A client that goes away in between is the measuring side's to report.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

fn answer<W: Wire>(request: &mut Request<Incoming>, dir: &Arc<Path>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let prefix = format!("/api/v1/namespaces/{NAMESPACE}/pods/");
    let found = path
        .strip_prefix(&prefix)
        .filter(|_| request.method() == Method::GET);
    match found.map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
        Some((pod, "")) => json_of(StatusCode::OK, &object(pod)),
        Some((pod, "attach")) => match accept(request) {
            Some(key) => {
                let (pod, dir) = (pod.to_owned(), Arc::clone(dir));
                let upgrade = hyper::upgrade::on(request);
                tokio::spawn(async move {
                    if let Ok(upgraded) = upgrade.await {
                        let _ = shell::<W>(&pod, upgraded, &dir).await;
                    }
                });
                switching(&key, Some("v5.channel.k8s.io"))
            }
            None => json_of(StatusCode::BAD_REQUEST, &json!({"kind": "Status"})),
        },
        _ => json_of(
            StatusCode::NOT_FOUND,
            &json!({"kind": "Status", "code": 404}),
        ),
    }
}

fn json_of(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

fn object(pod: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod, "namespace": NAMESPACE, "uid": pod},
        "spec": {"containers": [{"name": CONTAINER, "image": "none"}]},
        "status": {"phase": "Running", "ephemeralContainerStatuses": [{
            "name": CONTAINER, "state": {"running": {"startedAt": "2026-11-30T12:00:00Z"}},
        }]},
    })
}

async fn shell<W: Wire>(pod: &str, upgraded: Upgraded, dir: &Path) -> io::Result<()> {
    // The connection itself, not hyper's box around it: a burst needs to see TLS.
    let parts = upgraded
        .downcast::<TokioIo<W>>()
        .map_err(|_| io::Error::other("another connection than was served"))?;
    let wire = parts.io.into_inner();
    let mut socket =
        WebSocketStream::from_partially_read(wire, parts.read_buf.into(), Role::Server, None).await;
    let words: Vec<&str> = pod.split('-').collect();
    match words.as_slice() {
        ["flood", frame, bytes] => {
            let frame = frame.parse().map_err(io::Error::other)?;
            let bytes = bytes.parse().map_err(io::Error::other)?;
            flood(socket, &Burst::new(frame), bytes).await
        }
        ["endless"] => endless(socket, &dir.join(INTERRUPTED)).await,
        _ => {
            let prompt = Message::Binary(Bytes::from_static(PROMPT));
            socket.send(prompt).await.map_err(io::Error::other)?;
            echo(socket).await
        }
    }
}

/// Sends back what is typed; an idle shell's client types nothing.
async fn echo<W: Wire>(mut socket: WebSocketStream<W>) -> io::Result<()> {
    while let Some(Ok(message)) = socket.next().await {
        if let Some(typed) = typed(&message) {
            let mut frame = Vec::with_capacity(1 + typed.len());
            frame.push(STDOUT);
            frame.extend(typed);
            let echoed = socket.send(Message::Binary(frame.into())).await;
            echoed.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

async fn flood<W: Wire>(
    mut socket: WebSocketStream<W>,
    burst: &Burst,
    bytes: usize,
) -> io::Result<()> {
    if !is_typed(&mut socket, |_| true).await {
        return Ok(());
    }
    let mut wire = socket.into_inner();
    for _ in 0..bytes / BLOCK {
        wire.burst(burst).await?;
    }
    // The shell stays: who relays decides when it is over.
    let mut rest = [0; 4096];
    while wire.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Writes until Ctrl-C arrives, whether anybody reads it or not; then says when that was.
async fn endless<W: Wire>(mut socket: WebSocketStream<W>, told: &Path) -> io::Result<()> {
    if !is_typed(&mut socket, |_| true).await {
        return Ok(());
    }
    let (from, mut to) = tokio::io::split(socket.into_inner());
    let keys = tokio::io::join(from, tokio::io::sink());
    let mut keys = WebSocketStream::from_raw_socket(keys, Role::Server, None).await;
    let burst = Burst::new(USUAL_FRAME);
    let flooding = async { while to.write_all(burst.bytes()).await.is_ok() {} };
    let interrupted = tokio::select! {
        () = flooding => false,
        interrupted = is_typed(&mut keys, |typed| typed.contains(&INTERRUPT)) => interrupted,
    };
    if interrupted {
        let at = SystemClock.elapsed().since(Elapsed::new(Duration::ZERO));
        std::fs::write(told, format!("{}\n", at.as_nanos()))?;
        // The shell stays.
        is_typed(&mut keys, |_| false).await;
    }
    Ok(())
}

/// Whether something of the kind was typed before the stream ended.
async fn is_typed<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    of_the_kind: impl Fn(&[u8]) -> bool,
) -> bool {
    while let Some(Ok(message)) = socket.next().await {
        if typed(&message).is_some_and(&of_the_kind) {
            return true;
        }
    }
    false
}

fn typed(message: &Message) -> Option<&[u8]> {
    match message {
        Message::Binary(frame) => match frame.split_first() {
            Some((&STDIN, typed)) if !typed.is_empty() => Some(typed),
            _ => None,
        },
        Message::Text(_)
        | Message::Ping(_)
        | Message::Pong(_)
        | Message::Close(_)
        | Message::Frame(_) => None,
    }
}
