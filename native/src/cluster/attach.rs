//! Attaches to a running container (T-6, T-8, C-27).
//!
//! The upgrade is our own: `kube`'s attached process serves neither keys nor pings while its
//! output is not read (T-14).
//! Invariant: nothing is attached to that is not seen running in the pod that is meant; the
//! server's answer is checked as RFC 6455 asks before a byte is taken for terminal output.

use super::KubeCluster;
use super::call::Caller;
use super::error::{self, unexpected};
use super::path;
use super::patience::Patience;
use super::pods::present;
use super::shell::{self, KubeShell};
use crate::ports::ClusterError;
use crate::ports::cluster::{PodRef, Shell};
use decisions::pod::PodFacts;
use decisions::pod::state::ContainerState;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::api::AttachParams;
use kube::client::Body;
use serde_json::Value;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// What we speak, the better first: v5 adds half-closes. One header: servers read only one.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

pub(super) async fn open(
    cluster: &KubeCluster,
    pod: &PodRef,
    container: &str,
) -> Result<Box<dyn Shell>, ClusterError> {
    path::object(container)?;
    let caller = cluster.reach.caller().await?;
    let mut patience = Patience::for_rights();
    loop {
        match once(&caller, pod, container).await {
            // The grant may be younger than what this API server knows of it.
            Err(ClusterError::Forbidden { .. }) if patience.again().await => {}
            result => return result,
        }
    }
}

