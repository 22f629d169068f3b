//! A Sigstore of the tests' own on loopback: transparency log, certificate authority, two OpenID
//! issuers, the repository of what is to be trusted, and a registry of images.
//!
//! Invariant: it is gone with its handle. The log, the authority, the registry and the client are
//! the real programs; keys and ports are new in each run. There is no certificate log, so that a
//! certificate's entry in one cannot be checked against this Sigstore.

mod documents;
mod issuer;

pub use issuer::Issuer;

use crate::StageError;
use crate::postgres::Postgres;
use crate::processes::{Process, free_port, until};
use documents::{Contents, Documents};
use p256::ecdsa::VerifyingKey;
use p256::pkcs8::{EncodePublicKey as _, LineEnding};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::Command;

/// How long one part may take to come up on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// The folder of the compiled programs; `cargo xtask sigstore build` prints it.
const PARTS: &str = "BREAKGLASS_TEST_SIGSTORE";

/// All of it, until it is dropped.
pub struct Sigstore {
    // In this order they end: Postgres after what uses it.
    log: Option<Process>,
    authority: Server,
    registry: Option<Process>,
    registry_port: u16,
    _trillian: Server,
    issuers: [Issuer; 2],
    trusted: Option<Documents>,
    trust_mirror: String,
    log_url: String,
    programs: Programs,
    _postgres: Postgres,
}

/// A program on a port.
struct Server {
    process: Process,
    port: u16,
}

/// The compiled programs, and where they work.
struct Programs {
    parts: PathBuf,
    dir: TempDir,
}

/// How an image is signed.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'a> {
    /// Which issuer knows the workflow: 0 or 1.
    pub issuer: usize,
    /// `owner/repository/.github/workflows/file@ref`
    pub workflow: &'a str,
    /// Whether the signature is entered in the log.
    pub entered: bool,
    /// Whether it is a bundle, as cosign writes since its version 3, or a tag, as before.
    pub bundle: bool,
}

impl Sigstore {
    /// Starts all of it.
    pub async fn start() -> Result<Self, StageError> {
        let programs = Programs::find()?;
        let postgres = Postgres::start().await?;
        let trillian = programs.trillian(&postgres).await?;
        let (log, log_url) = programs.log(&trillian).await?;
        let issuers = [Issuer::start().await?, Issuer::start().await?];
        let authority = programs.authority(&issuers).await?;
        let registry = programs.registry().await?;
        let trusted = programs.trusted(&log_url, &authority.url()).await?;
        Ok(Self {
            log: Some(log),
            authority,
            registry: Some(registry.process),
            registry_port: registry.port,
            _trillian: trillian,
            issuers,
            trust_mirror: trusted.url().to_owned(),
            trusted: Some(trusted),
            log_url,
            programs,
            _postgres: postgres,
        })
    }

    /// The log's address.
    pub fn log_url(&self) -> &str {
        &self.log_url
    }

    /// The certificate authority's address.
    pub fn authority_url(&self) -> String {
        self.authority.url()
    }

    /// The folder of its keys and logs.
    pub fn folder(&self) -> &Path {
        self.programs.dir.path()
    }

    /// The log's public key, PEM.
    pub fn log_key(&self) -> Result<String, StageError> {
        read(&self.programs.path(LOG_KEY))
    }

    /// The issuers; certificates are given for the tokens of both.
    pub fn issuers(&self) -> &[Issuer; 2] {
        &self.issuers
    }

    /// The registry, as an image's name begins: `address:port`.
    pub fn registry(&self) -> String {
        format!("127.0.0.1:{}", self.registry_port)
    }

    /// Where a verifier finds what is to be trusted: a TUF mirror.
    pub fn trust_mirror(&self) -> &str {
        &self.trust_mirror
    }

    /// What a verifier must know beforehand to believe the mirror: `root.json`.
    pub fn trust_root(&self) -> Result<String, StageError> {
        read(&self.programs.path("tuf/repository/root.json"))
    }

    /// Ends the log; its address answers no longer.
    pub async fn stop_log(&mut self) -> Result<(), StageError> {
        match self.log.take() {
            Some(mut log) => log.kill().await,
            None => Ok(()),
        }
    }

    /// Ends the registry.
    pub async fn stop_registry(&mut self) -> Result<(), StageError> {
        match self.registry.take() {
            Some(mut registry) => registry.kill().await,
            None => Ok(()),
        }
    }

