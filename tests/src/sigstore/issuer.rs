//! An OpenID issuer on loopback whose tokens say what a GitHub Actions workflow's would.
//!
//! Invariant: its key is made for the run and never leaves the process.

use super::documents::Documents;
use crate::StageError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use breakglass::clock::SystemClock;
use breakglass::ports::Clock as _;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use serde_json::{Value, json};

/// Whom the tokens are for: the certificate authority.
pub(super) const AUDIENCE: &str = "sigstore";
/// A token serves one signature.
const GOOD_FOR: i64 = 600;

/// An issuer, until it is dropped.
pub struct Issuer {
    key: SigningKey,
    documents: Documents,
}

impl Issuer {
    pub(super) async fn start() -> Result<Self, StageError> {
        let key = new_key()?;
        let documents = Documents::serve(|url| {
            let metadata = json!({
                "issuer": url,
                "jwks_uri": format!("{url}/keys"),
                "authorization_endpoint": format!("{url}/none"),
                "token_endpoint": format!("{url}/none"),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            });
            let served = [
                ("/.well-known/openid-configuration", metadata),
                ("/keys", json!({ "keys": [public(&key)] })),
            ];
            let served = served.map(|(path, document)| (path.to_owned(), document.to_string()));
            Ok(served.map(|(path, text)| (path, text.into_bytes())).into())
        });
        let documents = documents.await?;
        Ok(Self { key, documents })
    }

    /// Its name, which is its address.
    pub fn url(&self) -> &str {
        self.documents.url()
    }

    /// A token of `workflow`: `owner/repository/.github/workflows/file@ref`.
    pub(super) fn token(&self, workflow: &str) -> String {
        let (path, branch) = workflow.split_once('@').unwrap_or((workflow, ""));
        let repository: Vec<_> = path.splitn(3, '/').take(2).collect();
        let (owner, repository) = (repository[0], repository.join("/"));
        let (now, commit) = (SystemClock.wall().as_second(), "a".repeat(40));
        let claims = json!({
            "iss": self.url(), "aud": AUDIENCE,
            "iat": now, "nbf": now, "exp": now + GOOD_FOR,
            "sub": format!("repo:{repository}:ref:{branch}"), "ref": branch, "sha": commit,
            "event_name": "push", "workflow": "release", "runner_environment": "github-hosted",
            "repository": repository, "repository_id": "1", "repository_visibility": "public",
            "repository_owner": owner, "repository_owner_id": "2",
            "run_id": "1", "run_attempt": "1",
            "workflow_ref": workflow, "workflow_sha": commit,
            "job_workflow_ref": workflow, "job_workflow_sha": commit,
        });
        let head = json!({ "alg": "ES256", "typ": "JWT", "kid": "1" });
        let part = |value: &Value| BASE64URL.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let signature: Signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64URL.encode(signature.to_bytes()))
    }
}

/// A key of this run.
pub(super) fn new_key() -> Result<SigningKey, StageError> {
    SigningKey::from_slice(&rand::random::<[u8; 32]>())
        .map_err(|error| StageError::of("no key was made", error))
}

fn public(key: &SigningKey) -> Value {
    // An uncompressed point: a byte that says so, then both coordinates.
    let point = VerifyingKey::from(key).to_sec1_point(false);
    let (x, y) = point.as_bytes()[1..].split_at(32);
    json!({
        "kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "use": "sig",
        "x": BASE64URL.encode(x), "y": BASE64URL.encode(y),
    })
}
