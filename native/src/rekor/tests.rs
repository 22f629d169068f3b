use super::*;
use crate::fakes::log::{FakeLog, LogFault};
use crate::fakes::log_contract::{contract, entry};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Rekor's public instance, and an entry that it holds (2023).
const PUBLIC_KEY: &str = include_str!("tests/public-instance.pem");
const PUBLIC_ENTRY: &str = include_str!("tests/public-instance-entry.json");

/// How the server bends what the log behind it says.
type Bend = Box<dyn Fn(&str, Reply) -> Reply + Send>;

struct Reply {
    status: u16,
    location: Option<String>,
    body: Vec<u8>,
}

/// A Rekor server on loopback, around the fake log.
struct Server {
    url: Url,
    log: Arc<FakeLog>,
    bend: Arc<Mutex<Bend>>,
    /// Requests, as `METHOD path`.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self {
            // Behind a prefix, as a log often is.
            url: format!("http://{address}/log/").parse().unwrap(),
            log: Arc::default(),
            bend: Arc::new(Mutex::new(Box::new(|_, reply| reply))),
            seen: Arc::default(),
        };
        let (log, bend, seen) = (server.log.clone(), server.bend.clone(), server.seen.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, bend, seen) = (log.clone(), bend.clone(), seen.clone());
                tokio::spawn(async move { serve(stream, &log, &bend, &seen).await });
            }
        });
        server
    }

    fn adapter(&self) -> RekorLog {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let key = LogKey::from_pem(&self.log.pem()).unwrap();
        RekorLog::new(self.url.clone(), vec![key]).unwrap()
    }

    fn bend(&self, bend: impl Fn(&str, Reply) -> Reply + Send + 'static) {
        *self.bend.lock().unwrap() = Box::new(bend);
    }
}

