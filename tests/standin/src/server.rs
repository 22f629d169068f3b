//! The listener: TLS on loopback, HTTP/1.1 with upgrades, a task per connection.

use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::api;
use crate::world::World;

/// How long a client may take for its handshake, and for a request's head.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes connections until the stand-in stops.
pub(crate) async fn listen(world: World, listener: TcpListener, acceptor: TlsAcceptor) {
    let unreachable = world.read().faults.unreachable.subscribe();
    loop {
        // Errors of `accept` concern one connection, or will be met again by the next.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        if *unreachable.borrow() {
            continue;
        }
        let (world, acceptor, mut cut) = (world.clone(), acceptor.clone(), unreachable.clone());
        world.clone().spawn(async move {
            tokio::select! {
                () = serve(world, socket, acceptor) => {}
                () = until_unreachable(&mut cut) => {}
            }
        });
    }
}

async fn until_unreachable(unreachable: &mut watch::Receiver<bool>) {
    if unreachable
        .wait_for(|unreachable| *unreachable)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

async fn serve(world: World, socket: TcpStream, acceptor: TlsAcceptor) {
    // Without it a key's echo can wait 40 ms for an acknowledgement.
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, acceptor.accept(socket)).await else {
        return;
    };
    let service = service_fn(move |request| api::handle(world.clone(), request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Broken connections are the clients' business, and often ordered by a fault.
    let _ = connection.await;
}
