//! A browser's end of a terminal: a WebSocket over the Unix socket, as the shim passes it on.

use breakglass::http::caller::encode;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest};

const SOON: Duration = Duration::from_secs(60);
static ECHOES: AtomicU32 = AtomicU32::new(0);

/// What came so far.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// The terminal's output.
    pub(crate) output: Vec<u8>,
    /// The text frames.
    pub(crate) frames: Vec<Value>,
    /// How often a sign of life was asked for.
    pub(crate) pings: usize,
    /// Whether the connection is over, and with which code.
    pub(crate) closed: Option<Option<u16>>,
}

/// An attached terminal. Its pings are answered while it lives.
pub(crate) struct Terminal {
    sink: SplitSink<WebSocketStream<UnixStream>, Message>,
    seen: Arc<Mutex<Seen>>,
    reading: tokio::task::JoinHandle<()>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Terminal {
    /// Attaches; or the status and body of the refusal.
    pub(crate) async fn attach(
        socket: &Path,
        caller: &Value,
        id: &str,
    ) -> Result<Self, (u16, String)> {
        let stream = UnixStream::connect(socket).await.expect("the socket");
        let url = format!("ws://sidecar/v1/sessions/{id}/attach");
        let mut request = url.into_client_request().expect("a request");
        let header = encode(caller).parse().expect("a header");
        request.headers_mut().insert("x-breakglass-caller", header);
        let (socket, _) = match tokio_tungstenite::client_async(request, stream).await {
            Ok(attached) => attached,
            Err(Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                let body = String::from_utf8_lossy(&body).into_owned();
                return Err((response.status().as_u16(), body));
            }
            Err(error) => panic!("no WebSocket: {error}"),
        };
        let (sink, mut stream) = socket.split();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let into = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            let mut code = None;
            while let Some(Ok(message)) = stream.next().await {
                let mut seen = lock(&into);
                match message {
                    Message::Binary(bytes) => seen.output.extend_from_slice(&bytes),
                    Message::Text(text) => {
                        seen.frames.push(serde_json::from_str(&text).expect("JSON"));
                    }
                    Message::Close(frame) => code = frame.map(|frame| frame.code.into()),
                    Message::Ping(_) => seen.pings += 1,
                    Message::Pong(_) | Message::Frame(_) => {}
                }
            }
            lock(&into).closed = Some(code);
        });
        Ok(Self {
            sink,
            seen,
            reading,
        })
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_raw(Message::Text(frame.to_string().into())).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.sink.send(message).await.expect("the frame is sent");
    }

    /// As `send_raw`, where the other side may hang up.
    pub(crate) async fn try_send(&mut self, message: Message) -> bool {
        self.sink.send(message).await.is_ok()
    }

    pub(crate) async fn type_in(&mut self, text: &str) {
        self.send(&json!({"type": "input", "data": text})).await;
    }

    /// Types a command whose output differs from what is typed, and waits for it: the shell works
    /// and both ways are open. No two have the same output, which is returned.
    pub(crate) async fn echo(&mut self) -> String {
        let count = 1000 + ECHOES.fetch_add(1, Ordering::Relaxed);
        self.type_in(&format!("echo echo-$((1 + {count}))-back\n"))
            .await;
        let printed = format!("echo-{}-back", 1 + count);
        self.until_output(&printed).await;
        printed
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&lock(&self.seen).output).into_owned()
    }

    /// The frames of a type, so far.
    pub(crate) fn frames(&self, kind: &str) -> Vec<Value> {
        let seen = lock(&self.seen);
        seen.frames
            .iter()
            .filter(|frame| frame["type"] == kind)
            .cloned()
            .collect()
    }

    pub(crate) async fn until_output(&self, text: &str) {
        self.until(text, |seen| {
            String::from_utf8_lossy(&seen.output).contains(text)
        })
        .await;
    }

    /// The first frame of a type.
    pub(crate) async fn until_frame(&self, kind: &str) -> Value {
        self.until(kind, |seen| {
            seen.frames.iter().any(|frame| frame["type"] == kind)
        })
        .await;
        self.frames(kind).remove(0)
    }

    /// The reason that the session ended with, as the browser is told.
    pub(crate) async fn until_ended(&self) -> String {
        let frame = self.until_frame("ended").await;
        frame["reason"].as_str().expect("a reason").to_owned()
    }

    /// The next question for a sign of life, after so many.
    pub(crate) async fn until_pinged(&self, before: usize) {
        self.until("a ping", |seen| seen.pings > before).await;
    }

    /// The close code, once the connection is over.
    pub(crate) async fn until_closed(&self) -> Option<u16> {
        self.until("the close", |seen| seen.closed.is_some()).await;
        self.seen().closed.flatten()
    }

    async fn until(&self, what: &str, is: impl Fn(&Seen) -> bool) {
        let deadline = tokio::time::Instant::now() + SOON;
        while tokio::time::Instant::now() < deadline {
            if is(&lock(&self.seen)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let seen = self.seen();
        let output = String::from_utf8_lossy(&seen.output).into_owned();
        panic!(
            "`{what}` did not come; frames {:?}, closed {:?}, output {output:?}",
            seen.frames, seen.closed
        );
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
