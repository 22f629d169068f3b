//! What the tests share: a raw client, so that what is on the wire is what is checked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use standin::{DEBUG_IMAGE, Standin};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// A bound for everything that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A client with one account's token.
pub(crate) struct Client<'a> {
    standin: &'a Standin,
    token: String,
}

pub(crate) type Socket = WebSocketStream<TlsStream<TcpStream>>;

impl<'a> Client<'a> {
    pub(crate) fn new(standin: &'a Standin, account: &str) -> Self {
        let token = standin.token(account).expect("an account").to_owned();
        Self { standin, token }
    }

    pub(crate) fn with_token(standin: &'a Standin, token: &str) -> Self {
        Self {
            standin,
            token: token.to_owned(),
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let authority = CertificateDer::from_pem_slice(self.standin.authority().as_bytes());
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(authority.expect("a certificate"))
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let address = self.standin.url().trim_start_matches("https://").to_owned();
        let socket = TcpStream::connect(address).await.expect("a connection");
        let name = "127.0.0.1".try_into().expect("a name");
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect(name, socket).await.expect("TLS")
    }

    /// Sends a request; the response with its body yet to be read.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Value,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let io = TokioIo::new(self.connect().await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
        tokio::spawn(connection);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", content_type)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        sender.send_request(request).await
    }

    /// Sends a JSON request; status and JSON answer.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let kind = match method {
            "PATCH" => "application/strategic-merge-patch+json",
            _ => "application/json",
        };
        let response = self
            .send(method, path, kind, body)
            .await
            .expect("an answer");
        let code = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        (code, serde_json::from_slice(&bytes).expect("JSON"))
    }

    /// Attaches; the stream, or the refusal's code and Status.
    pub(crate) async fn attach(&self, pod: &str, container: &str) -> Result<Socket, (u16, Value)> {
        let path = format!(
            "{}?container={container}&stdin=true&stdout=true&tty=true",
            pod_path(pod, "/attach")
        );
        self.attach_at(&path, "v5.channel.k8s.io, v4.channel.k8s.io")
            .await
    }

    pub(crate) async fn attach_at(
        &self,
        path: &str,
        protocols: &str,
    ) -> Result<Socket, (u16, Value)> {
        let uri = format!("{}{path}", self.standin.url().replace("https", "wss"));
        let mut request = uri.into_client_request().expect("a request");
        let headers = request.headers_mut();
        let bearer = format!("Bearer {}", self.token);
        headers.insert(
            "authorization",
            HeaderValue::from_str(&bearer).expect("a token"),
        );
        let protocols = HeaderValue::from_str(protocols).expect("protocols");
        headers.insert("sec-websocket-protocol", protocols);
        match tokio_tungstenite::client_async(request, self.connect().await).await {
            Ok((socket, _)) => Ok(socket),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                Err((
                    response.status().as_u16(),
                    serde_json::from_slice(&body).unwrap_or_default(),
                ))
            }
            Err(error) => panic!("neither a stream nor a refusal: {error}"),
        }
    }
}

pub(crate) fn pod_path(pod: &str, rest: &str) -> String {
    format!("/api/v1/namespaces/shop/pods/{pod}{rest}")
}

pub(crate) const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";

pub(crate) fn grant(name: &str, role: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "hangar.io/breakglass-session": name } },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "tower", "name": "breakglass" }],
    })
}

pub(crate) fn debug_container(name: &str, command: &[&str]) -> Value {
    json!({ "spec": { "ephemeralContainers": [{
        "name": name, "image": DEBUG_IMAGE, "command": command, "stdin": true, "tty": true,
    }] } })
}

pub(crate) fn first_pod(standin: &Standin) -> (String, String) {
    let pods = standin.pods("shop");
    let text = |field: &str| {
        pods[0]["metadata"][field]
            .as_str()
            .expect("a pod")
            .to_owned()
    };
    (text("name"), text("uid"))
}

/// The state of an ephemeral container.
pub(crate) fn state_of(standin: &Standin, pod: &str, container: &str) -> Value {
    let pods = standin.pods("shop");
    let pod = pods.iter().find(|one| one["metadata"]["name"] == pod);
    let statuses = pod.map(|pod| pod["status"]["ephemeralContainerStatuses"].clone());
    let statuses = statuses
        .and_then(|all| all.as_array().cloned())
        .unwrap_or_default();
    let status = statuses.iter().find(|one| one["name"] == container);
    status.map_or(Value::Null, |status| status["state"].clone())
}

/// Polls until `met`, within the bound.
#[track_caller]
pub(crate) fn until<'a>(
    what: &'a str,
    met: impl FnMut() -> bool + 'a,
) -> impl Future<Output = ()> + 'a {
    let at = std::panic::Location::caller();
    let mut met = met;
    async move {
        let poll = async {
            while !met() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, poll).await.is_ok(),
            "never: {what}, at {at}"
        );
    }
}

/// Adds a debug container as the admin and waits until it runs.
pub(crate) async fn running(standin: &Standin, pod: &str, name: &str, command: &[&str]) {
    let admin = Client::new(standin, "admin");
    let path = pod_path(pod, "/ephemeralcontainers");
    let (code, answer) = admin
        .call("PATCH", &path, debug_container(name, command))
        .await;
    assert_eq!(code, 200, "{answer}");
    until("the debug container runs", || {
        state_of(standin, pod, name)["running"].is_object()
    })
    .await;
}

/// Sends keys.
pub(crate) async fn press(socket: &mut Socket, keys: &str) {
    let frame: Vec<u8> = std::iter::once(0).chain(keys.bytes()).collect();
    socket
        .send(Message::Binary(frame.into()))
        .await
        .expect("an open stream");
}

/// Reads output until `text` is in it; everything read.
pub(crate) async fn read_until(socket: &mut Socket, text: &str) -> String {
    let mut seen = Vec::new();
    let mut looked_at: usize = 0;
    let read = async {
        // A flood is megabytes in small pieces: only what is new is looked at.
        while !seen[looked_at..]
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            looked_at = (seen.len() + 1).saturating_sub(text.len());
            match socket.next().await {
                Some(Ok(Message::Binary(frame))) if frame.first() == Some(&1) => {
                    seen.extend_from_slice(&frame[1..]);
                }
                Some(Ok(_)) => {}
                other => panic!("the stream ended: {other:?}"),
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, read).await.is_ok();
    let last = &seen[seen.len().saturating_sub(200)..];
    let last = String::from_utf8_lossy(last);
    assert!(
        in_time,
        "`{text}` never came; {} bytes, at last: {last}",
        seen.len()
    );
    String::from_utf8_lossy(&seen).into_owned()
}
