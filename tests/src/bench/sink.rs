//! The browser's side: reads everything, counts it, acknowledges as terminals do.

use crate::StageError;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A browser acknowledges what it has drawn about this often (T-15).
const ACK_EACH: usize = 64 * 1024;
/// How long the slowest may take for the largest run.
const WITHIN: Duration = Duration::from_secs(90);

/// Nothing came for so long: nothing comes.
const QUIET: Duration = Duration::from_millis(500);

/// Where the relay is reached.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// The relay itself, as Node reaches it.
    Unix(PathBuf),
    /// Node, as a browser reaches it.
    Tcp(u16),
}

pub(super) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A browser in front of one session.
pub(super) struct Browser(WebSocketStream<Box<dyn Io>>);

impl Browser {
    pub(super) async fn open(address: &Address, session: usize) -> Result<Self, StageError> {
        let told = |error| StageError::of("the relay is not reached", error);
        let io: Box<dyn Io> = match address {
            Address::Unix(path) => Box::new(UnixStream::connect(path).await.map_err(told)?),
            Address::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))
                    .await
                    .map_err(told)?;
                stream.set_nodelay(true).map_err(told)?;
                Box::new(stream)
            }
        };
        let url = format!("ws://localhost/{session}");
        let (socket, _) = tokio_tungstenite::client_async(url, io)
            .await
            .map_err(|error| StageError::of("the relay refuses a browser", error))?;
        let mut this = Self(socket);
        this.send(&json!({"type": "resize", "cols": 80, "rows": 24}))
            .await?;
        Ok(this)
    }

    /// Types.
    pub(super) async fn type_in(&mut self, text: &str) -> Result<(), StageError> {
        self.send(&json!({"type": "input", "data": text})).await
    }

    /// Waits for the echo of `key`; what came before it is late output of something else.
    pub(super) async fn echo(&mut self, key: u8) -> Result<(), StageError> {
        while !self.output().await?.ends_with(&[key]) {}
        Ok(())
    }

    /// Waits for the next output.
    pub(super) async fn output(&mut self) -> Result<Bytes, StageError> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
                Some(Ok(Message::Close(_))) | None => {
                    return Err(StageError::new("the relay closed the connection"));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(StageError::of("the connection broke", error)),
            }
        }
    }

    /// Reads what there is: the prompt, and the echo of the newline that the launcher gets.
    pub(super) async fn settle(&mut self) -> Result<(), StageError> {
        while let Ok(output) = tokio::time::timeout(QUIET, self.output()).await {
            output?;
        }
        Ok(())
    }

    /// Reads output until there were `bytes` of it, and not one more.
    pub(super) async fn drain(&mut self, bytes: usize) -> Result<(), StageError> {
        let reading = async {
            let (mut seen, mut acknowledged) = (0, 0);
            while seen < bytes {
                seen += self.output().await?.len();
                if seen - acknowledged >= ACK_EACH {
                    self.send(&json!({"type": "ack", "bytes": seen - acknowledged}))
                        .await?;
                    acknowledged = seen;
                }
            }
            Ok(seen)
        };
        match tokio::time::timeout(WITHIN, reading).await {
            Ok(Ok(seen)) if seen == bytes => Ok(()),
            Ok(Ok(seen)) => Err(StageError::new(format!("{seen} bytes of {bytes} arrived"))),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StageError::new(format!(
                "{bytes} bytes took more than {WITHIN:?}"
            ))),
        }
    }

    async fn send(&mut self, frame: &Value) -> Result<(), StageError> {
        let sent = self.0.send(Message::text(frame.to_string())).await;
        sent.map_err(|error| StageError::of("the relay does not listen", error))
    }
}
