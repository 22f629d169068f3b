//! Attach: `v5.channel.k8s.io` and `v4.channel.k8s.io` over a WebSocket.
//!
//! What must hold: input reaches the shell while output is stuck and the other way round; what
//! the client does not read waits in the shell; closing a stream leaves the container running
//! (C-25); a stream outlives the grant that opened it.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::http_io::Body;
use crate::pong::PongFilter;
use crate::refusal::Refusal;
use crate::route::{Action, Query};
use crate::shell::{Attached, Shell};
use crate::world::{Key, Pod, World};

pub(crate) const STDIN: u8 = 0;
pub(crate) const STDOUT: u8 = 1;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// The largest message a client may send.
const MESSAGE_MAX: usize = 1024 * 1024;
/// How long a client may take to answer our close.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

/// What an attach stream does to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamMode {
    /// As it should.
    Flowing,
    /// No byte either way and no close: a peer that is gone without a word.
    HalfOpen,
    /// Bytes flow, pings are not answered.
    NoPong,
    /// The connection breaks without a close frame.
    Cut,
}

/// An open attach stream, as faults and tests see it.
pub(crate) struct OpenStream {
    pub(crate) key: Key,
    pub(crate) container: String,
    pub(crate) mode: watch::Sender<StreamMode>,
}

type Socket = WebSocketStream<PongFilter<TokioIo<hyper::upgrade::Upgraded>>>;

/// Answers an attach: refuses it, or switches protocols and serves the stream.
pub(crate) fn attach(
    world: &World,
    action: &Action,
    query: &Query,
    mut request: Request<hyper::body::Incoming>,
) -> Result<Response<Body>, Refusal> {
    let namespace = action.namespace.clone().unwrap_or_default();
    let name = action.name.clone().unwrap_or_default();
    let key = (namespace, name.clone());
    let (container, state, shell) = {
        let state = world.read();
        let pod = state
            .pods
            .get(&key)
            .ok_or_else(|| Refusal::not_found(action, &name))?;
        find_container(pod, query)?
    };
    let accept = upgrade_key(request.headers())
        .ok_or_else(|| Refusal::bad_request("Upgrade request required"))?;
    let protocol = negotiate(request.headers())
        .ok_or_else(|| Refusal::bad_request("unable to upgrade: no supported subprotocol"))?;
    check_running(&key, &container, &state)?;
    let attached = shell.as_ref().map(|shell| shell.attach());
    let (mode, id) = register(world, key, &container);
    let upgrade = hyper::upgrade::on(&mut request);
    let flags = Flags {
        stdin: is_true(query, "stdin"),
        tty: is_true(query, "tty"),
    };
    let task = {
        let world = world.clone();
        async move {
            if let Ok(upgraded) = upgrade.await {
                let side = Side {
                    shell,
                    attached,
                    flags,
                    mode,
                };
                side.serve(TokioIo::new(upgraded)).await;
            }
            world.change(|state| state.streams.remove(&id));
        }
    };
    world.spawn(task);
    let mut response = Response::new(crate::http_io::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(protocol),
    );
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

fn is_true(query: &Query, name: &str) -> bool {
    matches!(query.get(name).map(String::as_str), Some("1" | "true"))
}

type Found = (String, serde_json::Value, Option<Arc<Shell>>);

fn find_container(pod: &Pod, query: &Query) -> Result<Found, Refusal> {
    let object = &pod.object;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") {
        let message =
            format!("cannot attach a container in a completed pod; current phase is {phase}");
        return Err(Refusal::bad_request(message));
    }
    let all = |list: &str| object["spec"][list].as_array().cloned().unwrap_or_default();
    let wanted = match query.get("container").filter(|name| !name.is_empty()) {
        Some(wanted) => wanted.clone(),
        None => match all("containers").as_slice() {
            [only] => only["name"].as_str().unwrap_or_default().to_owned(),
            _ => {
                let message = format!("a container name must be specified for pod {name}");
                return Err(Refusal::bad_request(message));
            }
        },
    };
    let known = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .any(|list| all(list).iter().any(|one| one["name"] == wanted.as_str()));
    if !known {
        let message = format!("container {wanted} is not valid for pod {name}");
        return Err(Refusal::bad_request(message));
    }
    if phase == "Unknown" {
        let message = "error dialing backend: dial tcp 10.0.0.1:10250: connect: no route to host";
        return Err(Refusal::internal(message));
    }
    let state = ["containerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .filter_map(|list| object["status"][list].as_array())
        .flatten()
        .find(|one| one["name"] == wanted.as_str())
        .map_or(serde_json::Value::Null, |status| status["state"].clone());
    let shell = pod.shells.get(&wanted).cloned();
    Ok((wanted, state, shell))
}

/// The kubelet finds no running container: the API server passes that on as a 500.
fn check_running(key: &Key, container: &str, state: &serde_json::Value) -> Result<(), Refusal> {
    if state.get("running").is_some() {
        return Ok(());
    }
    let why = match state.get("terminated") {
        Some(_) => "container not running".to_owned(),
        None => format!("container {container} not found in pod {}_{}", key.1, key.0),
    };
    Err(Refusal::internal(format!(
        "unable to upgrade connection: {why}"
    )))
}

fn upgrade_key(headers: &HeaderMap) -> Option<HeaderValue> {
    let has = |name: header::HeaderName, token: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|one| one.trim().eq_ignore_ascii_case(token))
    };
    let asked = has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket")
        && has(header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
    let nonce = base64::engine::general_purpose::STANDARD
        .decode(key.as_bytes())
        .ok()?;
    if !asked || nonce.len() != 16 {
        return None;
    }
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    HeaderValue::from_str(&accept).ok()
}

