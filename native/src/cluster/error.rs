//! What an answer, or the lack of one, means (C-8, C-22).
//!
//! Invariants: what an admission policy refused is final and told apart from what RBAC refuses for
//! a moment; no error carries a token or a body, whatever the other side put into its answer.

use crate::ports::ClusterError;
use http::StatusCode;
use kube::client::AuthError;
use serde::Deserialize;
use std::error::Error as StdError;

/// Characters of somebody else's text that an error keeps.
const TEXT_MAX: usize = 1000;

/// The part of a `metav1.Status` that says what went wrong.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

/// What an answer with an error status means.
pub(super) fn refused(cluster: &str, status: StatusCode, body: &[u8], what: &str) -> ClusterError {
    let said = serde_json::from_slice::<Refusal>(body)
        .unwrap_or_default()
        .message;
    let message = if said.is_empty() {
        format!("HTTP {status}")
    } else {
        presentable(&said)
    };
    if status.is_client_error() && is_policy(&said) {
        return ClusterError::RefusedByPolicy { message };
    }
    match status.as_u16() {
        401 => ClusterError::Unauthorized { message },
        403 => ClusterError::Forbidden { message },
        404 if said.is_empty() => ClusterError::NotFound {
            what: what.to_owned(),
        },
        404 => ClusterError::NotFound { what: message },
        409 => ClusterError::Conflict { message },
        400 | 422 => ClusterError::Invalid { message },
        // Too many requests, or a server that is ill: whether it acted is not known.
        code @ (429 | 500..=599) => ill(cluster, code, &message),
        code => unexpected(cluster, format!("{code} to {what}: {message}")),
    }
}

/// Whether an admission policy speaks. A policy may choose its status code, so the text decides.
/// A server that has not loaded its policies yet refuses too, but not for good.
fn is_policy(message: &str) -> bool {
    let names_one = message.contains("ValidatingAdmissionPolicy")
        || (message.contains("admission webhook") && message.contains("denied the request"))
        || message.contains("violates PodSecurity");
    names_one && !is_not_ready(message)
}

fn is_not_ready(message: &str) -> bool {
    message.contains("not yet ready to handle request")
}

/// A refusal that a moment's patience cures, also where RBAC is not the matter.
pub(super) fn server_is_not_ready(error: &ClusterError) -> bool {
    matches!(error, ClusterError::Forbidden { message } if is_not_ready(message))
}

pub(super) fn away(cluster: &str, why: impl Into<String>) -> ClusterError {
    ClusterError::Away {
        cluster: cluster.to_owned(),
        why: format!("cannot be reached: {}", why.into()),
    }
}

/// It can be reached; by its own words it is ill, or a webhook of it does not answer.
fn ill(cluster: &str, code: u16, message: &str) -> ClusterError {
    let why = if message.contains("failed calling webhook") {
        format!(
            "let nothing through, since an admission webhook of it does not answer ({message}); \
             tell the cluster's owners"
        )
    } else {
        format!("is in trouble and answered {code}: {message}")
    };
    ClusterError::Away {
        cluster: cluster.to_owned(),
        why,
    }
}

pub(super) fn unexpected(cluster: &str, why: impl Into<String>) -> ClusterError {
    ClusterError::Unexpected {
        cluster: cluster.to_owned(),
        why: why.into(),
    }
}

/// Why a request could not be sent or answered, without anything secret.
pub(super) fn why(error: &(dyn StdError + 'static)) -> String {
    // A plugin's failure quotes the plugin's output, which may be a token, and those around it
    // quote the failure.
    if let Some(auth) = chain(error).find_map(|link| link.downcast_ref::<AuthError>()) {
        return why_no_credentials(auth).to_owned();
    }
    let mut links: Vec<String> = Vec::new();
    for text in chain(error).map(ToString::to_string) {
        if links.last().is_none_or(|last| !last.contains(&text)) {
            links.push(text);
        }
    }
    presentable(&links.join(": "))
}

fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let link = next?;
        next = link.source();
        Some(link)
    })
}

fn why_no_credentials(error: &AuthError) -> &'static str {
    match error {
        AuthError::AuthExecStart(_) => "the kubeconfig's exec plugin cannot be started",
        AuthError::AuthExecRun { .. } => "the kubeconfig's exec plugin failed",
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed | AuthError::AuthExec(_) => {
            "the kubeconfig's exec plugin gave no credentials"
        }
        AuthError::ReadTokenFile(..) => "the token file cannot be read",
        AuthError::MissingCommand | AuthError::ExecMissingClusterInfo => {
            "the kubeconfig's exec plugin is not fully configured"
        }
        AuthError::InvalidBasicAuth(_)
        | AuthError::InvalidBearerToken(_)
        | AuthError::UnrefreshableTokenResponse
        | AuthError::MalformedTokenExpirationDate(_)
        | AuthError::AuthExecSerialize(_)
        | AuthError::ParseTokenKey(_)
        | AuthError::NoValidNativeRootCA(_) => "the credentials cannot be used",
    }
}

/// Somebody else's text as it may be kept: one line, bounded, without what looks like a token.
pub(super) fn presentable(text: &str) -> String {
    let one_line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(TEXT_MAX)
        .collect();
    one_line
        .split(' ')
        .map(without_token)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A JSON Web Token starts with `{"` in base64; a long word after it is not for reading.
fn without_token(word: &str) -> std::borrow::Cow<'_, str> {
    match word.find("eyJ") {
        Some(at) if word.len() - at > 20 => format!("{}(token)", &word[..at]).into(),
        Some(_) | None => word.into(),
    }
}

#[cfg(test)]
mod tests;