    /// Ends the trust repository.
    pub fn stop_trust(&mut self) {
        self.trusted = None;
    }

    /// Signs an image in the registry, keyless, as the workflow of the release would.
    pub async fn sign(&self, image: &str, signer: Signer<'_>) -> Result<(), StageError> {
        let token = self.programs.path("token");
        write(&token, &self.issuers[signer.issuer].token(signer.workflow))?;
        let mut cosign = self.programs.command("cosign");
        cosign
            .args(["sign", "--yes", "--allow-insecure-registry"])
            .args(["--fulcio-url", &self.authority.url()])
            .args(["--rekor-url", &self.log_url])
            .arg("--identity-token")
            .arg(&token)
            .arg("--trusted-root")
            .arg(self.programs.path(TRUSTED_ROOT))
            // The certificate is in no log, and cosign would look for it before it uses it.
            .arg("--insecure-skip-verify")
            .arg("--use-signing-config=false")
            .arg(format!("--tlog-upload={}", signer.entered))
            .arg(format!("--new-bundle-format={}", signer.bundle))
            .arg(image);
        run("cosign", cosign).await.map(|_| ())
    }
}

impl Server {
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

const LOG_KEY: &str = "log.pub";
const AUTHORITY: &str = "authority.pem";
const TRUSTED_ROOT: &str = "trusted-root.json";

impl Programs {
    fn find() -> Result<Self, StageError> {
        let parts = std::env::var_os(PARTS).map(PathBuf::from);
        let parts = parts.filter(|parts| parts.join("sigstoreparts").is_file());
        let parts = parts.ok_or_else(|| {
            StageError::new(format!(
                "the programs of Sigstore are not there: set {PARTS} to the folder that \
                 `cargo xtask sigstore build` prints (`cargo xtask test` does)"
            ))
        })?;
        let dir = tempfile::Builder::new()
            .prefix("breakglass-sigstore")
            .tempdir()
            .map_err(|error| StageError::of("no folder for Sigstore", error))?;
        Ok(Self { parts, dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.parts.join("sigstoreparts"));
        // Nothing of it in the home of whoever runs the tests, and nothing from there.
        command.arg(program).env("HOME", self.dir.path());
        command
    }

    fn start(&self, name: &str, command: Command, port: u16) -> Result<Server, StageError> {
        let log = self.path(&format!("{name}.log"));
        let process = Process::start(name, command, &log)?;
        Ok(Server { process, port })
    }

    /// What keeps the log's tree.
    async fn trillian(&self, postgres: &Postgres) -> Result<Server, StageError> {
        let schema = read(&self.parts.join("trillian.sql"))?;
        postgres
            .database("trillian")
            .await?
            .batch_execute(&schema)
            .await
            .map_err(|error| StageError::of("the log's tables were not made", error))?;
        let port = free_port()?;
        let mut command = self.command("trillian");
        command.arg(format!(
            "postgresql://postgres@127.0.0.1:{}/trillian?sslmode=disable",
            postgres.port()
        ));
        command.arg(format!("127.0.0.1:{port}"));
        let trillian = self.start("trillian", command, port)?;
        until("Trillian", UP_WITHIN, || async move {
            TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await?;
        Ok(trillian)
    }

    /// Rekor. It also serves its metrics, on port 2112 of every address; no flag says otherwise,
    /// and where the port is taken it does without.
    async fn log(&self, trillian: &Server) -> Result<(Process, String), StageError> {
        let port = free_port()?;
        let mut command = self.command("rekor");
        command
            .args(["serve", "--rekor_server.address=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg("--trillian_log_server.address=127.0.0.1")
            .arg(format!("--trillian_log_server.port={}", trillian.port))
            .arg("--rekor_server.signer=memory")
            // An index by key or hash would want a server of its own; nothing here asks it.
            .arg("--enable_retrieve_api=false");
        let process = Process::start("rekor", command, &self.path("rekor.log"))?;
        let url = format!("http://127.0.0.1:{port}");
        let key = answers(&format!("{url}/api/v1/log/publicKey")).await?;
        write(&self.path(LOG_KEY), &key)?;
        Ok((process, url))
    }

    /// Fulcio.
    async fn authority(&self, issuers: &[Issuer; 2]) -> Result<Server, StageError> {
        let known = issuers.each_ref().map(|issuer| {
            let about = json!({ "IssuerURL": issuer.url(), "ClientID": issuer::AUDIENCE,
                                "Type": "github-workflow" });
            (issuer.url().to_owned(), about)
        });
        let known: serde_json::Map<_, _> = known.into_iter().collect();
        let config = self.path("authority.json");
        write(&config, &json!({ "OIDCIssuers": known }).to_string())?;
        let (port, grpc, metrics) = (free_port()?, free_port()?, free_port()?);
        let mut command = self.command("fulcio");
        command
            .args(["serve", "--ca=ephemeralca", "--ct-log-url="])
            .arg(format!("--config-path={}", config.display()))
            .args(["--host=127.0.0.1", &format!("--port={port}")])
            .args(["--grpc-host=127.0.0.1", &format!("--grpc-port={grpc}")])
            .arg(format!("--metrics-port={metrics}"))
            // Otherwise one of a fixed name.
            .arg("--legacy-unix-domain-socket")
            .arg(self.path("authority.socket"));
        let authority = self.start("fulcio", command, port)?;
        let root = answers(&format!("{}/api/v1/rootCert", authority.url())).await?;
        write(&self.path(AUTHORITY), &root)?;
        Ok(authority)
    }

    async fn registry(&self) -> Result<Server, StageError> {
        let port = free_port()?;
        let mut command = self.command("registry");
        command.arg(format!("127.0.0.1:{port}"));
        let registry = self.start("registry", command, port)?;
        answers(&format!("{}/v2/", registry.url())).await?;
        Ok(registry)
    }

    /// Writes down what is to be trusted, and serves it as a public Sigstore does.
    async fn trusted(&self, log: &str, authority: &str) -> Result<Documents, StageError> {
        // Every reader wants a certificate log; nobody has the key of this one.
        let nobody = VerifyingKey::from(&issuer::new_key()?);
        let nobody = nobody
            .to_public_key_pem(LineEnding::LF)
            .map_err(|error| StageError::of("no key for a certificate log", error))?;
        write(&self.path("nobody.pub"), &nobody)?;
        let of = |url: &str, what: &str, file: &str| {
            let path = self.path(file);
            format!(
                "url={url},{what}={},start-time=2020-01-01T00:00:00Z",
                path.display()
            )
        };
        let mut cosign = self.command("cosign");
        cosign
            .args(["trusted-root", "create"])
            .args(["--fulcio", &of(authority, "certificate-chain", AUTHORITY)])
            .args(["--rekor", &of(log, "public-key", LOG_KEY)])
            .args([
                "--ctfe",
                &of("http://127.0.0.1:1", "public-key", "nobody.pub"),
            ])
            .arg("--out")
            .arg(self.path(TRUSTED_ROOT));
        run("cosign", cosign).await?;
        let mut tuf = self.command("tuf");
        tuf.arg(self.path("tuf")).arg(self.path(TRUSTED_ROOT));
        run("tuf", tuf).await?;
        let repository = self.path("tuf/repository");
        Documents::serve(|_| {
            let mut contents = Contents::new();
            add_files(&repository, "", &mut contents)
                .map_err(|error| StageError::of("the trust repository", error))?;
            Ok(contents)
        })
        .await
    }
}

fn add_files(folder: &Path, at: &str, contents: &mut Contents) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let at = format!("{at}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            add_files(&entry.path(), &at, contents)?;
        } else {
            contents.insert(at, std::fs::read(entry.path())?);
        }
    }
    Ok(())
}

/// What an address answers as soon as it answers well.
async fn answers(url: &str) -> Result<String, StageError> {
    until(url, UP_WITHIN, || async {
        let answer = reqwest::get(url).await.ok()?.error_for_status().ok()?;
        answer.text().await.ok()
    })
    .await
}

/// Runs a program to its end; what it printed.
async fn run(name: &str, mut command: Command) -> Result<String, StageError> {
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .map_err(|error| StageError::of(format!("{name} cannot be started"), error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(StageError::new(format!("{name} failed: {said}")))
}

fn read(path: &Path) -> Result<String, StageError> {
    std::fs::read_to_string(path).map_err(|error| StageError::of(path.display().to_string(), error))
}

fn write(path: &Path, text: &str) -> Result<(), StageError> {
    std::fs::write(path, text).map_err(|error| StageError::of(path.display().to_string(), error))
}
