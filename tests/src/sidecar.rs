//! The sidecar: as the program that people run, or in this process with a clock that a test moves.

use crate::StageError;
use crate::pod::Pod;
use crate::processes::{Process, until};
use breakglass::app::App;
use breakglass::config::{self, Config};
use breakglass::fakes::clock::FakeClock;
use breakglass::folder::FolderRecordings;
use breakglass::sessions::World;
use breakglass::store::PgStore;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;

/// What a sidecar of the stage runs on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Folder of sockets, spools, recordings and logs.
    pub dir: PathBuf,
    /// Postgres' port on the loopback.
    pub postgres_port: u16,
    /// The clusters, as the configuration has them.
    pub clusters: Value,
    /// Which of them are Ground.
    pub ground: Vec<String>,
    /// The debug image by digest.
    pub debug_image: String,
    /// The fences, as the configuration has them; null for none.
    pub policies: Value,
    /// The pod that it is in, where it is in one.
    pub pod: Option<Pod>,
    /// This installation's name.
    pub installation: String,
    /// Which sidecar of the stage: several can share a database.
    pub name: String,
    /// What is logged.
    pub log_filter: String,
}

impl Settings {
    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!("{}.sock", self.name))
    }

    /// Where its recordings are.
    pub fn recordings(&self) -> PathBuf {
        self.dir.join("recordings")
    }

    /// Where its spools are.
    pub fn spool(&self) -> PathBuf {
        self.dir.join("spool")
    }

    /// Where it logs.
    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("{}.log", self.name))
    }

    /// The configuration file, as a value.
    pub fn file(&self) -> Value {
        json!({
            "installation": self.installation,
            "socket": self.socket(),
            "database": {
                "host": "127.0.0.1", "port": self.postgres_port, "user": "postgres",
            },
            "clusters": self.clusters,
            "groundClusters": self.ground,
            "debugImages": [self.debug_image],
            "policies": self.policies,
            "recordings": {"folder": {"path": self.recordings()}},
            "spool": self.spool(),
            "logs": {"filter": self.log_filter},
        })
    }

    /// The configuration, read as `serve` reads it.
    pub fn config(&self) -> Result<Config, StageError> {
        let path = self.write()?;
        config::read(&path, &|_| None)
            .map_err(|error| StageError::of("the sidecar's configuration", error))
    }

    fn write(&self) -> Result<PathBuf, StageError> {
        let path = self.dir.join(format!("{}.yaml", self.name));
        // JSON is YAML.
        std::fs::write(&path, format!("{:#}\n", self.file()))
            .map_err(|error| StageError::of("the sidecar's configuration", error))?;
        Ok(path)
    }
}

/// The program `breakglass serve`.
pub struct SidecarProcess {
    settings: Settings,
    process: Process,
}

impl SidecarProcess {
    /// Starts it and waits until it is ready.
    pub async fn start(settings: &Settings) -> Result<Self, StageError> {
        let this = Self::start_alive(settings).await?;
        ready(&settings.socket(), Duration::from_secs(60)).await?;
        Ok(this)
    }

    /// Starts it and waits until it listens.
    pub async fn start_alive(settings: &Settings) -> Result<Self, StageError> {
        let config = settings.write()?;
        let binary = crate::cli::binary()?;
        let mut command = match &settings.pod {
            Some(pod) => pod.command(&binary),
            None => Command::new(binary),
        };
        command
            .arg("serve")
            .arg("--config")
            .arg(config)
            .env("POSTGRES_PASSWORD", crate::postgres::PASSWORD);
        let process = Process::start("breakglass serve", command, &settings.log())?;
        let socket = settings.socket();
        until("the sidecar's socket", Duration::from_secs(30), || async {
            get(&socket, "/healthz")
                .await
                .ok()
                .filter(|(status, _)| *status == 200)
        })
        .await?;
        Ok(Self {
            settings: settings.clone(),
            process,
        })
    }

    /// `kill -9`.
    pub async fn kill(&mut self) -> Result<(), StageError> {
        self.process.kill().await
    }

    /// SIGTERM, which must be over within 10 s (O-6): how it exited.
    pub async fn stop(&mut self) -> Result<ExitStatus, StageError> {
        self.process.stop(Duration::from_secs(10)).await
    }

