//! A real Backstage backend with the plugin, and its people.

use crate::processes::Process;
use crate::{StageError, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// Booting loads some eight hundred packages.
const BOOT: Duration = Duration::from_secs(120);

/// A running backend.
pub struct Backstage {
    process: Process,
    url: String,
    sign_in: String,
    header: String,
    start: Start,
}

/// What it is started with; a restart uses the same.
#[derive(Clone)]
struct Start {
    socket: PathBuf,
    postgres_port: u16,
    port: u16,
    log: PathBuf,
    log_level: &'static str,
}

impl Backstage {
    /// Boots it against a sidecar's socket and a Postgres.
    pub async fn start(
        dir: &Path,
        socket: &Path,
        postgres_port: u16,
        log_level: &'static str,
    ) -> Result<Self, StageError> {
        let start = Start {
            socket: socket.to_owned(),
            postgres_port,
            port: crate::processes::free_port()?,
            log: dir.join("backstage.log"),
            log_level,
        };
        Self::boot(start).await
    }

    async fn boot(start: Start) -> Result<Self, StageError> {
        let mut node = Command::new("node");
        node.current_dir(root())
            .arg("tests/backstage/start.mjs")
            .args(["--port", &start.port.to_string()])
            .env("BREAKGLASS_SOCKET", &start.socket)
            .env("POSTGRES_HOST", "127.0.0.1")
            .env("POSTGRES_PORT", start.postgres_port.to_string())
            .env("POSTGRES_USER", "postgres")
            .env("POSTGRES_PASSWORD", crate::postgres::PASSWORD)
            .env("LOG_LEVEL", start.log_level);
        let (process, ready) =
            Process::start_until_ready("Backstage", node, &start.log, BOOT).await?;
        let text = |pointer: &str| {
            ready
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Self {
            process,
            url: text("/url"),
            sign_in: text("/signIn/url"),
            header: text("/signIn/header"),
            start,
        })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A real token of one of its people.
    pub async fn token(&self, name: &str) -> Result<String, StageError> {
        let answer = reqwest::Client::new()
            .post(&self.sign_in)
            .header(&self.header, name)
            .send()
            .await
            .map_err(|error| StageError::of("signing in", error))?;
        let answer: Value = serde_json::from_slice(
            &answer
                .bytes()
                .await
                .map_err(|error| StageError::of("signing in", error))?,
        )
        .map_err(|error| StageError::of("signing in", error))?;
        let token = answer
            .pointer("/backstageIdentity/token")
            .and_then(Value::as_str);
        token
            .map(str::to_owned)
            .ok_or_else(|| StageError::new(format!("no token for {name}")))
    }

    /// Kills it and boots it again at the same address.
    pub async fn restart(&mut self) -> Result<(), StageError> {
        self.process.kill().await?;
        *self = Self::boot(self.start.clone()).await?;
        Ok(())
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.start.log).unwrap_or_default()
    }
}