async fn once(
    caller: &Caller<'_>,
    pod: &PodRef,
    container: &str,
) -> Result<Box<dyn Shell>, ClusterError> {
    may_be_attached(&present(caller, pod).await?, container)?;
    match upgrade(caller, pod, container).await {
        Ok(shell) => Ok(shell),
        // A container that ended a moment ago is answered with a 500: say what it is.
        Err(error @ ClusterError::Away { .. }) => match present(caller, pod).await {
            Ok(found) => may_be_attached(&found, container).and(Err(error)),
            Err(gone @ ClusterError::NotFound { .. }) => Err(gone),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Whether there is something to attach to; otherwise why not (T-6).
pub(crate) fn may_be_attached(pod: &Value, container: &str) -> Result<(), ClusterError> {
    let cannot = |why: String| {
        let reason = format!("container `{container}` {why}");
        Err(ClusterError::CannotStart { reason })
    };
    let facts = match PodFacts::read(pod) {
        Ok(facts) => facts,
        Err(error) => return cannot(format!("cannot be looked at: {error}")),
    };
    match facts.container_state(container) {
        ContainerState::Running { .. } => Ok(()),
        ContainerState::Terminated { exit_code, .. } => {
            cannot(format!("is over: its shell exited with {exit_code}"))
        }
        ContainerState::Waiting { reason, .. } => cannot(format!("does not run yet: {reason}")),
        ContainerState::Unknown => cannot("does not run".to_owned()),
    }
}

async fn upgrade(
    caller: &Caller<'_>,
    pod: &PodRef,
    container: &str,
) -> Result<Box<dyn Shell>, ClusterError> {
    let params = AttachParams::interactive_tty().container(container);
    let collection = path::pods(&pod.namespace)?;
    let key = generate_key();
    let request = collection.attach(path::object(&pod.name)?, &params);
    let request = request.map(|request| with_upgrade(request, &key));
    let response = caller.open(request, &format!("pod `{}`", pod.name)).await?;
    let cluster = caller.cluster();
    check(&response, &key).map_err(|why| unexpected(cluster, why))?;
    let upgraded = tokio::time::timeout(caller.deadline(), hyper::upgrade::on(response)).await;
    match upgraded {
        Ok(Ok(upgraded)) => {
            let shell = KubeShell::new(shell::client(TokioIo::new(upgraded)).await);
            Ok(Box::new(shell))
        }
        Ok(Err(error)) => Err(error::away(cluster, error::why(&error))),
        Err(_) => Err(error::away(
            cluster,
            "the connection was not handed over in time",
        )),
    }
}

fn with_upgrade(mut request: Request<Vec<u8>>, key: &str) -> Request<Vec<u8>> {
    let offered = PROTOCOLS.join(", ");
    let headers = [
        (CONNECTION, "Upgrade"),
        (UPGRADE, "websocket"),
        (SEC_WEBSOCKET_VERSION, "13"),
        (SEC_WEBSOCKET_KEY, key),
        (SEC_WEBSOCKET_PROTOCOL, offered.as_str()),
    ];
    for (name, value) in headers {
        // All of it is plain ASCII: base64 and constants.
        if let Ok(value) = HeaderValue::from_str(value) {
            request.headers_mut().insert(name, value);
        }
    }
    request
}

/// Whether this is the answer to our own handshake (RFC 6455, 4.1).
fn check(response: &Response<Body>, key: &str) -> Result<(), String> {
    let headers = response.headers();
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(format!(
            "{} to an attach, not an upgrade",
            response.status().as_u16()
        ));
    }
    if !lists(headers, &UPGRADE, "websocket") || !lists(headers, &CONNECTION, "upgrade") {
        return Err("an upgrade to something else than a WebSocket".to_owned());
    }
    let accepted = derive_accept_key(key.as_bytes());
    if headers
        .get(SEC_WEBSOCKET_ACCEPT)
        .is_none_or(|found| found.as_bytes() != accepted.as_bytes())
    {
        return Err("a WebSocket that answers another's handshake".to_owned());
    }
    let chosen = headers
        .get(SEC_WEBSOCKET_PROTOCOL)
        .and_then(|value| value.to_str().ok());
    match chosen {
        Some(protocol) if PROTOCOLS.contains(&protocol) => Ok(()),
        Some(_) | None => Err("a WebSocket of a protocol that was not offered".to_owned()),
    }
}

fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(accept: &str, protocol: &str) -> Response<Body> {
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(UPGRADE, "WebSocket")
            .header(CONNECTION, "keep-alive, Upgrade")
            .header(SEC_WEBSOCKET_ACCEPT, accept)
            .header(SEC_WEBSOCKET_PROTOCOL, protocol)
            .body(Body::empty())
            .expect("a response")
    }

    #[test]
    fn only_the_answer_to_our_own_handshake_is_taken() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let accept = derive_accept_key(key.as_bytes());
        assert_eq!(check(&answer(&accept, "v5.channel.k8s.io"), key), Ok(()));
        assert_eq!(check(&answer(&accept, "v4.channel.k8s.io"), key), Ok(()));
        assert!(check(&answer("another", "v5.channel.k8s.io"), key).is_err());
        assert!(check(&answer(&accept, "channel.k8s.io"), key).is_err());
        let mut plain = answer(&accept, "v5.channel.k8s.io");
        *plain.status_mut() = StatusCode::OK;
        assert!(check(&plain, key).is_err());
        let mut other = answer(&accept, "v5.channel.k8s.io");
        other
            .headers_mut()
            .insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        assert!(check(&other, key).is_err());
    }

    #[test]
    fn qk52_the_attach_is_a_get_that_offers_both_protocols() {
        let collection = path::pods("shop").expect("a path");
        let params = AttachParams::interactive_tty().container("debug-abc");
        let request = with_upgrade(collection.attach("web-0", &params).expect("a request"), "k");
        assert_eq!(request.method(), http::Method::GET);
        assert_eq!(
            request.uri().path(),
            "/api/v1/namespaces/shop/pods/web-0/attach"
        );
        let query = request.uri().query().expect("a query");
        for wanted in [
            "stdin=true",
            "stdout=true",
            "tty=true",
            "container=debug-abc",
        ] {
            assert!(query.split('&').any(|pair| pair == wanted), "{query}");
        }
        assert!(!query.contains("stderr"), "{query}");
        let offered = request
            .headers()
            .get_all(SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .collect::<Vec<_>>();
        assert_eq!(offered, ["v5.channel.k8s.io, v4.channel.k8s.io"]);
    }

    fn pod(state: Value) -> Value {
        json!({
            "metadata": { "name": "web-0" },
            "status": { "ephemeralContainerStatuses": [{ "name": "debug-abc", "state": state }] },
        })
    }

    #[test]
    fn qk32_an_ephemeral_container_that_runs_is_attached_to() {
        assert!(may_be_attached(&pod(json!({ "running": {} })), "debug-abc").is_ok());
    }

    #[test]
    fn qt4_a_container_that_is_over_is_not_attached_to() {
        let over = pod(json!({ "terminated": { "exitCode": 3 } }));
        let error = may_be_attached(&over, "debug-abc")
            .expect_err("refused")
            .to_string();
        assert_eq!(
            error,
            "container `debug-abc` is over: its shell exited with 3"
        );
        assert!(may_be_attached(&pod(json!({})), "debug-abc").is_err());
        assert!(may_be_attached(&pod(json!({ "running": {} })), "another").is_err());
    }
}
