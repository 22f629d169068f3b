//! `breakglass session attach`: the terminal, as the browser's is (spec 03).
//!
//! Invariants: the person's terminal is raw only while attached; no key is read before the notice
//! about the recording (T-16); a connection that breaks is made again while the session lives,
//! never without a pause; what the server says about the session goes to stderr.

use super::client::Client;
use super::failure::Failure;
use super::{say, tty};
use crate::http::error::chain;
use futures_util::{SinkExt, StreamExt};
use http::Method;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The largest `data` of an input frame (T-3); a character may take four bytes.
const LARGEST_INPUT: usize = 16 * 1024;
/// How long a broken connection is tried again: as long as a session waits for its terminal (T-7).
const RECONNECT_FOR: Duration = Duration::from_secs(120);
/// Between two tries, also where the server accepts and closes at once.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted this long worked; a break after it is a new one.
const STEADY: Duration = Duration::from_secs(10);
/// For the server to answer before the terminal is there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
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
    let days = retention_days(client, id).await;
    let stream = connect(client, id).await?;
    // Before the first key (T-16): stdin is read from here on.
    say(&notice(days));
    // From here on a signal must not end this program before the terminal is as it was.
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let raw = tty::Raw::enter()?;
    let (how, why) = tokio::select! {
        left = stay(client, id, stream) => left?,
        _ = terminated.recv() => return Err(told_to_stop()),
        _ = hung_up.recv() => return Err(told_to_stop()),
    };
    drop(raw);
    if json {
        super::print(&json!({"session": id, how: why}).to_string())
    } else {
        say(&format!("\r\n{how}: {why}"));
        Ok(())
    }
}

fn told_to_stop() -> Failure {
    Failure::Local("told to stop; the session goes on".to_owned())
}

/// Relays, over as many connections as it takes; how it was left, and why.
async fn stay(
    client: &Client,
    id: &str,
    mut stream: Stream,
) -> Result<(&'static str, String), Failure> {
    let mut keys = keys();
    let mut retry = Retry::default();
    loop {
        let began = Instant::now();
        match relay(stream, &mut keys).await? {
            Left::Broken => {
                say("\r\nthe connection broke; connecting again\r");
                stream = reconnect(client, id, &mut retry, began.elapsed()).await?;
            }
            Left::Ended(why) => return Ok(("ended", why)),
            Left::Detached(why) => return Ok(("detached", why)),
        }
    }
}

/// How long the recording is kept; `None` where the server does not say it. Whether the person
/// may attach is for the attachment itself to find out.
async fn retention_days(client: &Client, id: &str) -> Option<u64> {
    let show = client.call(Method::GET, client.url(&["sessions", id]), None);
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, show)
        .await
        .ok()?
        .ok()?;
    answer["recordingRetentionDays"].as_u64()
}

fn notice(days: Option<u64>) -> String {
    let kept = match days {
        Some(1) => "kept for 1 day".to_owned(),
        Some(days) => format!("kept for {days} days"),
        None => "kept; the server did not say for how long".to_owned(),
    };
    format!("everything typed and shown is recorded and {kept}; ~. leaves the terminal")
}

/// When a broken connection is made again.
#[derive(Default)]
struct Retry {
    /// When it broke, unless it has worked since.
    since: Option<Instant>,
}

impl Retry {
    /// How long to wait after a connection that lived so long broke; `None`: give up.
    fn pause(&mut self, now: Instant, lived: Duration) -> Option<Duration> {
        if lived >= STEADY {
            self.since = None;
        }
        let since = *self.since.get_or_insert(now);
        (now.saturating_duration_since(since) < RECONNECT_FOR).then_some(PAUSE)
    }
}

async fn reconnect(
    client: &Client,
    id: &str,
    retry: &mut Retry,
    mut lived: Duration,
) -> Result<Stream, Failure> {
    let mut reason = "it is made and breaks at once".to_owned();
    loop {
        let Some(pause) = retry.pause(Instant::now(), lived) else {
            return Err(Failure::Unreachable(format!(
                "the connection could not be kept for {} s, so the terminal is left: {reason}",
                RECONNECT_FOR.as_secs()
            )));
        };
        tokio::time::sleep(pause).await;
        match connect(client, id).await {
            Err(Failure::Unreachable(why)) => reason = why,
            outcome => return outcome,
        }
        lived = Duration::ZERO;
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
    match tokio::time::timeout(ANSWER_TIMEOUT, connect_async(request)).await {
        Ok(Ok((stream, _))) => Ok(stream),
        Ok(Err(WsError::Http(response))) => Err(refused(response.status().as_u16())),
        Ok(Err(error)) => Err(Failure::Unreachable(format!(
            "Backstage cannot be reached: {}",
            chain(&error)
        ))),
        Err(_) => Err(Failure::Unreachable("Backstage does not answer".to_owned())),
    }
}

fn refused(status: u16) -> Failure {
    let message = match status {
        401 => "the token is not valid".to_owned(),
        403 => "only the session's requester may attach".to_owned(),
        404 => "there is no such session".to_owned(),
        410 => "the session is over, or not ready".to_owned(),
        // Of the backend, or of a proxy whose backend is away for a moment.
        502..=504 => {
            return Failure::Unreachable(format!("the backend is not ready ({status})"));
        }
        status => format!("Backstage answered {status}"),
    };
    Failure::Refused { status, message }
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
    fn a_connection_that_breaks_at_once_is_made_again_with_pauses_and_not_for_ever() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut retry = Retry::default();
        for (seconds, lived, pause) in [
            (0, 0, Some(PAUSE)),
            (1, 0, Some(PAUSE)),
            (119, 9, Some(PAUSE)),
            (120, 9, None),
            // It worked in between, so this is another break.
            (140, 10, Some(PAUSE)),
            (259, 0, Some(PAUSE)),
            (260, 0, None),
        ] {
            let found = retry.pause(at(seconds), Duration::from_secs(lived));
            assert_eq!(found, pause, "{seconds} s");
        }
    }

    #[test]
    fn a_proxy_whose_backend_is_away_is_tried_again_and_a_refusal_is_not() {
        for status in [401, 403, 404, 410, 429, 500, 501] {
            assert!(
                matches!(refused(status), Failure::Refused { status: told, .. } if told == status)
            );
        }
        for status in [502, 503, 504] {
            assert!(
                matches!(refused(status), Failure::Unreachable(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn t16_the_notice_says_for_how_long_the_recording_is_kept() {
        assert!(notice(Some(365)).contains("recorded and kept for 365 days"));
        assert!(notice(Some(1)).contains("kept for 1 day;"));
        assert!(notice(None).contains("did not say for how long"));
    }

    #[test]
    fn what_the_server_says_ends_or_goes_on() {
        assert!(matches!(
            told(&json!({"type": "ended", "reason": "expired"})),
            Some(Left::Ended(why)) if why == "expired"
        ));
        assert!(told(&json!({"type": "warning", "secondsLeft": 300})).is_none());
        assert!(told(&json!({"type": "tomorrow"})).is_none());
        assert!(told(&json!(7)).is_none());
    }
}