fn negotiate(headers: &HeaderMap) -> Option<&'static str> {
    let offered: Vec<&str> = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    ["v5.channel.k8s.io", "v4.channel.k8s.io"]
        .into_iter()
        .find(|one| offered.contains(one))
}

fn register(world: &World, key: Key, container: &str) -> (watch::Receiver<StreamMode>, u64) {
    world.change(|state| {
        let mode = watch::Sender::new(state.faults.next_stream_mode(&key));
        let receiver = mode.subscribe();
        let id = state.next_version();
        let stream = OpenStream {
            key,
            container: container.to_owned(),
            mode,
        };
        state.streams.insert(id, stream);
        (receiver, id)
    })
}

struct Flags {
    stdin: bool,
    tty: bool,
}

/// The server's side of one stream.
struct Side {
    shell: Option<Arc<Shell>>,
    attached: Option<Attached>,
    flags: Flags,
    mode: watch::Receiver<StreamMode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TerminalSize {
    width: u16,
    height: u16,
}

impl Side {
    async fn serve(self, io: TokioIo<hyper::upgrade::Upgraded>) {
        let config = WebSocketConfig::default()
            .read_buffer_size(8192)
            .write_buffer_size(0)
            .max_message_size(Some(MESSAGE_MAX))
            .max_frame_size(Some(MESSAGE_MAX));
        let io = PongFilter::new(io, self.mode.clone());
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let Self {
            shell,
            attached,
            flags,
            mode,
        } = self;
        let mut cut = mode.clone();
        let (output, input, exit) = match attached {
            Some(Attached {
                output,
                input,
                exit,
            }) => (output, Some(input), exit),
            // A container without a process says nothing and hears nothing.
            None => (mpsc::channel(1).1, None, watch::channel(None).1),
        };
        let (sink, source) = socket.split();
        let writer = Writer {
            sink,
            output,
            exit,
            mode: mode.clone(),
        };
        let reader = Reader {
            source,
            shell,
            input,
            flags,
            mode,
        };
        tokio::select! {
            () = until(&mut cut, StreamMode::Cut) => {}
            () = serve_both(writer, reader) => {}
        }
    }
}

async fn serve_both(writer: Writer, mut reader: Reader) {
    let write = writer.run();
    tokio::pin!(write);
    let sink = tokio::select! {
        sink = &mut write => sink,
        () = reader.run() => return,
    };
    // The shell ended and said so: the client's own close is all that is waited for.
    if let Some(mut sink) = sink {
        let close = async {
            let _ = sink.close().await;
            reader.run().await;
        };
        let _ = tokio::time::timeout(CLOSE_WAIT, close).await;
    }
}

type Sink = futures_util::stream::SplitSink<Socket, Message>;

struct Writer {
    sink: Sink,
    output: mpsc::Receiver<Bytes>,
    exit: watch::Receiver<Option<i32>>,
    mode: watch::Receiver<StreamMode>,
}

impl Writer {
    /// Sends output until the shell ends; the sink, to be closed, or None if the client left.
    async fn run(mut self) -> Option<Sink> {
        // As the real server does: an empty frame on each channel that it writes or reads.
        for channel in [STDIN, STDOUT, 2] {
            self.sink
                .feed(Message::Binary(Bytes::copy_from_slice(&[channel])))
                .await
                .ok()?;
        }
        self.sink.flush().await.ok()?;
        while let Some(frame) = self.output.recv().await {
            flowing(&mut self.mode).await;
            self.sink.feed(Message::Binary(frame)).await.ok()?;
            while let Ok(more) = self.output.try_recv() {
                self.sink.feed(Message::Binary(more)).await.ok()?;
            }
            self.sink.flush().await.ok()?;
        }
        // No more output: the shell ended, or a newer attach has it and this one stays quiet.
        if self.exit.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
        flowing(&mut self.mode).await;
        let mut status = vec![ERROR];
        status.extend_from_slice(br#"{"metadata":{},"status":"Success"}"#);
        self.sink.send(Message::Binary(status.into())).await.ok()?;
        Some(self.sink)
    }
}

/// Waits for a mode; for ever if nobody is left to set it.
async fn until(mode: &mut watch::Receiver<StreamMode>, wanted: StreamMode) {
    if mode.wait_for(|mode| *mode == wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits while the stream is half-open.
async fn flowing(mode: &mut watch::Receiver<StreamMode>) {
    let _ = mode.wait_for(|mode| *mode != StreamMode::HalfOpen).await;
}

struct Reader {
    source: futures_util::stream::SplitStream<Socket>,
    shell: Option<Arc<Shell>>,
    input: Option<mpsc::Sender<Bytes>>,
    flags: Flags,
    mode: watch::Receiver<StreamMode>,
}

impl Reader {
    /// Reads what the client sends until it leaves.
    async fn run(&mut self) {
        loop {
            flowing(&mut self.mode).await;
            let message = tokio::select! {
                () = until(&mut self.mode, StreamMode::HalfOpen) => continue,
                message = self.source.next() => message,
            };
            match message {
                Some(Ok(Message::Binary(frame))) => self.frame(&frame).await,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(
                    Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_),
                )) => {}
            }
        }
    }

    async fn frame(&self, frame: &Bytes) {
        match frame.first() {
            Some(&STDIN) if self.flags.stdin && frame.len() > 1 => {
                if let Some(input) = &self.input {
                    // A shell that has ended takes no keys.
                    let _ = input.send(frame.slice(1..)).await;
                }
            }
            Some(&RESIZE) if self.flags.tty => {
                if let (Some(shell), Ok(size)) = (
                    &self.shell,
                    serde_json::from_slice::<TerminalSize>(&frame[1..]),
                ) {
                    shell.resize(size.width, size.height);
                }
            }
            // The end of stdin: the container's stdin is not `once`, so it stays open.
            Some(&CLOSE) => {}
            _ => {}
        }
    }
}
