//! The Unix socket: who may connect, and how long a request may take to arrive.
//!
//! Invariants: a peer whose uid and gid are not listed gets no byte; a slow or silent peer holds a
//! connection for a bounded time; a stale socket file is replaced only when nobody answers on it.

use crate::config::Peers;
use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a request's head may take.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once; terminals count.
const CONNECTIONS: usize = 2048;

/// A place among the connections; it is free again when nobody holds it.
pub(super) type Slot = Arc<OwnedSemaphorePermit>;

/// A bound socket.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Binds, after removing a socket file that nobody listens on.
    pub async fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    format!("`{}` exists and is not a socket", path.display()),
                ));
            }
            Ok(_) if UnixStream::connect(path).await.is_ok() => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("another process listens on `{}`", path.display()),
                ));
            }
            Ok(_) => std::fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Serves until `stop`; open requests are let finish, upgraded ones are their owner's to end.
    pub async fn serve(self, routes: Router, peers: Peers, stop: CancellationToken) {
        self.serve_at_most(CONNECTIONS, routes, peers, stop).await;
    }

    async fn serve_at_most(
        self,
        most: usize,
        routes: Router,
        peers: Peers,
        stop: CancellationToken,
    ) {
        let slots = Arc::new(Semaphore::new(most));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: give others time to close.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            if !allowed(&stream, &peers) {
                continue;
            }
            let Ok(slot) = slots.clone().try_acquire_owned() else {
                tracing::warn!(most, "too many connections, one was closed");
                continue;
            };
            let routes = routes.clone();
            let stop = stop.clone();
            connections.spawn(connection(stream, routes, stop, Arc::new(slot)));
        }
        connections.close();
        // Terminals have been told by now; what is left is a request in flight.
        let _ = tokio::time::timeout(Duration::from_secs(2), connections.wait()).await;
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn connection(stream: UnixStream, routes: Router, stop: CancellationToken, slot: Slot) {
    let routes = TowerToHyperService::new(routes);
    // Each request carries the slot, so that an upgraded one can keep it as long as it lives.
    let routes = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&slot));
        routes.call(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), routes)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn allowed(stream: &UnixStream, peers: &Peers) -> bool {
    let Ok(peer) = stream.peer_cred() else {
        tracing::warn!("a peer without credentials was turned away");
        return false;
    };
    let own = peers.uids.is_empty() && peers.gids.is_empty();
    let listed = peers.uids.contains(&peer.uid()) || peers.gids.contains(&peer.gid());
    let ourselves = own && peer.uid() == rustix::process::geteuid().as_raw();
    if !(listed || ourselves) {
        tracing::warn!(uid = peer.uid(), gid = peer.gid(), "a peer was turned away");
    }
    listed || ourselves
}

#[cfg(test)]
mod tests;
