//! HTTP on a listening socket, so many connections at once and none for nothing.
//!
//! *The idea.* A connection is a descriptor that links and programs lack. So there are a few places, and whoever has one must
//! send the head of a request within seconds, the first as each that follows.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use thalweg_net::task::alone;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::{debug, warn};

/// Connections at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take, from when the connection is ready for it.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long requests that are being answered may still take when the node ends.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// How long nothing is accepted after that has failed, as where there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers requests until `stopped` is ready.
pub(super) async fn serve(listener: TcpListener, router: Router, stopped: impl Future) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let connections = GracefulShutdown::new();
    let accepting = async {
        loop {
            // Never closed.
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "admin API accepts no connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
            let service = TowerToHyperService::new(router.clone());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let connection = connections.watch(connection);
            tokio::spawn(alone(async move {
                let _place = place;
                if let Err(error) = connection.await {
                    debug!(%peer, %error, "admin API");
                }
            }));
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = accepting => {}
    }
    // Who does not read its answer is not waited for.
    let _ = tokio::time::timeout(GOODBYE_MAX, connections.shutdown()).await;
}
