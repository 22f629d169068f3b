//! Backstage's routes, as Tower uses them.

use super::Backstage;
use super::failure::Failure;
use crate::http::error::chain;
use http::{Method, StatusCode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// Longer than Backstage's plugin waits for an opening (240 s, S-14a), so that it is the plugin
/// that says what became of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(250);
/// An answer about sessions is small.
const LARGEST_ANSWER: usize = 8 << 20;

/// A signed-in client.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    authorization: HeaderValue,
}

impl Client {
    /// Reads address and token from the options.
    pub(super) fn new(backstage: &Backstage) -> Result<Self, Failure> {
        let url = backstage.url.clone().ok_or_else(|| {
            Failure::Usage("say where Backstage is: --url or BREAKGLASS_URL".to_owned())
        })?;
        let token = match (&backstage.token, &backstage.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) => std::fs::read_to_string(file).map_err(|error| {
                Failure::Usage(format!("cannot read the token's file: {error}"))
            })?,
            (None, None) => {
                return Err(Failure::Usage(
                    "say who you are: BREAKGLASS_TOKEN or --token-file".to_owned(),
                ));
            }
        };
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| Failure::Usage("the token has characters no token has".to_owned()))?;
        authorization.set_sensitive(true);
        let http = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .connect_timeout(Duration::from_secs(10))
            .build()
            .map_err(|error| Failure::Local(chain(&error)))?;
        let mut base = url;
        let path = format!(
            "{}/api/glidepath/breakglass",
            base.path().trim_end_matches('/')
        );
        base.set_path(&path);
        Ok(Self {
            http,
            base,
            authorization,
        })
    }

    /// A route's address.
    pub(super) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(segments);
        }
        url
    }

    /// The value of the `Authorization` header.
    pub(super) fn authorization(&self) -> HeaderValue {
        self.authorization.clone()
    }

    /// One call; the answer's JSON.
    pub(super) async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let response = self.send(method, url, body).await?;
        let bytes = bounded(response).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::Unreachable(format!("the answer is not JSON: {error}")))
    }

    /// One call; a refusal is a failure with the server's words.
    pub(super) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
    ) -> Result<reqwest::Response, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.authorization());
        let reads = method == Method::GET;
        let mut request = self.http.request(method, url).headers(headers);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| {
            // It may have arrived: what came of it is not known (S-14a).
            let sent = !reads && !error.is_connect() && !error.is_builder();
            let what = if sent {
                "no answer came; whether it was done is not known, so look at the session"
            } else {
                "Backstage cannot be reached"
            };
            Failure::Unreachable(format!("{what}: {}", without_url(error)))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = bounded(response).await.unwrap_or_default();
        Err(Failure::Refused {
            status: status.as_u16(),
            message: words(status, &bytes),
        })
    }
}

async fn bounded(mut response: reqwest::Response) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| Failure::Unreachable(without_url(error)))?
    {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(Failure::Unreachable("the answer is too large".to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The error and its causes; its URL may hold what is not for others.
pub(super) fn without_url(error: reqwest::Error) -> String {
    chain(&error.without_url())
}

/// What the server said, field by field where it did.
fn words(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or_default();
    let mut text = if message.is_empty() {
        format!("Backstage answered {status}")
    } else {
        message.to_owned()
    };
    for problem in body["error"]["problems"].as_array().into_iter().flatten() {
        let field = problem["field"].as_str().unwrap_or_default();
        let message = problem["message"].as_str().unwrap_or_default();
        text.push_str(&format!("\n  {field}: {message}"));
    }
    text
}
