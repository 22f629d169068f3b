//! A terminal as the browser has it: a WebSocket through Backstage, the token as its subprotocol.

use crate::StageError;
use crate::cli::Person;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// How long anything may take to appear.
const WITHIN: Duration = Duration::from_secs(30);

/// One tab.
pub struct Tab {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    output: Vec<u8>,
    frames: Vec<Value>,
    closed: bool,
}

/// Why there is no terminal: the HTTP status of the refusal, if there was one.
#[derive(Debug)]
pub struct Refused(pub Option<u16>);

impl Tab {
    /// Connects as Tower does: origin of the app, token as the subprotocol.
    pub async fn connect(person: &Person, id: &str) -> Result<Self, Refused> {
        Self::connect_from(person, id, Some(&person.url)).await
    }

    /// Connects from any origin.
    pub async fn connect_from(
        person: &Person,
        id: &str,
        origin: Option<&str>,
    ) -> Result<Self, Refused> {
        let address = person.url.replacen("http", "ws", 1);
        let address = format!("{address}/api/glidepath/breakglass/sessions/{id}/attach");
        let mut request = address.into_client_request().map_err(|_| Refused(None))?;
        let headers = request.headers_mut();
        if let Ok(token) = person.token.parse() {
            headers.insert("sec-websocket-protocol", token);
        }
        if let Some(origin) = origin.and_then(|origin| origin.parse().ok()) {
            headers.insert("origin", origin);
        }
        match connect_async(request).await {
            Ok((socket, _)) => Ok(Self {
                socket,
                output: Vec::new(),
                frames: Vec::new(),
                closed: false,
            }),
            Err(WsError::Http(response)) => Err(Refused(Some(response.status().as_u16()))),
            Err(_) => Err(Refused(None)),
        }
    }

    /// Sends one frame.
    pub async fn send(&mut self, frame: &Value) -> Result<(), StageError> {
        self.socket
            .send(Message::text(frame.to_string()))
            .await
            .map_err(|error| StageError::of("the terminal", error))
    }

    /// Types text.
    pub async fn type_in(&mut self, text: &str) -> Result<(), StageError> {
        self.send(&json!({"type": "input", "data": text})).await
    }

    /// Says how large it is.
    pub async fn resize(&mut self, cols: u16, rows: u16) -> Result<(), StageError> {
        self.send(&json!({"type": "resize", "cols": cols, "rows": rows}))
            .await
    }

    /// Types a line and waits for `expected` in what comes after.
    pub async fn ask(&mut self, line: &str, expected: &str) -> Result<String, StageError> {
        self.output.clear();
        self.type_in(&format!("{line}\r")).await?;
        self.shows(expected).await
    }

    /// Waits until the output since the last `ask` holds this text.
    pub async fn shows(&mut self, expected: &str) -> Result<String, StageError> {
        let found = |tab: &Self| {
            let text = String::from_utf8_lossy(&tab.output).into_owned();
            text.contains(expected).then_some(text)
        };
        self.until(&format!("`{expected}` in the terminal"), found)
            .await
    }

    /// Waits until the raw output since the last `ask` holds these bytes.
    pub async fn shows_bytes(&mut self, expected: &[u8]) -> Result<(), StageError> {
        let holds = |tab: &Self| {
            tab.output
                .windows(expected.len())
                .any(|window| window == expected)
                .then_some(())
        };
        self.until("these bytes in the terminal", holds).await
    }

    /// Waits for a frame of this type.
    pub async fn told(&mut self, kind: &str) -> Result<Value, StageError> {
        let found = |tab: &Self| {
            tab.frames
                .iter()
                .find(|frame| frame["type"] == kind)
                .cloned()
        };
        self.until(&format!("a frame `{kind}`"), found).await
    }

    /// Forgets what was shown so far.
    pub fn forget(&mut self) {
        self.output.clear();
    }

    /// Whether the socket is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    async fn until<T>(
        &mut self,
        what: &str,
        mut question: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, StageError> {
        let reading = async {
            loop {
                if let Some(answer) = question(self) {
                    return Some(answer);
                }
                match self.socket.next().await {
                    Some(Ok(Message::Binary(bytes))) => self.output.extend_from_slice(&bytes),
                    Some(Ok(Message::Text(text))) => {
                        self.frames
                            .push(serde_json::from_str(&text).unwrap_or_default());
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => {
                        self.closed = true;
                        return question(self);
                    }
                }
            }
        };
        match tokio::time::timeout(WITHIN, reading).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(StageError::new(format!(
                "the terminal closed before {what}"
            ))),
            Err(_) => Err(StageError::new(format!(
                "{what} did not come within {WITHIN:?}"
            ))),
        }
    }
}
