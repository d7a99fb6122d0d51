//! HTTP on a listening socket, so many connections at once and none for nothing.
//!
//! *The idea.* A connection is a descriptor that links and programs lack. So there are a few places, and
//! whoever has one must send the head of a request within seconds, the first as each that follows. A
//! connection is accepted at once, and where there is no place the oldest one ends: whoever asks is answered,
//! however many others dribble. One that is being answered has a moment more.

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

use crate::waiting::{LAST_CHANCE, WaitingRoom};

/// Connections at once; when more come the oldest ends.
const CONNECTIONS_MAX: usize = 64;

/// How long the head of a request may take, from when the connection is ready for it.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long requests that are being answered may still take when the node ends.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// How long nothing is accepted after that has failed, as where there are no descriptors left.
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
                    warn!(%error, "admin API accepts no connection");
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
                    () = place.wanted_back() => {
                        debug!(%peer, "admin API: too many connections, and this is the oldest");
                        let mut left = tokio::time::timeout(LAST_CHANCE, &mut connection).await;
                        if left.is_err() && answering.load(Relaxed) > 0 {
                            left = tokio::time::timeout(GOODBYE_MAX, connection).await;
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
    // Who does not read its answer is not waited for.
    let _ = tokio::time::timeout(GOODBYE_MAX, connections.shutdown()).await;
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
