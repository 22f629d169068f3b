//! One step's calls to a cluster: as whom, for how long at most, how much is read (C-2, C-28).
//!
//! Invariants: a minted token lives for one step and is in no error, log or `Debug`; every call
//! ends within its deadline; an answer is bounded before it is parsed.

use super::config::{Account, ClusterConfig, Way};
use super::connection::{Connection, Speaks};
use super::error;
use crate::ports::ClusterError;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Resource;
use kube::api::PostParams;
use kube::client::{Body, Client};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Seconds that a minted token lives: the API's least (C-2).
const TOKEN_SECONDS: i64 = 600;
/// Bytes of an answer. A page of 250 pods is a few MiB; one object is 1.5 MiB at most.
const ANSWER_MAX: usize = 32 << 20;
const REFUSAL_MAX: usize = 64 << 10;

/// The way to one cluster.
pub(super) struct Reach {
    connection: Connection,
    mint: Option<Mint>,
    deadline: Duration,
    permits: Semaphore,
    username: Mutex<Option<String>>,
}

/// Where the token of a step comes from. Its connection is its own, so that a slow home cluster
/// takes no place from its own sessions.
struct Mint {
    home: Connection,
    account: Account,
}

/// The calls of one step, all as the same identity.
pub(super) struct Caller<'r> {
    reach: &'r Reach,
    bearer: Option<HeaderValue>,
}

impl Reach {
    /// `home` is the way to the cluster that mints this one's token, where there is one.
    pub(super) fn new(name: &str, config: &ClusterConfig, home: Option<(&str, &Way)>) -> Self {
        let connect = config.limits.connect;
        let account = match &config.way {
            Way::MintedToken(way) => Some(Account {
                service_account: way.service_account.clone(),
                audience: way.audience.clone(),
            }),
            Way::InCluster | Way::Kubeconfig(_) => config.act_as.clone(),
        };
        let speaks = if account.is_some() {
            Speaks::AsEachRequestSays
        } else {
            Speaks::AsConfigured
        };
        let (home, home_way) = home.unwrap_or((name, &config.way));
        let mint = account.map(|account| Mint {
            home: Connection::new(home, home_way, Speaks::AsConfigured, connect),
            account,
        });
        Self {
            connection: Connection::new(name, &config.way, speaks, connect),
            mint,
            deadline: config.limits.call,
            permits: Semaphore::new(config.limits.concurrent_calls),
            username: Mutex::new(None),
        }
    }

    pub(super) fn cluster(&self) -> &str {
        self.connection.cluster()
    }

