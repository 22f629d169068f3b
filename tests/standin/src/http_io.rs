//! Bodies in and out: bounded on the way in, JSON on the way out.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use serde_json::Value;

use crate::refusal::Refusal;

/// The largest request body that is read.
const BODY_MAX: usize = 3 * 1024 * 1024;

/// A response's body.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn empty() -> Body {
    Empty::new().boxed_unsync()
}

pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    text(code, "application/json", value.to_string())
}

pub(crate) fn text(code: u16, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::IM_A_TEAPOT);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn refuse(refusal: &Refusal) -> Response<Body> {
    json(refusal.code, &refusal.body())
}

/// Reads a body that must be a JSON object, or empty (which reads as `{}`).
pub(crate) async fn read_object(body: hyper::body::Incoming) -> Result<Value, Refusal> {
    let bytes = Limited::new(body, BODY_MAX)
        .collect()
        .await
        .map_err(|_| {
            let message = "Request entity too large: limit is 3145728";
            Refusal::new(413, "RequestEntityTooLarge", message)
        })?
        .to_bytes();
    if bytes.is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_slice(&bytes) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(Refusal::bad_request(
            "the body of the request is not a JSON object",
        )),
    }
}
