//! Who is calling, as the shim vouches for it (docs/caller-protocol.md).

use super::error::ApiError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use decisions::session::{Actor, Tier};
use http::HeaderMap;
use serde::Deserialize;

/// The header's name.
pub const CALLER_HEADER: &str = "x-breakglass-caller";
/// The version of the protocol that this sidecar speaks.
pub const VERSION: u32 = 1;
const LARGEST: usize = 8 * 1024;

/// A caller: the person, what Backstage allowed, and what the release plan declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who, and what they may.
    pub actor: Actor,
    /// What the app's release plan declares for the environment (S-9).
    pub declared_tier: Option<Tier>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claims {
    #[serde(flatten)]
    actor: Actor,
    #[serde(default)]
    declared_tier: Option<Tier>,
}

/// Reads the caller header. What is missing is denied; what is malformed is refused.
pub fn caller(headers: &HeaderMap) -> Result<Caller, ApiError> {
    let malformed = |what: &str| ApiError::Malformed(format!("{CALLER_HEADER}: {what}"));
    let mut values = headers.get_all(CALLER_HEADER).iter();
    let value = values
        .next()
        .ok_or_else(|| malformed("the header is missing"))?;
    if values.next().is_some() {
        return Err(malformed("the header is given twice"));
    }
    if value.len() > LARGEST {
        return Err(malformed("the header is too large"));
    }
    let json = URL_SAFE_NO_PAD
        .decode(value.as_bytes())
        .map_err(|_| malformed("not base64url without padding"))?;
    let version: Version =
        serde_json::from_slice(&json).map_err(|_| malformed("not the JSON of a caller"))?;
    if version.version != VERSION {
        return Err(malformed(&format!(
            "version {} is not spoken here, only {VERSION}",
            version.version
        )));
    }
    let claims: Claims =
        serde_json::from_slice(&json).map_err(|_| malformed("not the JSON of a caller"))?;
    let user = claims.actor.user.as_str();
    if user.is_empty() || user.len() > 255 || !user.contains(':') || !user.contains('/') {
        return Err(malformed("`user` is not a full entity ref"));
    }
    Ok(Caller {
        actor: claims.actor,
        declared_tier: claims.declared_tier,
    })
}

/// A caller header's value: for the tests and tools that stand where the shim does.
pub fn encode(caller: &serde_json::Value) -> String {
    URL_SAFE_NO_PAD.encode(caller.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use decisions::session::Permission;
    use serde_json::json;

    fn given(value: &serde_json::Value) -> Result<Caller, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(CALLER_HEADER, encode(value).parse().unwrap());
        caller(&headers)
    }

    #[test]
    fn a_caller_is_read() {
        let caller = given(
            &json!({"version": 1, "user": "User:Default/Alice", "app": "shop",
            "allowed": ["request", "self"], "new": true}),
        )
        .unwrap();
        assert_eq!(caller.actor.user.as_str(), "user:default/alice");
        assert!(caller.actor.may(Permission::SelfApprove));
        assert!(
            !caller.actor.may(Permission::Terminate),
            "what is not listed is denied"
        );
        assert!(!caller.actor.reviewer);
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            json!({"version": 2, "user": "user:default/a", "app": "shop"}),
            json!({"version": 1, "app": "shop"}),
            json!({"version": 1, "user": "alice", "app": "shop"}),
            json!({"version": 1, "user": "user:default/a", "app": "shop", "allowed": ["all"]}),
            json!([]),
            json!({"version": 1, "user": format!("user:default/{}", "a".repeat(9000)), "app": ""}),
        ] {
            assert!(matches!(given(&bad), Err(ApiError::Malformed(_))), "{bad}");
        }
        assert!(matches!(
            caller(&HeaderMap::new()),
            Err(ApiError::Malformed(_))
        ));
    }
}
