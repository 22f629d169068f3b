//! The routes: parse, call, answer. No decision is made here.

use super::body::{json, nothing_required};
use super::caller::caller;
use super::error::{ApiError, NotDone, Refused};
use super::socket::Slot;
use super::upgrade::{Counted, Handshake};
use crate::app::App;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use decisions::session::SessionId;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tracing::Instrument;

type Shared = State<Arc<App>>;

const OPEN: NotDone = NotDone {
    certain: "no session was opened",
    // Of a row that was stored all the same, the sweep makes an ended one.
    in_doubt: "no session was opened",
};
const END: NotDone = NotDone {
    certain: "nothing was changed",
    in_doubt: "whether the session was ended is not known",
};
const ATTACH: NotDone = NotDone {
    certain: "no terminal was opened",
    in_doubt: "no terminal was opened",
};
const NOT_YET: NotDone = NotDone {
    certain: "nothing was changed",
    in_doubt: "nothing was changed",
};

/// Every route of the API socket.
pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(readyz))
        .route("/v1/sessions", post(open).get(list))
        .route("/v1/sessions/{id}", get(show))
        .route("/v1/sessions/{id}/app", get(app_of))
        .route("/v1/sessions/{id}/end", post(end))
        .route("/v1/sessions/{id}/recording", get(recording))
        .route("/v1/sessions/{id}/attach", get(attach))
        .route("/v1/sessions/{id}/approve", post(not_yet))
        .route("/v1/sessions/{id}/deny", post(not_yet))
        .route("/v1/sessions/{id}/start", post(not_yet))
        .route("/v1/sessions/{id}/extend", post(not_yet))
        .route("/v1/sessions/{id}/review", post(not_yet))
        .route("/v1/queue", get(not_yet))
        .fallback(|| async { ApiError::NotFound("there is no such route".to_owned()) })
        .method_not_allowed_fallback(|| async {
            ApiError::NotFound("there is no such route for this method".to_owned())
        })
        .layer(from_fn(in_its_span))
        .with_state(app)
}

/// The shim's id of a request, so that what is logged here is found beside what is logged there.
async fn in_its_span(request: Request<Body>, next: Next) -> Response {
    let span = match request_id(request.headers()) {
        Some(id) => tracing::error_span!("request", request_id = id),
        None => tracing::Span::none(),
    };
    next.run(request).instrument(span).await
}

/// Up to 64 printable ASCII characters of `x-request-id`: it is somebody else's text.
fn request_id(headers: &HeaderMap) -> Option<String> {
    let given = headers.get("x-request-id")?.as_bytes().iter();
    let shown = given.filter(|byte| byte.is_ascii_graphic()).take(64);
    Some(shown.map(|byte| char::from(*byte)).collect()).filter(|id: &String| !id.is_empty())
}

/// A part of the request, where a part that cannot be read is refused by the status table.
struct Read<E>(E);

impl<S, E> FromRequestParts<S> for Read<E>
where
    S: Send + Sync,
    E: FromRequestParts<S>,
    E::Rejection: std::fmt::Display,
{
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        state: &S,
    ) -> Result<Self, ApiError> {
        let read = E::from_request_parts(parts, state).await;
        read.map(Self).map_err(|why| {
            ApiError::Malformed(format!(
                "the request cannot be read, nothing was done: {why}"
            ))
        })
    }
}

fn session_id(text: &str) -> Result<SessionId, ApiError> {
    SessionId::parse(text)
        .map_err(|_| ApiError::NotFound("there is no session of this id".to_owned()))
}

async fn readyz(State(app): Shared) -> Response {
    let missing = app.missing().await;
    let status = if missing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (
        status,
        Json(json!({"ready": missing.is_empty(), "missing": missing})),
    )
        .into_response()
}

async fn not_yet(headers: HeaderMap) -> Refused {
    NOT_YET.because(match caller(&headers) {
        Ok(_) => ApiError::NotImplemented(
            "sessions that need a second person are not available in this version".to_owned(),
        ),
        Err(error) => error,
    })
}

async fn open(State(app): Shared, headers: HeaderMap, body: Body) -> Result<Response, Refused> {
    let opened = opened(&app, &headers, body).await;
    opened.map_err(|error| OPEN.because(error))
}

