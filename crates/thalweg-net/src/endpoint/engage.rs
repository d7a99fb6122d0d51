//! Moves links to the engine, where iroh reaches the peer directly.
//!
//! *The idea.* A link over iroh comes first. Over it each end tells the other its engine's port, and
//! the node with the smaller id dials that port at the address that the link uses, if no relay is
//! between. What comes of it is a link like any other, and the old one stands by (`direct`).
//!
//! ```text
//! link over iroh ── both ports told ── direct path? ──► dial ──► link over the engine
//!        ▲                                                         │ lost, or nothing heard
//!        └───────────────── stands by, takes over ◄────────────────┘
//! ```
//!
//! *What it does not do.* It moves no ADU: those without an outcome end as lost with their link, and
//! the node sends them again, as after any loss.
//!
//! *Sources.* docs/decisions/0040; docs/reference/protocol.md §2.7.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_base::wire::port;
use tokio::time::sleep;

use super::{Endpoint, accept, dial};
use crate::address::Addresses;
use crate::close::CloseCode;
use crate::engine::{DialError, Engine};
use crate::error::Unreachable;
use crate::link::{Link, NewConnection, STANDBY_ALPN, Transport};
use crate::reason;
use crate::task::{self, Vital};

/// Interval between attempts after one that failed: behind a NAT the port is mostly closed.
const RETRY: std::time::Duration = std::time::Duration::from_mins(1);

/// Interval at which a link that goes through a relay, or by IP addresses that the engine has no socket for,
/// is looked at: a direct path is found within seconds, or not at all.
const PATH_LOOK: std::time::Duration = std::time::Duration::from_secs(2);

/// How long nothing may be heard over the engine while something is in flight.
const SILENT: Duration = Duration::from_millis(500);

/// How long after the start of a link over the engine, and after the loss of the one that stands by, that
/// one is looked for: the replaced link stands by within that time.
const STANDBY_LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Interval between attempts to dial a connection that stands by.
const STANDBY_RETRY: std::time::Duration = std::time::Duration::from_secs(10);

/// Starts the tasks that accept links over the engine, and move links to it.
pub(super) fn spawn_tasks(endpoint: &Endpoint, vital: &Vital) {
    if let Some(engine) = endpoint.0.direct.engine() {
        let watching = watch(endpoint.clone());
        vital.spawn_finite("the task that moves links to the engine", watching);
        let accepting = run(endpoint.clone(), engine.clone());
        vital.spawn_finite("the task that accepts links over the engine", accepting);
    }
}

async fn run(endpoint: Endpoint, engine: Arc<Engine>) {
    loop {
        let accepted = tokio::select! {
            accepted = engine.accept() => accepted,
            () = endpoint.shutting_down() => return,
        };
        let Some(connection) = accepted else {
            tracing::error!("the engine has ended; links go on over iroh");
            return;
        };
        let endpoint = endpoint.clone();
        tokio::spawn(task::alone(async move {
            let fresh = NewConnection::Engine(connection);
            if let Err(reason) = accept::establish(&endpoint, fresh, false).await {
                tracing::debug!(%reason, "link over the engine not accepted");
            }
        }));
    }
}

/// Watches links as they come up, until the endpoint shuts down.
async fn watch(endpoint: Endpoint) {
    let mut changes = endpoint.0.registry.all_changes();
    loop {
        for link in endpoint.links() {
            if link.moves().begin_watching() {
                tokio::spawn(task::alone(watch_link(endpoint.clone(), link)));
            }
        }
        tokio::select! {
            // The registry lives as long as the endpoint.
            _ = changes.changed() => {}
            () = endpoint.shutting_down() => return,
        }
    }
}

/// Does a link's part until it is closed: over iroh, tries the engine; over the engine, leaves it
/// when it is silent.
async fn watch_link(endpoint: Endpoint, link: Link) {
    let part = async {
        match link.transport() {
            Transport::Quic => try_engine(&endpoint, &link).await,
            Transport::Engine => leave_when_silent(&endpoint, &link).await,
            Transport::Tcp => {}
        }
    };
    tokio::select! {
        _ = link.closed() => {}
        () = part => {}
    }
}

/// Tells the peer this engine's port, and dials the peer's if that is this end's part.
async fn try_engine(endpoint: &Endpoint, link: &Link) {
    let Some(engine) = endpoint.0.direct.engine() else {
        return;
    };
    let frame = port::encode(engine.listening().port());
    if link.send_control(frame.into()).await.is_err() || endpoint.id() > link.peer() {
        return;
    }
    loop {
        let port = link.moves().wait_port().await;
        let remote = link.remote().filter(|_| endpoint.is_present(link));
        let Some(remote) = remote.filter(|remote| engine.reaches(remote.ip())) else {
            sleep(PATH_LOOK).await;
            continue;
        };
        let address = SocketAddr::new(remote.ip(), port);
        if let Err(reason) = dial_engine(endpoint, engine, link.peer(), address).await {
            tracing::debug!(peer = %link.peer().short(), %reason, "no link over the engine");
        }
        sleep(RETRY).await;
    }
}

async fn dial_engine(
    endpoint: &Endpoint,
    engine: &Engine,
    peer: NodeId,
    address: SocketAddr,
) -> Result<(), Unreachable> {
    let dialled = engine.dial(peer, address).await;
    let connection = dialled.map_err(|error| match error {
        DialError::Lost(error) => reason::of_end(error, peer, &Addresses::from(&[address][..])),
        DialError::NotAdmittedHere(peer) => Unreachable::NotAdmittedHere(peer),
        DialError::Stopped => Unreachable::ShuttingDown,
        error => Unreachable::Other {
            peer,
            reason: error.to_string(),
        },
    })?;
    let fresh = NewConnection::Engine(connection);
    accept::establish(endpoint, fresh, true).await.map(drop)
}

/// While a link over the engine lasts, dials its peer over iroh whenever no link stands by.
pub(super) async fn renew_standby(endpoint: &Endpoint, link: &Link, addresses: &Addresses) {
    loop {
        sleep(STANDBY_LOOK).await;
        let peer = link.peer();
        if let Some(standby) = endpoint.0.direct.standby(peer) {
            standby.closed().await;
            continue;
        }
        let dialled = async {
            let connection = dial::connect_by(endpoint, peer, addresses, STANDBY_ALPN).await?;
            accept::establish_standby(endpoint, NewConnection::Quic(connection)).await
        };
        if let Err(reason) = Box::pin(dialled).await {
            tracing::debug!(peer = %peer.short(), %reason, "no link stands by");
            sleep(STANDBY_RETRY).await;
        }
    }
}

/// Closes a link over the engine when nothing is heard over it, if another stands by.
async fn leave_when_silent(endpoint: &Endpoint, link: &Link) {
    link.wait_silent(SILENT).await;
    if endpoint.0.direct.standby(link.peer()).is_some() {
        link.close(CloseCode::Duplicate, "nothing arrives over this connection");
    }
}