async fn serve(
    mut stream: TcpStream,
    log: &FakeLog,
    bend: &Mutex<Bend>,
    seen: &Mutex<Vec<String>>,
) {
    let Some((line, body)) = request(&mut stream).await else {
        return;
    };
    seen.lock().unwrap().push(line.clone());
    let reply = reply(log, &line, &body).await;
    let reply = (bend.lock().unwrap())(&line, reply);
    let location = reply.location.map(|it| format!("location: {it}\r\n"));
    let head = format!(
        "HTTP/1.1 {} x\r\ncontent-length: {}\r\nconnection: close\r\n{}\r\n",
        reply.status,
        reply.body.len(),
        location.unwrap_or_default(),
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&reply.body).await;
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                let line = head.lines().next()?.rsplit_once(' ')?.0.to_owned();
                return Some((line, body.as_bytes().to_vec()));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn reply(log: &FakeLog, line: &str, body: &[u8]) -> Reply {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let proposed = |value: &Value| {
        let read: Option<answer::Proposed> = serde_json::from_value(value.clone()).ok();
        read.and_then(|it| it.entry())
    };
    let one = |found: Result<Option<Entered>, LogError>| match found {
        Ok(Some(entered)) => json(200, &FakeLog::answer(&entered)),
        Ok(None) => json(404, &json!({ "code": 404, "message": "not found" })),
        Err(error) => json(500, &json!({ "code": 500, "message": error.to_string() })),
    };
    let path = line
        .split_once("/log/api/v1/log/")
        .map(|(method, path)| (method.trim(), path));
    match path {
        Some(("GET", "publicKey")) => Reply {
            status: 200,
            location: None,
            body: log.pem().into_bytes(),
        },
        Some(("POST", "entries")) => match proposed(&body) {
            Some(entry) => match log.submit(&entry).await {
                Ok(Submitted::New(entered)) => json(201, &FakeLog::answer(&entered)),
                Ok(Submitted::AlreadyThere(there)) => Reply {
                    // As Rekor does: of the address that it saw itself.
                    location: Some(format!("/api/v1/log/entries/{}", there.uuid)),
                    ..json(
                        409,
                        &json!({ "code": 409, "message": "an equivalent entry exists" }),
                    )
                },
                Err(LogError::Away { why }) => json(503, &json!({ "message": why })),
                Err(error) => json(400, &json!({ "code": 400, "message": error.to_string() })),
            },
            None => json(422, &json!({ "code": 602, "message": "spec is required" })),
        },
        Some(("POST", "entries/retrieve")) => match proposed(&body["entries"][0]) {
            Some(entry) => match log.find(&entry).await {
                Ok(found) => {
                    let found: Vec<Value> = found.iter().map(FakeLog::answer).collect();
                    json(200, &Value::Array(found))
                }
                Err(error) => json(500, &json!({ "message": error.to_string() })),
            },
            None => json(422, &json!({ "message": "entries are required" })),
        },
        Some(("GET", path)) => match path.split_once("?logIndex=") {
            Some((_, index)) => one(log.at(index.parse().unwrap()).await),
            None => one(log.get(path.trim_start_matches("entries/")).await),
        },
        _ => json(405, &json!({ "message": "no such call" })),
    }
}

fn json(status: u16, value: &Value) -> Reply {
    Reply {
        status,
        location: None,
        body: value.to_string().into_bytes(),
    }
}

#[tokio::test]
async fn the_adapter_keeps_the_contract() {
    contract(&Server::start().await.adapter()).await;
}

#[tokio::test]
async fn an_entry_that_is_there_is_found_without_its_address() {
    let server = Server::start().await;
    let ours = entry(b"a recording", 9);
    let log = server.adapter();
    let first = log.submit(&ours).await.unwrap().into_entered();
    for location in [
        None,
        Some("https://evil.example/"),
        Some("/entries/../../x"),
    ] {
        server.bend(move |_, reply| Reply {
            location: location.map(str::to_owned),
            ..reply
        });
        let again = log.submit(&ours).await;
        assert_eq!(
            again,
            Ok(Submitted::AlreadyThere(first.clone())),
            "{location:?}"
        );
    }
    assert_eq!(server.log.entries().len(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_hold_ours_is_not_believed() {
    type Change = fn(&mut Value);
    let rows: [(&str, Change); 14] = [
        ("another log", |it| it["logID"] = json!("00".repeat(32))),
        ("another time", |it| it["integratedTime"] = json!(1)),
        ("another index", |it| it["logIndex"] = json!(77)),
        ("a negative index", |it| it["logIndex"] = json!(-1)),
        ("no promise", |it| it["verification"] = json!({})),
        ("no verification", |it| it["verification"] = Value::Null),
        ("an empty promise", |it| {
            it["verification"]["signedEntryTimestamp"] = json!("")
        }),
        ("a promise of others", |it| {
            let other = entry(b"x", 3).signature;
            it["verification"]["signedEntryTimestamp"] = json!(BASE64.encode(other));
        }),
        ("another body", |it| it["body"] = json!(BASE64.encode("{}"))),
        ("a body that is none", |it| it["body"] = json!("***")),
        ("a time that is none", |it| {
            it["integratedTime"] = json!(i64::MAX)
        }),
        ("a short root", |it| {
            it["verification"]["inclusionProof"]["rootHash"] = json!("ab")
        }),
        ("a hash that is none", |it| {
            it["verification"]["inclusionProof"]["hashes"] = json!(["+f".repeat(32)]);
        }),
        ("a proof without end", |it| {
            it["verification"]["inclusionProof"]["hashes"] = json!(vec!["00".repeat(32); 65]);
        }),
    ];
    let server = Server::start().await;
    let log = server.adapter();
    for (number, (what, change)) in rows.into_iter().enumerate() {
        server.bend(move |_, mut reply| {
            let mut body: Value = serde_json::from_slice(&reply.body).unwrap();
            body.as_object_mut().unwrap().values_mut().for_each(change);
            reply.body = body.to_string().into_bytes();
            reply
        });
        let ours = entry(what.as_bytes(), u8::try_from(number + 1).unwrap());
        let answer = log.submit(&ours).await;
        assert!(
            matches!(answer, Err(LogError::NotBelieved { .. })),
            "{what}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn another_entry_than_was_asked_for_is_not_believed() {
    let server = Server::start().await;
    let log = server.adapter();
    let theirs = log
        .submit(&entry(b"theirs", 8))
        .await
        .unwrap()
        .into_entered();
    let ours = log.submit(&entry(b"ours", 9)).await.unwrap().into_entered();
    let answer = FakeLog::answer(&theirs);
    server.bend(move |line, _| match line.contains("retrieve") {
        true => json(200, &json!([answer])),
        false => json(200, &answer),
    });
    let rows = [
        log.submit(&entry(b"new", 9)).await.map(|_| ()),
        log.find(&ours.entry).await.map(|_| ()),
        log.get(&ours.uuid).await.map(|_| ()),
        log.at(ours.index).await.map(|_| ()),
    ];
    for (number, answer) in rows.into_iter().enumerate() {
        assert!(
            matches!(answer, Err(LogError::NotBelieved { .. })),
            "{number}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn every_status_and_body_has_its_meaning() {
    #[derive(Debug, PartialEq)]
    enum Means {
        Away,
        Refused,
        NotBelieved,
    }
    let two = {
        let log = FakeLog::new();
        let mut both = json!({});
        for text in ["a", "b"] {
            let entered = log
                .submit(&entry(text.as_bytes(), 9))
                .await
                .unwrap()
                .into_entered();
            let answer = FakeLog::answer(&entered);
            both[&entered.uuid] = answer[&entered.uuid].clone();
        }
        both.to_string()
    };
    let rows: Vec<(u16, Vec<u8>, Means)> = vec![
        (500, b"{}".to_vec(), Means::Away),
        (503, b"<html>".to_vec(), Means::Away),
        (429, b"".to_vec(), Means::Away),
        (408, b"".to_vec(), Means::Away),
        (400, br#"{"message":"bad"}"#.to_vec(), Means::Refused),
        (404, b"".to_vec(), Means::Refused),
        (413, b"".to_vec(), Means::Refused),
        (302, b"".to_vec(), Means::NotBelieved),
        (204, b"".to_vec(), Means::NotBelieved),
        (201, b"".to_vec(), Means::NotBelieved),
        (201, b"{}".to_vec(), Means::NotBelieved),
        (201, b"[]".to_vec(), Means::NotBelieved),
        (201, two.into_bytes(), Means::NotBelieved),
        (201, vec![b'['; 100_000], Means::NotBelieved),
        (201, vec![b' '; LARGEST_ANSWER + 1], Means::NotBelieved),
    ];
    let server = Server::start().await;
    let log = server.adapter();
    for (status, body, means) in rows {
        let what = format!(
            "{status} {:?}",
            String::from_utf8_lossy(&body[..body.len().min(20)])
        );
        server.bend(move |_, _| Reply {
            status,
            // A redirect is not followed: it could lead anywhere.
            location: Some("/log/api/v1/log/publicKey".to_owned()),
            body: body.clone(),
        });
        let meant = match log.submit(&entry(b"x", 9)).await {
            Err(LogError::Away { .. }) => Means::Away,
            Err(LogError::Refused { .. }) => Means::Refused,
            Err(LogError::NotBelieved { .. }) => Means::NotBelieved,
            Ok(submitted) => panic!("{what}: {submitted:?}"),
        };
        assert_eq!(meant, means, "{what}");
    }
}

#[tokio::test]
async fn a_refusals_words_are_cut_and_disturb_no_terminal() {
    let server = Server::start().await;
    let long = format!("\u{1b}[31mno\n{}", "x".repeat(10_000));
    server.bend(move |_, _| json(400, &json!({ "message": long })));
    let Err(LogError::Refused { message }) = server.adapter().submit(&entry(b"x", 9)).await else {
        panic!("it is refused");
    };
    assert!(message.starts_with("400 Bad Request [31mno"), "{message}");
    assert!(message.chars().count() <= WORDS + 40, "{}", message.len());
    assert!(!message.contains(char::is_control));
}

#[tokio::test]
async fn a_log_that_is_not_there_is_away() {
    let server = Server::start().await;
    let log = server.adapter();
    server.log.set_fault(LogFault::Away);
    let answer = log.submit(&entry(b"x", 9)).await;
    assert!(matches!(answer, Err(LogError::Away { .. })), "{answer:?}");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap())
        .parse()
        .unwrap();
    drop(closed);
    let log = RekorLog::new(url, log.keys).unwrap();
    let answer = log.find(&entry(b"x", 9)).await;
    assert!(matches!(answer, Err(LogError::Away { .. })), "{answer:?}");
}

#[tokio::test]
async fn only_https_or_loopback_and_never_without_a_key() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = LogKey::from_pem(PUBLIC_KEY).unwrap();
    for (url, good) in [
        ("https://rekor.sigstore.dev", true),
        ("http://127.0.0.1:3000", true),
        ("http://[::1]:3000/", true),
        ("http://localhost:3000/", true),
        ("http://rekor.example", false),
        ("http://127.0.0.1.example", false),
        ("http://10.0.0.1", false),
        ("ftp://127.0.0.1", false),
        ("unix:///run/rekor", false),
    ] {
        let made = RekorLog::new(url.parse().unwrap(), vec![key.clone()]);
        assert_eq!(made.is_ok(), good, "{url}");
        let keyless = RekorLog::new(url.parse().unwrap(), Vec::new());
        assert!(keyless.is_err(), "{url}");
    }
}

#[test]
fn an_entry_of_the_public_instance_is_believed_and_no_changed_one() {
    let keys = [LogKey::from_pem(PUBLIC_KEY).unwrap()];
    assert_eq!(
        keys[0].id(),
        "c0d23d6ad406973f9559f3ba2d1ca01f84147d8ffc5b8445c224f98b9591801d"
    );
    let entered = answer::read(PUBLIC_ENTRY.as_bytes(), &keys).unwrap();
    assert_eq!(
        (entered.index, entered.integrated_at.as_second()),
        (16_394_784, 1_679_898_462)
    );
    assert_eq!(
        crate::recording::spool::hex(&entered.entry.sha256),
        "5c316ccb4f10c08d6f885c05d78ef3289bd31b8a19b000e009903713f4ddfa5b"
    );
    // What we would submit for it is, byte for byte, what the log keeps.
    let ours = serde_json::to_vec(&answer::Proposed::new(&entered.entry)).unwrap();
    assert_eq!(ours, entered.body);
    let other = PUBLIC_ENTRY.replace("16394784", "16394785");
    assert!(answer::read(other.as_bytes(), &keys).is_err());
    let stranger = [LogKey::from_pem(&FakeLog::new().pem()).unwrap()];
    assert!(answer::read(PUBLIC_ENTRY.as_bytes(), &stranger).is_err());
}
