//! `breakglass session attach`: the terminal, as the browser's is (spec 03).
//!
//! Invariants: the person's terminal is raw only while attached; a connection that breaks is made
//! again while the session lives; what the server says about the session goes to stderr.

use super::client::Client;
use super::failure::Failure;
use super::{say, tty};
use futures_util::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The largest `data` of an input frame (T-3); a character may take four bytes.
const LARGEST_INPUT: usize = 16 * 1024;
/// How long a broken connection is tried again: as long as a session waits for its terminal (T-7).
const RECONNECT_FOR: u32 = 120;
const PING_EVERY: Duration = Duration::from_secs(10);

/// How an attachment ended.
enum Left {
    /// The session is over.
    Ended(String),
    /// The person left it, or another terminal took it; the session goes on.
    Detached(String),
    /// The connection broke.
    Broken,
}

/// Attaches until the session ends or the person leaves.
pub(super) async fn attach(client: &Client, id: &str, json: bool) -> Result<(), Failure> {
    let mut keys = keys();
    let mut tries = 0;
    let mut raw = None;
    loop {
        let stream = match connect(client, id).await {
            Ok(stream) => stream,
            Err(Failure::Unreachable(_)) if tries > 0 && tries < RECONNECT_FOR => {
                tries += 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if raw.is_none() {
            raw = tty::Raw::enter()?;
            if raw.is_some() {
                say("everything typed and shown is recorded and kept; ~. leaves the terminal\r");
            }
        }
        let left = relay(stream, &mut keys).await?;
        let (how, why) = match left {
            Left::Broken => {
                say("\r\nthe connection broke; connecting again\r");
                tries = 1;
                continue;
            }
            Left::Ended(why) => ("ended", why),
            Left::Detached(why) => ("detached", why),
        };
        drop(raw);
        if json {
            super::print(&json!({"session": id, how: why}).to_string())?;
        } else {
            say(&format!("\r\n{how}: {why}"));
        }
        return Ok(());
    }
}

async fn connect(client: &Client, id: &str) -> Result<Stream, Failure> {
    let mut url = client.url(&["sessions", id, "attach"]);
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    if url.set_scheme(scheme).is_err() {
        return Err(Failure::Usage(
            "the address is not http or https".to_owned(),
        ));
    }
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    request
        .headers_mut()
        .insert(AUTHORIZATION, client.authorization());
    match tokio::time::timeout(Duration::from_secs(15), connect_async(request)).await {
        Ok(Ok((stream, _))) => Ok(stream),
        Ok(Err(WsError::Http(response))) => {
            let status = response.status().as_u16();
            let message = match status {
                401 => "the token is not valid".to_owned(),
                403 => "only the session's requester may attach".to_owned(),
                404 => "there is no such session".to_owned(),
                410 => "the session is over, or not ready".to_owned(),
                503 => return Err(Failure::Unreachable("the backend is not ready".to_owned())),
                status => format!("Backstage answered {status}"),
            };
            Err(Failure::Refused { status, message })
        }
        Ok(Err(error)) => Err(Failure::Unreachable(format!(
            "Backstage cannot be reached: {error}"
        ))),
        Err(_) => Err(Failure::Unreachable("Backstage does not answer".to_owned())),
    }
}

async fn relay(mut stream: Stream, keys: &mut Keys) -> Result<Left, Failure> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut ping = tokio::time::interval(PING_EVERY);
    let (cols, rows) = tty::size().unwrap_or((80, 24));
    if send(&mut stream, &resize(cols, rows)).await.is_err() {
        return Ok(Left::Broken);
    }
    loop {
        let frame = tokio::select! {
            message = stream.next() => match message {
                Some(Ok(message)) => {
                    if let Some(left) = received(&mut stream, message).await? {
                        return Ok(left);
                    }
                    continue;
                }
                Some(Err(_)) | None => return Ok(Left::Broken),
            },
            typed = keys.next() => match typed {
                Typed::Text(data) => json!({"type": "input", "data": data}),
                Typed::Leave => {
                    let _ = stream.close(None).await;
                    return Ok(Left::Detached("you left the terminal".to_owned()));
                }
                Typed::Over => continue,
            },
            _ = resized.recv() => {
                let Some((cols, rows)) = tty::size() else { continue };
                resize(cols, rows)
            }
            _ = ping.tick() => {
                if stream.send(Message::Ping(Vec::new().into())).await.is_err() {
                    return Ok(Left::Broken);
                }
                continue;
            }
        };
        if send(&mut stream, &frame).await.is_err() {
            return Ok(Left::Broken);
        }
    }
}

fn resize(cols: u16, rows: u16) -> Value {
    json!({"type": "resize", "cols": cols, "rows": rows})
}

async fn send(stream: &mut Stream, frame: &Value) -> Result<(), WsError> {
    stream.send(Message::text(frame.to_string())).await
}

/// Draws output and acknowledges it (T-15); says what the server says.
async fn received(stream: &mut Stream, message: Message) -> Result<Option<Left>, Failure> {
    match message {
        Message::Binary(bytes) => {
            let drawn = bytes.len();
            // A terminal that does not draw must hold back the shell, not this program's memory.
            tokio::task::block_in_place(|| {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&bytes).and_then(|()| stdout.flush())
            })?;
            let _ = send(stream, &json!({"type": "ack", "bytes": drawn})).await;
            Ok(None)
        }
        Message::Text(text) => Ok(told(&serde_json::from_str(&text).unwrap_or_default())),
        Message::Close(_) => Ok(Some(Left::Broken)),
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(None),
    }
}

