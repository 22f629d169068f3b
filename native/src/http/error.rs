//! One error enum at the HTTP boundary and one exhaustive match to statuses (docs/http-status.md).
//!
//! Invariants: no `_` arm: a new error does not compile until it has a status and a name. A route
//! that would have done something names in its refusal what was not done ([`Refused`]).

use crate::ports::{ClusterError, RecordingError, StoreError};
use axum::Json;
use axum::response::{IntoResponse, Response};
use decisions::limits::LimitRefusal;
use decisions::request::Problem;
use decisions::session::{SessionId, State};
use decisions::target::TargetRefusal;
use decisions::transition::{Refusal, RefusalKind};
use http::StatusCode;
use serde_json::json;

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Fields of the request are wrong: all of them (S-5).
    #[error("{}", summary(.0))]
    Invalid(Vec<Problem>),
    /// The request itself is malformed.
    #[error("{0}")]
    Malformed(String),
    /// The body is larger than is read.
    #[error("the body is larger than the {limit} bytes that are read")]
    TooLarge {
        /// Bytes that are read.
        limit: usize,
    },
    /// The body is not what its route takes.
    #[error("send the body as `application/json`")]
    NotJson,
    /// The caller may not do this.
    #[error("{0}")]
    NotAllowed(String),
    /// There is no such session, pod, container, cluster or recording.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be done in the state that things are in.
    #[error("{0}")]
    Conflict(String),
    /// Somebody else was faster, or a deadline passed.
    #[error("this session is {}, so it was not changed", word(*.now_in))]
    Lost {
        /// The state it is in.
        now_in: State,
    },
    /// One more open session would pass a limit (S-14c).
    #[error("{0}")]
    OverLimit(LimitRefusal),
    /// It was there once.
    #[error("{0}")]
    Gone(String),
    /// Opening failed; the session ended and left nothing (C-10).
    #[error("the session could not be opened: {why}")]
    FailedToStart {
        /// The session that ended.
        id: SessionId,
        /// Whether the cluster's fence or another rule of it said no.
        refused: bool,
        /// The cluster's own words.
        why: String,
    },
    /// Not built yet.
    #[error("{0}")]
    NotImplemented(String),
    /// A cluster did not answer, or not well.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The recordings' store did not answer.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Something of ours is not ready.
    #[error("{0}")]
    Unavailable(String),
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let text = refusal.to_string();
        match refusal.kind() {
            RefusalKind::Invalid => Self::Malformed(text),
            RefusalKind::NotAllowed => Self::NotAllowed(text),
            RefusalKind::NotFound => Self::NotFound(text),
            RefusalKind::Conflict => Self::Conflict(text),
            RefusalKind::Gone => Self::Gone(text),
        }
    }
}

impl From<TargetRefusal> for ApiError {
    fn from(refusal: TargetRefusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            TargetRefusal::NamespaceUnreadable { .. }
            | TargetRefusal::NoPod { .. }
            | TargetRefusal::NoContainer { .. } => Self::NotFound(text),
            TargetRefusal::Unlabelled { .. }
            | TargetRefusal::OtherApp { .. }
            | TargetRefusal::OtherEnv { .. } => Self::NotAllowed(text),
            TargetRefusal::Deleting { .. } | TargetRefusal::NotRunning { .. } => {
                Self::Conflict(text)
            }
        }
    }
}

fn summary(problems: &[Problem]) -> String {
    let told: Vec<String> = problems
        .iter()
        .map(|p| format!("{}: {}", p.field, p.message))
        .collect();
    told.join("; ")
}

fn word(state: State) -> &'static str {
    match state {
        State::Requested => "requested",
        State::Approved => "approved",
        State::Active => "active",
        State::Ended => "ended",
    }
}

