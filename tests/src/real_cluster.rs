//! The real cluster that `cargo xtask cluster up DIR` made for this run, asked as its admin.
//!
//! Invariant: a run without one fails, unless `BREAKGLASS_SKIP` names `cluster`. A request goes out
//! as it stands, so that a refusal is told from a failure by its status alone.

#![allow(clippy::panic, reason = "a test panics to fail")]

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The bound of every wait: a right takes milliseconds, a container seconds.
pub const WITHIN: Duration = Duration::from_secs(60);

/// Whether `BREAKGLASS_SKIP` names this part of the tests.
#[must_use]
pub fn left_out(part: &str) -> bool {
    let skipped = std::env::var("BREAKGLASS_SKIP").unwrap_or_default();
    skipped.split(',').any(|name| name.trim() == part)
}

/// The folder of the cluster of this run; `None` where the part is left out.
///
/// # Panics
///
/// Where there is no cluster and nobody left it out.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    // Another provider may have been installed by a test of the same process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = std::env::var_os("BREAKGLASS_TEST_CLUSTER").map(PathBuf::from);
    if folder.is_none() {
        assert!(
            left_out("cluster"),
            "there is no cluster to test on: run `cargo xtask test --only cluster`, or \
             `cargo xtask cluster up DIR` and set BREAKGLASS_TEST_CLUSTER=DIR, or leave this part \
             out with BREAKGLASS_SKIP=cluster"
        );
        eprintln!("skipped: no cluster, as BREAKGLASS_SKIP says");
    }
    folder
}

/// A cluster and who may do everything there.
pub struct RealCluster {
    /// Its folder, with kubeconfigs and what else was made.
    pub dir: PathBuf,
    /// A client of its admin's.
    pub admin: Client,
}

impl RealCluster {
    /// The cluster of this run; `None` where the part is left out.
    ///
    /// # Panics
    ///
    /// As [`folder`], and where the admin's kubeconfig cannot be used.
    pub async fn of_this_run() -> Option<Self> {
        let dir = folder()?;
        let admin = dir.join("admin.conf");
        let admin = client(&config(&admin).await);
        Some(Self { dir, admin })
    }

    /// A client by one of the kubeconfigs in the folder.
    ///
    /// # Panics
    ///
    /// Where the file cannot be used.
    pub async fn client(&self, kubeconfig: &str) -> Client {
        client(&self.config(kubeconfig).await)
    }

    /// What one of the kubeconfigs in the folder says.
    ///
    /// # Panics
    ///
    /// Where the file cannot be used.
    pub async fn config(&self, kubeconfig: &str) -> Config {
        config(&self.dir.join(kubeconfig)).await
    }

    /// What a file of the folder says, such as an image's name.
    ///
    /// # Panics
    ///
    /// Where it cannot be read.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let path = self.dir.join(name);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.trim().to_owned()
    }
}

async fn config(kubeconfig: &std::path::Path) -> Config {
    let shown = kubeconfig.display();
    let read = Kubeconfig::read_from(kubeconfig);
    let read = read.unwrap_or_else(|error| panic!("{shown}: {error}"));
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.unwrap_or_else(|error| panic!("{shown}: {error}"))
}

fn client(config: &Config) -> Client {
    Client::try_from(config.clone()).unwrap_or_else(|error| panic!("no client: {error}"))
}

/// Sends one request, the body as JSON and none for `null`; the status, and the answer if that is
/// JSON. A patch is a merge patch, of a pod's subresource or of a pod a strategic one.
///
/// # Panics
///
/// Where the API server does not answer.
pub async fn send(client: &Client, method: Method, path: &str, body: &Value) -> (u16, Value) {
    send_with(client, method, path, body, &[]).await
}

/// [`send`] with further headers, such as another person's name.
///
/// # Panics
///
/// As there.
pub async fn send_with(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
    headers: &[(&str, String)],
) -> (u16, Value) {
    let kind = match (method == Method::PATCH, path.contains("/pods/")) {
        (true, true) => "application/strategic-merge-patch+json",
        (true, false) => "application/merge-patch+json",
        (false, _) => "application/json",
    };
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("content-type", kind);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(Body::from(body));
    let request = request.unwrap_or_else(|error| panic!("{path}: {error}"));
    let answer = client.send(request).await;
    let answer = answer.unwrap_or_else(|error| panic!("{path}: no answer: {error}"));
    let status = answer.status().as_u16();
    let whole = answer.into_body().collect().await;
    let whole = whole.unwrap_or_else(|error| panic!("{path}: no whole answer: {error}"));
    let answer = serde_json::from_slice(&whole.to_bytes());
    (status, answer.unwrap_or(Value::Null))
}

/// Asks until it is so.
///
/// # Panics
///
/// Where it is not so [within the bound](WITHIN).
pub async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let asked = tokio::time::timeout(WITHIN, async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let asked = asked.await;
    assert!(asked.is_ok(), "{what}: not so within {WITHIN:?}");
}
