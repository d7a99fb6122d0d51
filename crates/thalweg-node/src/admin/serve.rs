//! HTTP on a listening socket, with a bounded number of connections.
//!
//! *The idea.* A connection holds a descriptor that links and programs may need. So the number of
//! places is small, and each request's head must arrive within seconds. A connection is accepted at
//! once; if no place is free, the oldest connection is closed. So a request is answered however
//! many connections stay idle. A request that is being answered gets a moment more.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use thalweg_net::task::alone;
use tokio::net::TcpListener;
use tracing::{debug, warn};

use crate::waiting::{REVOKE_GRACE, WaitingRoom};

/// Maximum number of connections; beyond it the oldest is closed.
const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take, from when the connection is ready for it.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long requests that are being answered may take when the node ends.
const SHUTDOWN_MAX: Duration = Duration::from_secs(2);

/// How long to accept nothing after a failed accept, for example without free descriptors.
const PAUSE: Duration = Duration::from_millis(500);

/// Answers requests until `stopped` is ready.
pub(super) async fn serve(listener: TcpListener, router: Router, stopped: impl Future) {
    let connections = GracefulShutdown::new();
    let mut room = WaitingRoom::new(CONNECTIONS_MAX);
    let accepting = async {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "admin API failed to accept a connection");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let mut place = room.enter();
            let answering = Arc::new(AtomicUsize::new(0));
            let service = counting(router.clone(), Arc::clone(&answering));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX);
            let connection = http.serve_connection(TokioIo::new(stream), service);
            let connection = connections.watch(connection);
            tokio::spawn(alone(async move {
                tokio::pin!(connection);
                let served = tokio::select! {
                    served = &mut connection => served,
                    () = place.revoked() => {
                        debug!(%peer, "admin API: too many connections; closing the oldest");
                        let mut left = tokio::time::timeout(REVOKE_GRACE, &mut connection).await;
                        if left.is_err() && answering.load(Relaxed) > 0 {
                            left = tokio::time::timeout(SHUTDOWN_MAX, connection).await;
                        }
                        left.unwrap_or(Ok(()))
                    }
                };
                if let Err(error) = served {
                    debug!(%peer, %error, "admin API");
                }
            }));
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = accepting => {}
    }
    // A client that does not read its answer is not waited for.
    let _ = tokio::time::timeout(SHUTDOWN_MAX, connections.shutdown()).await;
}

/// Answers requests, and counts those that are being answered.
fn counting(
    router: Router,
    answering: Arc<AtomicUsize>,
) -> impl Service<
    Request<Incoming>,
    Response = Response,
    Error = Infallible,
    Future = impl Future<Output = Result<Response, Infallible>> + Send,
> {
    let service = TowerToHyperService::new(router);
    service_fn(move |request| {
        let answering = Arc::clone(&answering);
        answering.fetch_add(1, Relaxed);
        let answered = service.call(request);
        async move {
            let answered = answered.await;
            answering.fetch_sub(1, Relaxed);
            answered
        }
    })
}