async fn opened(app: &App, headers: &HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = caller(headers)?;
    let body = json(headers, body).await?;
    let at_once = headers.get_all("prefer").iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',')
                .any(|part| part.trim().eq_ignore_ascii_case("respond-async"))
        })
    });
    let session = app.sessions()?.open(&caller, &body, at_once).await?;
    Ok((StatusCode::CREATED, Json(session)).into_response())
}

#[derive(Deserialize)]
struct ListQuery {
    #[serde(default)]
    app: String,
    #[serde(default)]
    env: String,
}

async fn list(
    State(app): Shared,
    Read(Query(query)): Read<Query<ListQuery>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = caller(&headers)?;
    let answer = app
        .sessions()?
        .list(&caller, &query.app, &query.env)
        .await?;
    Ok(Json(answer).into_response())
}

async fn show(
    State(app): Shared,
    Read(Path(id)): Read<Path<String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = caller(&headers)?;
    Ok(Json(app.sessions()?.show(&caller, &session_id(&id)?).await?).into_response())
}

async fn app_of(
    State(app): Shared,
    Read(Path(id)): Read<Path<String>>,
) -> Result<Response, ApiError> {
    Ok(Json(app.sessions()?.app_of(&session_id(&id)?).await?).into_response())
}

async fn end(
    State(app): Shared,
    Read(Path(id)): Read<Path<String>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let ended = ended(&app, &id, &headers, body).await;
    ended.map_err(|error| END.because(error))
}

async fn ended(app: &App, id: &str, headers: &HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = caller(headers)?;
    nothing_required(headers, body).await?;
    Ok(Json(app.sessions()?.end_for(&caller, &session_id(id)?).await?).into_response())
}

async fn recording(
    State(app): Shared,
    Read(Path(id)): Read<Path<String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = caller(&headers)?;
    let (reading, sha256) = app
        .sessions()?
        .recording(&caller, &session_id(&id)?)
        .await?;
    let mut response = Response::new(Body::from_stream(reading.stream));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-asciicast"),
    );
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(reading.bytes));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&sha256) {
        headers.insert("x-recording-sha256", value);
    }
    Ok(response)
}

async fn attach(
    State(app): Shared,
    Read(Path(id)): Read<Path<String>>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    let attached = attached(&app, &id, request).await;
    attached.map_err(|error| ATTACH.because(error))
}

async fn attached(app: &App, id: &str, mut request: Request<Body>) -> Result<Response, ApiError> {
    let caller = caller(request.headers())?;
    let id = session_id(id)?;
    let handshake = Handshake::check(&mut request)?;
    let slot = request.extensions_mut().remove::<Slot>();
    let terminal = app.sessions()?.attach(&caller, &id).await?;
    let (response, upgrade) = handshake.accept();
    tokio::spawn(async move {
        match upgrade.await {
            Ok(stream) => {
                terminal.attach_browser(Counted::new(hyper_util::rt::TokioIo::new(stream), slot));
            }
            Err(error) => tracing::debug!(session = %id, %error, "a terminal was not upgraded"),
        }
    });
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_bounded_and_printable() {
        let id = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(
                "x-request-id",
                HeaderValue::from_bytes(value).expect("a value"),
            );
            request_id(&headers)
        };
        assert_eq!(id(b"abc-1").as_deref(), Some("abc-1"));
        assert_eq!(id(b"a\tb\xffc").as_deref(), Some("abc"));
        assert_eq!(id(&[b'x'; 500]).map(|id| id.len()), Some(64));
        assert_eq!(id(b""), None);
        assert_eq!(request_id(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_refused_in_backstages_form() {
        // Bytes that are no UTF-8 are read as U+FFFD, which no name has.
        let request = Request::builder()
            .uri("/?app=a&app=b")
            .body(())
            .expect("a request");
        let (mut parts, ()) = request.into_parts();
        let read = Read::<Query<ListQuery>>::from_request_parts(&mut parts, &()).await;
        let refused = read.err().expect("two apps are not one");
        let answer = refused.into_response();
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    }
}
