//! The kubeconfig that leads here.

use base64::Engine as _;
use serde_json::{Value, json};

/// A kubeconfig with a context for each of `tokens`.
pub(crate) fn write(
    url: &str,
    authority: &str,
    tokens: &[(String, String)],
    current: &str,
) -> Value {
    let authority = base64::engine::general_purpose::STANDARD.encode(authority);
    let users: Vec<Value> = tokens
        .iter()
        .map(|(name, token)| json!({ "name": name, "user": { "token": token } }))
        .collect();
    let contexts: Vec<Value> = tokens
        .iter()
        .map(|(name, _)| json!({
            "name": name, "context": { "cluster": "standin", "user": name, "namespace": "shop" },
        }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "standin", "cluster": {
            "server": url, "certificate-authority-data": authority,
        } }],
        "users": users, "contexts": contexts, "current-context": current,
    })
}
