//! The least that anything between typist and shell costs: a process that only copies bytes.
//!
//! It runs where the relay runs, on a runtime of the same kind, so that a keystroke wakes the same
//! cores as often as it does through the relay.

use super::child::{Measured, say};
use super::run::Place;
use super::source::OVER_TLS;
use crate::StageError;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

/// Copies between whoever connects and the local `port` until the process ends; says its own port.
///
/// # Errors
/// It could not listen.
pub async fn serve(port: u16) -> Result<(), StageError> {
    let told = |error| StageError::of("the copier cannot listen", error);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(told)?;
    let own = listener.local_addr().map_err(told)?.port();
    say(&json!({"ready": true, "port": own}));
    loop {
        if let Ok((near, _)) = listener.accept().await {
            tokio::spawn(copy(near, port));
        }
    }
}

async fn copy(mut near: TcpStream, port: u16) -> std::io::Result<()> {
    let mut far = TcpStream::connect(("127.0.0.1", port)).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// Starts one on the relay's core; with it a kubeconfig in `dir` that leads through it.
pub(super) async fn start(place: &Place, dir: &Path) -> Result<(Measured, PathBuf), StageError> {
    let told = |error| StageError::of("the source's kubeconfig", error);
    let text = std::fs::read(place.source.join(OVER_TLS)).map_err(told)?;
    let mut config: Value =
        serde_json::from_slice(&text).map_err(|error| StageError::of("a kubeconfig", error))?;
    let server = &mut config["clusters"][0]["cluster"]["server"];
    let port = server.as_str().and_then(|url| url.rsplit(':').next());
    let port = port.ok_or_else(|| StageError::new("the source has no port"))?;
    let mut command = Command::new(place.program());
    command.args(["copier", "--port", port]);
    let cores = place.cores;
    let process = Measured::start("the copier", command, cores.relay, cores).await?;
    *server = json!(format!("https://127.0.0.1:{}", process.ready["port"]));
    let path = dir.join("copied.kubeconfig");
    std::fs::write(&path, config.to_string()).map_err(told)?;
    Ok((process, path))
}