fn told(frame: &Value) -> Option<Left> {
    let reason = || {
        let reason = frame["reason"]
            .as_str()
            .or(frame["message"].as_str())
            .unwrap_or_default();
        reason
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect::<String>()
    };
    match frame["type"].as_str()? {
        "ended" => Some(Left::Ended(reason())),
        "detached" if reason().contains("another tab") => Some(Left::Detached(reason())),
        "detached" => {
            say(&format!("\r\n{}\r", reason()));
            None
        }
        "warning" => {
            let minutes = frame["secondsLeft"]
                .as_u64()
                .unwrap_or_default()
                .div_ceil(60);
            say(&format!("\r\nthe session ends in {minutes} min\r"));
            None
        }
        "error" => {
            say(&format!("\r\n{}\r", reason()));
            None
        }
        // Clients ignore what they do not know (T-3).
        _ => None,
    }
}

/// What was typed.
enum Typed {
    Text(String),
    /// `~.` at the start of a line.
    Leave,
    /// Stdin is at its end; the session goes on until it ends by itself.
    Over,
}

struct Keys {
    bytes: mpsc::Receiver<Vec<u8>>,
    over: bool,
    partial: Vec<u8>,
    escape: Escape,
}

/// Reads stdin for the process's lifetime; bounded, so that pasting cannot grow memory.
fn keys() -> Keys {
    let (sender, bytes) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut stdin = tokio::io::stdin();
        let mut buffer = vec![0; LARGEST_INPUT];
        while let Ok(read) = stdin.read(&mut buffer).await {
            if read == 0 || sender.send(buffer[..read].to_vec()).await.is_err() {
                break;
            }
        }
    });
    Keys {
        bytes,
        over: false,
        partial: Vec::new(),
        escape: Escape::LineStart,
    }
}

impl Keys {
    async fn next(&mut self) -> Typed {
        if self.over {
            std::future::pending::<()>().await;
        }
        let Some(bytes) = self.bytes.recv().await else {
            self.over = true;
            return Typed::Over;
        };
        if self.escape.sees(&bytes) {
            return Typed::Leave;
        }
        self.partial.extend_from_slice(&bytes);
        // A character cut by the read waits for its rest.
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.partial.len(),
        };
        let rest = self.partial.split_off(whole);
        let text = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial = rest;
        Typed::Text(text)
    }
}

/// Where in `Enter ~ .` the typing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Escape {
    LineStart,
    Tilde,
    Elsewhere,
}

impl Escape {
    fn sees(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            *self = match (*self, byte) {
                (Self::Tilde, b'.') => return true,
                (_, b'\r' | b'\n') => Self::LineStart,
                (Self::LineStart, b'~') => Self::Tilde,
                (Self::LineStart | Self::Tilde | Self::Elsewhere, _) => Self::Elsewhere,
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &[&[u8]], leaves: bool) {
        let mut escape = Escape::LineStart;
        assert_eq!(typed.iter().any(|bytes| escape.sees(bytes)), leaves);
    }

    #[test]
    fn the_escape_is_seen_at_the_start_of_a_line_only() {
        check(&[b"~."], true);
        check(&[b"ls\r~", b"."], true);
        check(&[b"ls ~."], false);
        check(&[b"~x."], false);
        check(&[b"\r", b"~", b"~", b"."], false);
    }

    #[test]
    fn what_the_server_says_ends_or_goes_on() {
        assert!(
            matches!(told(&json!({"type": "ended", "reason": "expired"})), Some(Left::Ended(why)) if why == "expired")
        );
        assert!(told(&json!({"type": "warning", "secondsLeft": 300})).is_none());
        assert!(told(&json!({"type": "tomorrow"})).is_none());
        assert!(told(&json!(7)).is_none());
    }
}
