//! Bodies: bounded, JSON, in time.

use super::error::ApiError;
use axum::body::Body;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use std::time::Duration;

/// The largest body that is read.
pub const LARGEST_BODY: usize = 64 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

async fn bytes(body: Body) -> Result<bytes::Bytes, ApiError> {
    let reading = Limited::new(body, LARGEST_BODY).collect();
    let collected = tokio::time::timeout(BODY_TIMEOUT, reading)
        .await
        .map_err(|_| ApiError::Malformed("the body did not arrive in time".to_owned()))?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::TooLarge {
            limit: LARGEST_BODY,
        }),
        Err(_) => Err(ApiError::Malformed("the body broke off".to_owned())),
    }
}

/// A required JSON body.
pub async fn json(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    let is_json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"));
    if !is_json {
        return Err(ApiError::NotJson);
    }
    let bytes = bytes(body).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::Malformed(format!("the body is not JSON: {error}")))
}

/// A route without required fields: an empty body needs no content type (S-14b).
pub async fn nothing_required(headers: &HeaderMap, body: Body) -> Result<(), ApiError> {
    let bytes = bytes(body).await?;
    if bytes.is_empty() || headers.get(header::CONTENT_TYPE).is_none() {
        return Ok(());
    }
    serde_json::from_slice::<Value>(&bytes)
        .map(|_| ())
        .map_err(|error| ApiError::Malformed(format!("the body is not JSON: {error}")))
}
