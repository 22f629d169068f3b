//! What a caller asks about itself, and tokens for service accounts.

use std::time::Duration;

use http::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Call;
use crate::http_io::{self, Body};
use crate::rbac::User;
use crate::refusal::Refusal;
use crate::route::Action;
use crate::world::{Token, random_text, timestamp_in};

type Answer = Result<Response<Body>, Refusal>;

/// The shortest lifetime that a TokenRequest may ask for, in seconds (C-2).
const TOKEN_SECONDS_MIN: i64 = 600;
/// The longest one.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// `SelfSubjectReview` (C-1).
pub(crate) fn who_am_i(call: &Call) -> Answer {
    Ok(http_io::json(
        201,
        &json!({
            "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "status": { "userInfo": { "username": call.user.name, "groups": call.user.groups } },
        }),
    ))
}

/// `SelfSubjectAccessReview`.
pub(crate) fn may_i(call: &Call) -> Answer {
    let asked = &call.body["spec"]["resourceAttributes"];
    let text = |field: &str| {
        asked[field]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let verb = verb(asked["verb"].as_str().unwrap_or_default());
    let allowed = verb.is_some_and(|verb| {
        let action = Action {
            verb,
            group: text("group").unwrap_or_default(),
            resource: text("resource").unwrap_or_default(),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
        };
        call.world
            .read()
            .authorizer(&call.user, &call.rules)
            .allows(&action)
    });
    Ok(http_io::json(
        201,
        &json!({
            "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": call.body["spec"], "status": { "allowed": allowed },
        }),
    ))
}

fn verb(text: &str) -> Option<&'static str> {
    const VERBS: [&str; 9] = [
        "get", "list", "watch", "create", "update", "patch", "delete", "bind", "escalate",
    ];
    VERBS.into_iter().find(|verb| *verb == text)
}

/// `TokenRequest` for a service account (C-2).
pub(crate) fn mint_token(call: &Call) -> Answer {
    let (namespace, name) = call.key();
    let known =
        call.world
            .read()
            .fixed
            .contains_key(&("serviceaccounts", namespace.clone(), name.clone()));
    if !known {
        return Err(Refusal::not_found(&call.action, &name));
    }
    let spec = &call.body["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(3600);
    let invalid = |why: &str| {
        let why = format!("Invalid value: {seconds}: {why}");
        Refusal::invalid("TokenRequest", &name, "spec.expirationSeconds", &why)
    };
    if seconds < TOKEN_SECONDS_MIN {
        return Err(invalid("may not specify a duration less than 10 minutes"));
    }
    if seconds > TOKEN_SECONDS_MAX {
        return Err(invalid(
            "may not specify a duration larger than 2^32 seconds",
        ));
    }
    let audiences: Vec<String> = match spec["audiences"].as_array() {
        Some(all) => all
            .iter()
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect(),
        None => Vec::new(),
    };
    let text = format!("minted-{}", random_text(40));
    let lifetime = Duration::from_secs(seconds.unsigned_abs());
    let token = Token {
        user: User::service_account(&namespace, &name),
        audiences: Some(audiences),
        expires_at: Some(Instant::now() + lifetime),
    };
    call.world
        .change(|state| state.tokens.insert(text.clone(), token));
    let mut answer = call.body.clone();
    answer["kind"] = "TokenRequest".into();
    answer["apiVersion"] = "authentication.k8s.io/v1".into();
    answer["metadata"]["name"] = name.into();
    answer["metadata"]["namespace"] = namespace.into();
    answer["spec"]["expirationSeconds"] = seconds.into();
    answer["status"] = json!({ "token": text, "expirationTimestamp": timestamp_in(seconds) });
    if answer["spec"]["audiences"].is_null() {
        answer["spec"]["audiences"] = Value::Array(vec![crate::options::OWN_AUDIENCE.into()]);
    }
    Ok(http_io::json(201, &answer))
}
