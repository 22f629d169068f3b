//! An object store of the tests' own on loopback: MinIO, its client, and requests of S3's own.
//!
//! Invariant: it is gone with its handle, and so is what it stored. Keys are new in each run.

use crate::StageError;
use crate::processes::{Process, free_port, until};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Method, StatusCode};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// The folder of the compiled programs; `cargo xtask object-store build` prints it.
const PROGRAMS: &str = "BREAKGLASS_TEST_OBJECT_STORE";
const UP_WITHIN: Duration = Duration::from_secs(60);
const REGION: &str = "us-east-1";
/// What a request's body is said to hash to where that is left open.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// A key of the store.
#[derive(Clone)]
pub struct Key {
    /// Its name.
    pub access: String,
    /// What it signs with.
    pub secret: String,
}

impl Key {
    /// A new one.
    pub fn new(name: &str) -> Self {
        Self {
            access: name.to_owned(),
            secret: format!("{:032x}", rand::random::<u128>()),
        }
    }
}

/// The store, until it is dropped.
pub struct ObjectStore {
    programs: PathBuf,
    url: String,
    root: Key,
    http: reqwest::Client,
    _process: Process,
    dir: TempDir,
}

/// S3's answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: String,
}

impl ObjectStore {
    /// Starts it, with nothing in it.
    pub async fn start() -> Result<Self, StageError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let programs = std::env::var_os(PROGRAMS).map(PathBuf::from);
        let programs = programs.ok_or_else(|| {
            StageError::new(format!(
                "there is no object store to test on: run `cargo xtask object-store build` and set \
                 {PROGRAMS} to what it prints"
            ))
        })?;
        let dir = tempfile::tempdir().map_err(|error| StageError::of("no folder", error))?;
        let [address, console] =
            [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
        let root = Key::new("the-owner");
        let mut command = Command::new(programs.join("minio"));
        command.args([
            "server",
            "--address",
            &address,
            "--console-address",
            &console,
        ]);
        command.arg(dir.path().join("data")).env("HOME", dir.path());
        command.env("MINIO_ROOT_USER", &root.access);
        command.env("MINIO_ROOT_PASSWORD", &root.secret);
        let process = Process::start("minio", command, &dir.path().join("minio.log"))?;
        let url = format!("http://{address}");
        let http = reqwest::Client::new();
        until("MinIO is ready", UP_WITHIN, async || {
            let ready = http.get(format!("{url}/minio/health/ready")).send().await;
            ready
                .is_ok_and(|ready| ready.status().is_success())
                .then_some(())
        })
        .await?;
        Ok(Self {
            programs,
            url,
            root,
            http,
            _process: process,
            dir,
        })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key that may do everything.
    pub fn root(&self) -> &Key {
        &self.root
    }

    /// A folder that goes with it.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The client.
    pub fn client(&self) -> PathBuf {
        self.programs.join("mc")
    }

    /// Runs the client as the holder of this key, who is called `store`.
    pub async fn run(&self, key: &Key, arguments: &[&str]) -> Result<Output, StageError> {
        let (scheme, address) = self.url.split_once("://").unwrap_or_default();
        let Key { access, secret } = key;
        let mut command = Command::new(self.client());
        command
            .args(["--config-dir"])
            .arg(self.dir.path().join("mc"))
            .args(arguments)
            .env(
                "MC_HOST_store",
                format!("{scheme}://{access}:{secret}@{address}"),
            );
        let output = command.output().await;
        output.map_err(|error| StageError::of("the store's client cannot be run", error))
    }

    /// Sends a request of S3's own. `query` is as it is signed: sorted, with a `=` after each name.
    pub async fn send(
        &self,
        key: &Key,
        method: Method,
        (path, query): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, StageError> {
        let failed = |error| StageError::of("the store does not answer", error);
        let host = self.url.trim_start_matches("http://");
        let time = now()?.strftime("%Y%m%dT%H%M%SZ").to_string();
        // What changes a lock must say what it is.
        let checksum = BASE64_STANDARD.encode(Sha256::digest(body));
        let mut signed = vec![
            ("host", host),
            ("x-amz-checksum-sha256", &checksum),
            ("x-amz-content-sha256", UNSIGNED),
            ("x-amz-date", &time),
        ];
        signed.extend(headers);
        signed.sort_unstable();
        let authorization = authorization(key, &method, (path, query), &signed);
        let mut request = self
            .http
            .request(method, format!("{}{path}?{query}", self.url))
            .header("authorization", authorization)
            .body(body.to_owned());
        for (name, value) in signed {
            request = request.header(name, value);
        }
        let answer = request.send().await.map_err(failed)?;
        Ok(Answer {
            status: answer.status(),
            body: answer.text().await.map_err(failed)?,
        })
    }
}

/// The store compares it with its own.
fn now() -> Result<Timestamp, StageError> {
    let since_1970 = std::time::UNIX_EPOCH.elapsed();
    let since_1970 = since_1970.map_err(|error| StageError::of("the clock", error))?;
    let seconds = i64::try_from(since_1970.as_secs());
    let seconds = seconds.map_err(|error| StageError::of("the clock", error))?;
    Timestamp::from_second(seconds).map_err(|error| StageError::of("the clock", error))
}

/// AWS's signature, version 4.
fn authorization(
    key: &Key,
    method: &Method,
    (path, query): (&str, &str),
    headers: &[(&str, &str)],
) -> String {
    let time = headers.iter().find(|(name, _)| *name == "x-amz-date");
    let time = time.map_or("", |(_, time)| time);
    let (day, _) = time.split_once('T').unwrap_or_default();
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{UNSIGNED}");
    let scope = format!("{day}/{REGION}/s3/aws4_request");
    let hash = hex(&Sha256::digest(request));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
    let mut signing = format!("AWS4{}", key.secret).into_bytes();
    for part in [day, REGION, "s3", "aws4_request"] {
        signing = hmac(&signing, part.as_bytes());
    }
    let signature = hex(&hmac(&signing, text.as_bytes()));
    let access = &key.access;
    format!(
        "AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, \
         Signature={signature}"
    )
}

/// HMAC with SHA-256; no key here is longer than a block.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let padded = |with: u8| -> Vec<u8> {
        let bytes = key.iter().copied().chain(std::iter::repeat(0));
        bytes.take(64).map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::digest([&padded(0x36), text].concat());
    Sha256::digest([&padded(0x5c)[..], &inner].concat()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
