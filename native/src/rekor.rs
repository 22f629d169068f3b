//! A Rekor v1 log over HTTP: `hashedrekord` 0.0.1 entries.
//!
//! Invariants: HTTPS, or loopback; no redirect is followed; an answer is bounded in size and time
//! and checked by `answer` before it is believed. A name that the log gives is used as a name only,
//! never as an address. Not here: signing, and the check of inclusion proofs, which `answer` hands
//! on as they came: an entry is believed for its signed entry timestamp, verified against the
//! configured key.

pub(crate) mod answer;

pub use answer::{BadKey, LogKey};

use crate::http::error::chain;
use crate::ports::log::{Entered, Entry, LogError, Submitted, TransparencyLog};
use answer::{Proposed, is_uuid};
use async_trait::async_trait;
use reqwest::header::LOCATION;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::json;
use std::time::Duration;
use url::{Host, Url};

/// One call, with its answer (a log may wait for its tree).
const CALL: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);
/// An entry with its proof takes a few KiB.
const LARGEST_ANSWER: usize = 1 << 20;
/// So much of a refusal's words is kept.
const WORDS: usize = 300;

/// A log that cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum BadLog {
    /// Only HTTPS is secret and whole on the way.
    #[error("`{0}` is not an https address; only a log on loopback may be http")]
    NotHttps(Url),
    /// Without a key nothing it answers can be believed.
    #[error("the transparency log has no key; give the log's public key")]
    NoKey,
    /// The HTTP client could not be made.
    #[error("no HTTP client for the transparency log: {0}")]
    Client(String),
}

/// A Rekor v1 log.
pub struct RekorLog {
    http: reqwest::Client,
    base: Url,
    keys: Vec<LogKey>,
}

impl RekorLog {
    /// The log at `base`. What it answers is believed where one of `keys` signed it.
    pub fn new(base: Url, keys: Vec<LogKey>) -> Result<Self, BadLog> {
        let loopback = match base.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if base.scheme() != "https" && !(base.scheme() == "http" && loopback) {
            return Err(BadLog::NotHttps(base));
        }
        if keys.is_empty() {
            return Err(BadLog::NoKey);
        }
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!loopback)
            .connect_timeout(CONNECT)
            .timeout(CALL);
        let client = if loopback { client.no_proxy() } else { client };
        let http = client
            .build()
            .map_err(|error| BadLog::Client(chain(&error)))?;
        Ok(Self { http, base, keys })
    }

    fn call(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v1", "log"]);
            segments.extend(path);
        }
        url
    }

    /// The one entry of an answer, or `None` where the log has none.
    async fn entry(&self, request: RequestBuilder) -> Result<Option<Entered>, LogError> {
        let response = send(request).await?;
        let status = response.status();
        let bytes = bounded(response).await?;
        match status {
            StatusCode::OK => answer::read(&bytes, &self.keys).map(Some),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(failure(status, &bytes)),
        }
    }
}

#[async_trait]
impl TransparencyLog for RekorLog {
    async fn submit(&self, entry: &Entry) -> Result<Submitted, LogError> {
        let request = self.call(Method::POST, &["entries"]);
        let response = send(request.json(&Proposed::new(entry))).await?;
        let status = response.status();
        let location = location(&response);
        let bytes = bounded(response).await?;
        match status {
            StatusCode::OK | StatusCode::CREATED => {
                let entered = answer::read(&bytes, &self.keys)?;
                answer::holds(&entered, entry)?;
                Ok(Submitted::New(entered))
            }
            StatusCode::CONFLICT => {
                let there = match location {
                    Some(uuid) => self.get(&uuid).await?,
                    None => self.find(entry).await?,
                };
                let entered = there.ok_or_else(|| LogError::Away {
                    why: "it has the entry and does not give it yet".to_owned(),
                })?;
                answer::holds(&entered, entry)?;
                Ok(Submitted::AlreadyThere(entered))
            }
            _ => Err(failure(status, &bytes)),
        }
    }

    async fn find(&self, entry: &Entry) -> Result<Option<Entered>, LogError> {
        let request = self.call(Method::POST, &["entries", "retrieve"]);
        let request = request.json(&json!({ "entries": [Proposed::new(entry)] }));
        let response = send(request).await?;
        let status = response.status();
        let bytes = bounded(response).await?;
        if status != StatusCode::OK {
            return Err(failure(status, &bytes));
        }
        let found = answer::read_list(&bytes, &self.keys)?;
        if let Some(entered) = &found {
            answer::holds(entered, entry)?;
        }
        Ok(found)
    }

    async fn get(&self, uuid: &str) -> Result<Option<Entered>, LogError> {
        if !is_uuid(uuid) {
            return Ok(None);
        }
        let found = self
            .entry(self.call(Method::GET, &["entries", uuid]))
            .await?;
        match found {
            Some(other) if !answer::same_leaf(&other.uuid, uuid) => Err(LogError::NotBelieved {
                what: "it gave another entry than was asked for".to_owned(),
            }),
            found => Ok(found),
        }
    }

    async fn at(&self, index: u64) -> Result<Option<Entered>, LogError> {
        let mut url = self.url(&["entries"]);
        url.set_query(Some(&format!("logIndex={index}")));
        let found = self.entry(self.http.get(url)).await?;
        match found {
            Some(other) if other.index != index => Err(LogError::NotBelieved {
                what: "it gave another entry than was asked for".to_owned(),
            }),
            found => Ok(found),
        }
    }

    async fn public_key(&self) -> Result<String, LogError> {
        let response = send(self.call(Method::GET, &["publicKey"])).await?;
        let status = response.status();
        let bytes = bounded(response).await?;
        if status != StatusCode::OK {
            return Err(failure(status, &bytes));
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        LogKey::from_pem(&text).map_err(|error| LogError::NotBelieved {
            what: error.to_string(),
        })?;
        Ok(text)
    }
}

/// The name at the end of a `Location`: the log builds the address from what it saw of ours, which
/// behind a proxy is wrong.
fn location(response: &Response) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let name = location.trim_end_matches('/').rsplit('/').next()?;
    is_uuid(name).then(|| name.to_owned())
}

async fn send(request: RequestBuilder) -> Result<Response, LogError> {
    request.send().await.map_err(away)
}

fn away(error: reqwest::Error) -> LogError {
    let why = chain(&error.without_url());
    LogError::Away { why }
}

async fn bounded(mut response: Response) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(away)? {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(LogError::NotBelieved {
                what: format!("it is larger than {LARGEST_ANSWER} bytes"),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// An answer that is no entry: the log's words, cut, without what would disturb a terminal.
fn failure(status: StatusCode, body: &[u8]) -> LogError {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let said = body["message"].as_str().unwrap_or_default();
    let said: String = said
        .chars()
        .filter(|it| !it.is_control())
        .take(WORDS)
        .collect();
    let message = format!("{status} {said}").trim_end().to_owned();
    let later = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    if status.is_server_error() || later.contains(&status) {
        return LogError::Away { why: message };
    }
    if status.is_client_error() {
        return LogError::Refused { message };
    }
    LogError::NotBelieved {
        what: format!("it answered {message}"),
    }
}

#[cfg(test)]
mod tests;