impl ApiError {
    /// The status and Backstage's name for it (S-11).
    pub fn backstage(&self) -> (StatusCode, &'static str) {
        const UNAVAILABLE: (StatusCode, &str) =
            (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError");
        match self {
            Self::Invalid(_) | Self::Malformed(_) => (StatusCode::BAD_REQUEST, "InputError"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "PayloadTooLargeError"),
            Self::NotJson => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaTypeError",
            ),
            Self::NotAllowed(_) => (StatusCode::FORBIDDEN, "NotAllowedError"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFoundError"),
            Self::Conflict(_) | Self::Lost { .. } | Self::OverLimit(_) => {
                (StatusCode::CONFLICT, "ConflictError")
            }
            Self::Gone(_) => (StatusCode::GONE, "GoneError"),
            Self::FailedToStart { refused: true, .. } => (StatusCode::FORBIDDEN, "NotAllowedError"),
            Self::FailedToStart { refused: false, .. } => UNAVAILABLE,
            Self::NotImplemented(_) => (StatusCode::NOT_IMPLEMENTED, "NotImplementedError"),
            Self::Cluster(error) => match error {
                ClusterError::RefusedByPolicy { .. } => (StatusCode::FORBIDDEN, "NotAllowedError"),
                ClusterError::NotFound { .. } => (StatusCode::NOT_FOUND, "NotFoundError"),
                ClusterError::Conflict { .. } | ClusterError::Invalid { .. } => {
                    (StatusCode::CONFLICT, "ConflictError")
                }
                ClusterError::Forbidden { .. }
                | ClusterError::Unauthorized { .. }
                | ClusterError::CannotStart { .. }
                | ClusterError::Away { .. }
                | ClusterError::Unexpected { .. } => UNAVAILABLE,
            },
            Self::Store(_) | Self::Unavailable(_) => UNAVAILABLE,
            Self::Recording(error) => match error {
                RecordingError::Unavailable { .. } => UNAVAILABLE,
                RecordingError::NotFound => (StatusCode::GONE, "GoneError"),
                RecordingError::Damaged => (StatusCode::BAD_GATEWAY, "RecordingDamagedError"),
            },
        }
    }

    /// Whether its own text names what was not done.
    fn says_what_was_not_done(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::FailedToStart { .. })
    }

    /// Whether what was asked for may have been done all the same: an answer that got lost.
    fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Store(StoreError::Away(_)))
    }

    fn message(&self, not_done: Option<NotDone>) -> String {
        match not_done {
            Some(not_done) if self.is_in_doubt() => format!("{self}; {}", not_done.in_doubt),
            Some(not_done) if !self.says_what_was_not_done() => {
                format!("{self}; {}", not_done.certain)
            }
            Some(_) | None => self.to_string(),
        }
    }

    fn answer(&self, not_done: Option<NotDone>) -> Response {
        let (status, name) = self.backstage();
        if status.is_server_error() {
            // The chain, once; no error of ours carries a token, a terminal byte or a reason.
            tracing::warn!(status = status.as_u16(), name, error = %chain(self), "refused");
        } else {
            tracing::debug!(status = status.as_u16(), name, "refused");
        }
        (status, Json(self.body(not_done))).into_response()
    }

    fn body(&self, not_done: Option<NotDone>) -> serde_json::Value {
        let (status, name) = self.backstage();
        let mut error = json!({"name": name, "message": self.message(not_done)});
        match self {
            Self::Invalid(problems) => error["problems"] = json!(problems),
            Self::OverLimit(LimitRefusal::Reached { name, max }) => {
                error["limit"] = json!({"name": name, "max": max});
            }
            Self::OverLimit(LimitRefusal::ProcessAccessTaken { other }) => {
                error["session"] = json!(other);
            }
            Self::FailedToStart { id, .. } => error["session"] = json!(id),
            Self::Malformed(_)
            | Self::TooLarge { .. }
            | Self::NotJson
            | Self::NotAllowed(_)
            | Self::NotFound(_)
            | Self::Conflict(_)
            | Self::Lost { .. }
            | Self::Gone(_)
            | Self::NotImplemented(_)
            | Self::Cluster(_)
            | Self::Store(_)
            | Self::Recording(_)
            | Self::Unavailable(_) => {}
        }
        json!({"error": error, "response": {"statusCode": status.as_u16()}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.answer(None)
    }
}

/// What a route does not do when it refuses, in words.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotDone {
    /// For nearly every error.
    pub(super) certain: &'static str,
    /// Where the database's answer got lost.
    pub(super) in_doubt: &'static str,
}

impl NotDone {
    /// The refusal of a route that does this.
    pub(super) fn because(self, error: impl Into<ApiError>) -> Refused {
        Refused(error.into(), self)
    }
}

/// An error whose message names what was not done.
#[derive(Debug)]
pub(super) struct Refused(ApiError, NotDone);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.answer(Some(self.1))
    }
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