    /// What it runs on.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.settings.log()).unwrap_or_default()
    }
}

/// A sidecar in this process, on the real adapters but for its clock.
pub struct SidecarHere {
    /// The application.
    pub app: Arc<App>,
    /// The clock that the test moves.
    pub clock: Arc<FakeClock>,
    serving: tokio::task::JoinHandle<()>,
}

impl SidecarHere {
    /// Starts it and waits until it is ready.
    pub async fn start(settings: &Settings) -> Result<Self, StageError> {
        Self::start_changed(settings, |_| {}).await
    }

    /// Starts it with what the settings do not have, bounds most of all, and waits until it is
    /// ready.
    pub async fn start_changed(
        settings: &Settings,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, StageError> {
        let this = Self::start_standing_by(settings, change).await?;
        ready(&settings.socket(), Duration::from_secs(60)).await?;
        Ok(this)
    }

    /// The same without waiting for more than its socket: another sidecar may own the sessions.
    pub async fn start_standing_by(
        settings: &Settings,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, StageError> {
        let this = Self::begin(settings, change).await?;
        let socket = settings.socket();
        until("the sidecar's socket", Duration::from_secs(30), || async {
            get(&socket, "/healthz").await.ok()
        })
        .await?;
        Ok(this)
    }

    /// The same, and ready as it says itself: its socket may be for others.
    pub async fn start_unasked(
        settings: &Settings,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, StageError> {
        let this = Self::begin(settings, change).await?;
        let ready = || async { this.app.missing().await.is_empty().then_some(()) };
        until("the sidecar's readiness", Duration::from_secs(60), ready).await?;
        Ok(this)
    }

    async fn begin(
        settings: &Settings,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, StageError> {
        let mut config = settings.config()?;
        change(&mut config);
        let clock = Arc::new(FakeClock::new());
        let store = PgStore::new(&config.database, format!("here-{}", settings.name))
            .map_err(|error| StageError::of("the store", error))?;
        let clusters = App::clusters(&config)
            .await
            .map_err(|error| StageError::of("the clusters", error))?;
        let folder = &config.recordings.folder;
        let world = World {
            clock: clock.clone(),
            store: Arc::new(store),
            clusters,
            recordings: Arc::new(FolderRecordings::new(folder.path.clone(), &folder.name)),
        };
        let app = App::on(&config, world);
        let serving = Arc::clone(&app);
        let serving = tokio::spawn(async move {
            if let Err(error) = serving.serve(&config).await {
                tracing::error!(%error, "the sidecar stopped");
            }
        });
        Ok(Self {
            app,
            clock,
            serving,
        })
    }
}

impl Drop for SidecarHere {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Waits until `/readyz` says so.
pub async fn ready(socket: &Path, within: Duration) -> Result<(), StageError> {
    until("the sidecar's readiness", within, || async {
        get(socket, "/readyz")
            .await
            .ok()
            .filter(|(status, _)| *status == 200)
    })
    .await
    .map(|_| ())
}

/// One GET on the socket, as the kubelet's probe does it.
pub async fn get(socket: &Path, path: &str) -> Result<(u16, Value), StageError> {
    call(socket, "GET", path, None, None).await
}

/// One call on the socket, as the shim does it.
pub async fn call(
    socket: &Path,
    method: &str,
    path: &str,
    caller: Option<&Value>,
    body: Option<&Value>,
) -> Result<(u16, Value), StageError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| StageError::of(path, error);
    let stream = tokio::net::UnixStream::connect(socket)
        .await
        .map_err(|e| failed(e.into()))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
            .await
            .map_err(|e| failed(e.into()))?;
    tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "sidecar");
    if let Some(caller) = caller {
        request = request.header(
            "x-breakglass-caller",
            breakglass::http::caller::encode(caller),
        );
    }
    let body = match body {
        Some(body) => {
            request = request.header("content-type", "application/json");
            body.to_string()
        }
        None => String::new(),
    };
    let request = request
        .body(http_body_util::Full::new(bytes::Bytes::from(body)))
        .map_err(|e| failed(e.into()))?;
    let response = sender
        .send_request(request)
        .await
        .map_err(|e| failed(e.into()))?;
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body())
        .await
        .map_err(|e| failed(e.into()))?
        .to_bytes();
    let value = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Ok((status, value))
}