    /// Begins a step: mints its token where there is one to mint.
    pub(super) async fn caller(&self) -> Result<Caller<'_>, ClusterError> {
        let bearer = match &self.mint {
            Some(mint) => Some(self.minted(mint).await?),
            None => None,
        };
        Ok(Caller {
            reach: self,
            bearer,
        })
    }

    async fn minted(&self, mint: &Mint) -> Result<HeaderValue, ClusterError> {
        let minting = async {
            match mint.token().await {
                // The home cluster's credentials may have been replaced since they were read.
                Err(ClusterError::Unauthorized { .. }) if mint.home.renew() => mint.token().await,
                other => other,
            }
        };
        let minted = tokio::time::timeout(self.deadline, minting).await;
        minted.map_err(|_| late(mint.home.cluster(), self.deadline))?
    }

    /// The username that a step before found out; see `identity`.
    pub(super) fn known_username(&self) -> Option<String> {
        self.username
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn remember_username(&self, name: Option<String>) {
        *self.username.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

impl Mint {
    async fn token(&self) -> Result<HeaderValue, ClusterError> {
        let cluster = self.home.cluster();
        let account = &self.account.service_account;
        let url = ServiceAccount::url_path(&(), Some(&account.namespace));
        let wanted = TokenRequest {
            spec: TokenRequestSpec {
                audiences: self.account.audience.iter().cloned().collect(),
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let body =
            serde_json::to_vec(&wanted).map_err(|e| error::unexpected(cluster, e.to_string()))?;
        let request = kube::core::Request::new(url)
            .create_subresource("token", &account.name, &PostParams::default(), body)
            .map_err(|e| error::unexpected(cluster, e.to_string()))?;
        let client = self.home.client().await?;
        let what = format!("a token for `{}/{}`", account.namespace, account.name);
        let response = send(&client, cluster, request, None).await?;
        let answer = read(cluster, response, &what).await?;
        let token = answer
            .pointer("/status/token")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let bearer = HeaderValue::try_from(format!("Bearer {token}"));
        match bearer {
            Ok(mut value) if !token.is_empty() => {
                value.set_sensitive(true);
                Ok(value)
            }
            Ok(_) | Err(_) => Err(error::unexpected(
                cluster,
                format!("it gave no token for {what}"),
            )),
        }
    }
}

impl Caller<'_> {
    pub(super) fn cluster(&self) -> &str {
        self.reach.cluster()
    }

    pub(super) fn deadline(&self) -> Duration {
        self.reach.deadline
    }

    /// Sends a request and reads its JSON answer. `what` says what is asked for, in errors.
    pub(super) async fn json(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        what: &str,
    ) -> Result<Value, ClusterError> {
        let request = self.built(request)?;
        self.bounded(async {
            let _place = self.place().await?;
            let response = self.send(&request).await?;
            self.noted(read(self.cluster(), response, what).await)
        })
        .await
    }

    /// Sends a request and gives its answer's head, with the body yet to come: a stream, which
    /// takes no place among the calls.
    pub(super) async fn open(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        what: &str,
    ) -> Result<Response<Body>, ClusterError> {
        let request = self.built(request)?;
        self.bounded(async {
            let _place = self.place().await?;
            let response = self.send(&request).await?;
            self.noted(accepted(self.cluster(), response, what).await)
        })
        .await
    }

    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let done = tokio::time::timeout(self.deadline(), work).await;
        done.map_err(|_| late(self.cluster(), self.deadline()))?
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, ClusterError> {
        let place = self.reach.permits.acquire().await;
        place.map_err(|_| error::away(self.cluster(), "it is being left"))
    }

    fn built(
        &self,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Request<Vec<u8>>, ClusterError> {
        request.map_err(|e| ClusterError::Invalid {
            message: e.to_string(),
        })
    }

    async fn send(&self, request: &Request<Vec<u8>>) -> Result<Response<Body>, ClusterError> {
        let connection = &self.reach.connection;
        let client = connection.client().await?;
        let response = send(
            &client,
            self.cluster(),
            request.clone(),
            self.bearer.as_ref(),
        )
        .await?;
        // A minted token was made for this very step: another would be refused as well.
        let stale = response.status() == StatusCode::UNAUTHORIZED && self.bearer.is_none();
        if stale && connection.renew() {
            let client = connection.client().await?;
            return send(&client, self.cluster(), request.clone(), None).await;
        }
        Ok(response)
    }

    /// A refused identity may be another by the next step (C-1).
    fn noted<T>(&self, result: Result<T, ClusterError>) -> Result<T, ClusterError> {
        if matches!(result, Err(ClusterError::Unauthorized { .. })) {
            self.reach.remember_username(None);
        }
        result
    }
}

async fn send(
    client: &Client,
    cluster: &str,
    request: Request<Vec<u8>>,
    bearer: Option<&HeaderValue>,
) -> Result<Response<Body>, ClusterError> {
    let mut request = request.map(Body::from);
    request
        .headers_mut()
        .entry(ACCEPT)
        .or_insert(HeaderValue::from_static("application/json"));
    if let Some(bearer) = bearer {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
    }
    client
        .send(request)
        .await
        .map_err(|error| error::away(cluster, error::why(&error)))
}

async fn accepted(
    cluster: &str,
    response: Response<Body>,
    what: &str,
) -> Result<Response<Body>, ClusterError> {
    let status = response.status();
    if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    // Of a refusal without a readable reason the status is enough.
    let body = bytes(response, REFUSAL_MAX).await.unwrap_or_default();
    Err(error::refused(cluster, status, &body, what))
}

async fn read(cluster: &str, response: Response<Body>, what: &str) -> Result<Value, ClusterError> {
    let response = accepted(cluster, response, what).await?;
    let body = bytes(response, ANSWER_MAX)
        .await
        .map_err(|why| error::away(cluster, why))?;
    serde_json::from_slice(&body)
        .map_err(|_| error::unexpected(cluster, format!("the answer for {what} is not JSON")))
}

async fn bytes(response: Response<Body>, most: usize) -> Result<Bytes, String> {
    let collected = Limited::new(response.into_body(), most).collect().await;
    collected
        .map(|body| body.to_bytes())
        .map_err(|error| error::why(error.as_ref()))
}

fn late(cluster: &str, deadline: Duration) -> ClusterError {
    error::away(
        cluster,
        format!("no answer within {} s", deadline.as_secs_f32()),
    )
}
