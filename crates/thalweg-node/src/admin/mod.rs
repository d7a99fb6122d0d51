//! The admin API: health, metrics and status over HTTP, on loopback unless configured.
//!
//! *The idea.* All of it comes from [`crate::Status`]: `/api/status` prints it, `/api/nodes`,
//! `/api/links`, `/api/streams` and `/api/plans` print its parts, and `/metrics` has the same
//! numbers in Prometheus' format, so they always agree. `/api/drops` prints the records of drops.
//!
//! *What it does not do.* It changes nothing; the API is read-only.

mod asked_as;
mod metrics;
mod serve;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use thalweg_base::id::StreamName;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::NodeError;
use crate::handle::Handle;

/// The listening socket of the API.
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    handle: Handle,
}

impl Server {
    pub(crate) async fn bind(address: SocketAddr, handle: Handle) -> Result<Self, NodeError> {
        let fail = |source| NodeError::Api { address, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self {
            listener,
            address,
            handle,
        })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        // The wait also ends, with an error, if the node is dropped.
        let stopped = stopping.wait_for(|stop| *stop);
        let router = router(self.handle);
        let router = if self.address.ip().is_loopback() {
            router.layer(middleware::from_fn(asked_as::check))
        } else {
            router
        };
        serve::serve(self.listener, router, stopped).await;
    }
}

fn router(handle: Handle) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/api/drops", get(drops))
        .route("/api/{part}", get(part))
        .with_state(handle)
}

async fn health(State(handle): State<Handle>) -> Response {
    match handle.status().await {
        Some(_) => "ok\n".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node has stopped\n").into_response(),
    }
}

async fn metrics(State(handle): State<Handle>) -> Response {
    match handle.status().await {
        Some(status) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
            (kind, metrics::render(&status)).into_response()
        }
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// What `/api/drops` is narrowed to.
#[derive(serde::Deserialize)]
struct Wanted {
    stream: Option<StreamName>,
}

async fn drops(State(handle): State<Handle>, Query(wanted): Query<Wanted>) -> Response {
    Json(handle.drops(wanted.stream.as_ref())).into_response()
}

async fn part(State(handle): State<Handle>, Path(part): Path<String>) -> Response {
    let Some(status) = handle.status().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    match part.as_str() {
        "status" => Json(status).into_response(),
        "nodes" => Json(status.nodes).into_response(),
        "links" => Json(status.links).into_response(),
        "streams" => Json(status.streams).into_response(),
        "plans" => Json(status.plans).into_response(),
        "routes" => Json(status.routes).into_response(),
        _ => {
            let parts = "status, nodes, links, streams, plans, routes, drops";
            let error = format!("there is no /api/{part}; there are: {parts}");
            (
                StatusCode::NOT_FOUND,
                Json(serde_json::json!({ "error": error })),
            )
                .into_response()
        }
    }
}
