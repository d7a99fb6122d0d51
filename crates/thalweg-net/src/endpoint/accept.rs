//! Turns connections into links, and runs the endpoint's standing tasks.
//!
//! *The idea.* Accepted and dialled connections follow the same steps: exchange greetings, compare
//! with an existing link, announce, watch.
//!
//! *What it does not do.* It admits no peer: the gate has decided before.

use std::sync::PoisonError;

use iroh::endpoint::{Connection, Incoming, IncomingAddr};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_link::gauge::SAMPLE_EVERY;
use thalweg_link::hop::settings::GREETING_WAIT;
use tokio::time::timeout;

use super::registry::Verdict;
use super::{Endpoint, direct, narrow};
use crate::address::Addresses;
use crate::admission::refusal;
use crate::close::{CloseCode, ToVarInt as _};
use crate::doorkeeper::{DOOR_ALPN, DOOR_BUSY};
use crate::error::Unreachable;
use crate::link::{
    DownCause, Link, LinkEvent, NewConnection, OpenError, STANDBY_ALPN, Samples, Transport,
};
use crate::lobby::{Host, Lobby};
use crate::task::{self, Vital};
use crate::tcp::Listener;
use crate::{confined, door, reason};

/// How long a duplicate connection may drain.
const DUPLICATE_GRACE: Duration = Duration::from_secs(5);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To be the link.
    Link,
    /// To stand by for a link over the engine.
    Standby,
}

/// Starts the standing tasks.
pub(super) fn spawn_tasks(endpoint: &Endpoint, listener: Option<Listener>, vital: &Vital) {
    if let Some(listener) = listener {
        let accepting = run_tcp(endpoint.clone(), listener);
        vital.spawn("the task that accepts links over TCP", accepting);
    }
    vital.spawn("the task that accepts links", run(endpoint.clone()));
    vital.spawn("the task that measures links", measure(endpoint.clone()));
    let enforcing = enforce(endpoint.clone());
    vital.spawn("the task that ends refused links", enforcing);
}

/// Accepts connections until the endpoint shuts down.
async fn run(endpoint: Endpoint) {
    let lobby = Lobby::new(endpoint.admission().clone());
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.0.iroh.accept() => incoming,
            () = endpoint.shutting_down() => return,
        };
        let Some(incoming) = incoming else { return };
        if lobby.is_half_full() && !incoming.remote_addr_validated() {
            // Half of the places are reserved for peers with a validated address (RFC 9000 §8.1).
            // The call fails only if the address is validated already.
            let _ = incoming.retry();
            continue;
        }
        let host = match incoming.remote_addr() {
            IncomingAddr::Ip(address) => Host::of(address.ip()),
            IncomingAddr::Custom(address) => confined::unwrapped(&address)
                .map_or(Host::Relayed, |address| Host::of(address.ip())),
            _ => Host::Relayed,
        };
        let endpoint = endpoint.clone();
        lobby.arrive(host, incoming, move |incoming| {
            accept(endpoint.clone(), incoming)
        });
    }
}

/// Accepts sessions over TCP until the endpoint shuts down.
async fn run_tcp(endpoint: Endpoint, mut listener: Listener) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = endpoint.shutting_down() => return,
        };
        let Some((connection, events)) = accepted else {
            return;
        };
        let endpoint = endpoint.clone();
        tokio::spawn(task::alone(async move {
            let fresh = NewConnection::Tcp(connection, events);
            if let Err(reason) = establish(&endpoint, fresh, false).await {
                tracing::debug!(%reason, "tcp session not accepted");
            }
        }));
    }
}

async fn accept(endpoint: Endpoint, incoming: Incoming) {
    let result = match timeout(GREETING_WAIT.into(), incoming).await {
        Ok(Ok(connection)) if connection.alpn() == DOOR_ALPN.as_bytes() => {
            serve_caller(&endpoint, connection).await
        }
        Ok(Ok(connection)) => {
            let purpose = if connection.alpn() == STANDBY_ALPN.as_bytes() {
                Purpose::Standby
            } else {
                Purpose::Link
            };
            let fresh = NewConnection::Quic(connection);
            let established = establish_for(&endpoint, fresh, false, purpose).await;
            established.map(drop).map_err(|error| error.to_string())
        }
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err("timed out".into()),
    };
    if let Err(reason) = result {
        tracing::debug!(%reason, "connection not accepted");
    }
}

/// Serves a caller at the door if there is a door with a free place.
async fn serve_caller(endpoint: &Endpoint, connection: Connection) -> Result<(), String> {
    let door = endpoint.0.door.as_deref();
    let Some((door, _place)) = door.and_then(|door| Some((door, door.place()?))) else {
        connection.close(CloseCode::Overload.varint(), DOOR_BUSY.as_bytes());
        return Err(DOOR_BUSY.into());
    };
    door::serve(connection, door).await
}

/// Turns a connection that was dialled into a link, and closes the link in whose place it comes; returns
/// whether another link is kept now.
pub(super) async fn replace(
    endpoint: &Endpoint,
    link: &Link,
    fresh: NewConnection,
) -> Result<bool, Unreachable> {
    let kept = Box::pin(establish(endpoint, fresh, true)).await?;
    let is_replaced = !kept.is_same(link);
    if is_replaced {
        link.close(CloseCode::Duplicate, "nothing arrives over this connection");
    }
    Ok(is_replaced)
}

/// Turns a connection into a link; returns the link that is kept with the peer.
pub(crate) async fn establish(
    endpoint: &Endpoint,
    fresh: NewConnection,
    dialled: bool,
) -> Result<Link, Unreachable> {
    establish_for(endpoint, fresh, dialled, Purpose::Link).await
}

/// Has a connection that was dialled stand by while the link goes over the engine; if it does not any
/// more, it is the link.
pub(super) async fn establish_standby(
    endpoint: &Endpoint,
    fresh: NewConnection,
) -> Result<(), Unreachable> {
    let standing = establish_for(endpoint, fresh, true, Purpose::Standby);
    standing.await.map(drop)
}

async fn establish_for(
    endpoint: &Endpoint,
    fresh: NewConnection,
    dialled: bool,
    purpose: Purpose,
) -> Result<Link, Unreachable> {
    let connection = fresh.connection();
    let peer = connection.peer();
    let close = |code, reason: &str| {
        connection.close(code, reason);
        let reason = reason.into();
        Err(Unreachable::Other { peer, reason })
    };
    let broken = |reason| close(CloseCode::Protocol, reason);
    if endpoint.0.registry.is_full() && endpoint.link(peer).is_none() {
        let reason = "no room for another link";
        endpoint.admission().refuse_dial(&peer, reason);
        return close(CloseCode::Overload, reason);
    }
    let opening = Link::open(fresh, dialled, endpoint.0.context.clone());
    let (link, control) = match timeout(GREETING_WAIT.into(), opening).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(OpenError::Quic(error))) => {
            return Err(reason::of_end(error, peer, &Addresses::default()));
        }
        Ok(Err(OpenError::Tcp(cause))) => return Err(reason::of_cause(cause, peer)),
        Ok(Err(OpenError::Protocol)) => return broken("the first stream is not a control stream"),
        Err(_) => return broken("no greeting in time"),
    };
    let kept = settle(endpoint, &link, purpose);
    link.start(control);
    if link.transport() == Transport::Quic {
        let narrow = narrow::watch(endpoint.clone(), link.clone());
        endpoint
            .0
            .vital
            .spawn_finite("the task that watches for small paths", narrow);
    }
    // Spawned for duplicates too: a link without a watcher would stay registered for ever.
    let watching = watch(endpoint.clone(), link);
    let vital = &endpoint.0.vital;
    vital.spawn_finite("the task that watches a link", watching);
    // A peer revoked during the greeting had no link yet when the revocation was enforced.
    end_if_refused(endpoint, peer);
    kept.ok_or(Unreachable::ShuttingDown)
}

/// Decides between this link and an existing one, and announces the result; `None` while shutting
/// down.
fn settle(endpoint: &Endpoint, link: &Link, purpose: Purpose) -> Option<Link> {
    if endpoint.is_shutting_down() {
        link.close(CloseCode::Shutdown, "the node shuts down");
        return None;
    }
    let registry = &endpoint.0.registry;
    let announcing = registry
        .announcing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if purpose == Purpose::Standby && direct::stand_by(endpoint, link) {
        return Some(link.clone());
    }
    // Before anyone finds the link and sends over it.
    let old = endpoint.link(link.peer());
    if let Some(old) = old.filter(|old| direct::stands_by(old, link)) {
        link.moves().follow(&old);
    }
    let (loser, kept) = match registry.offer(endpoint.id(), link) {
        Verdict::Kept { replaced } => {
            if let Some(old) = replaced.clone() {
                endpoint.emit(LinkEvent::Down {
                    link: old,
                    cause: DownCause::Replaced,
                });
            }
            let (dialled, transport) = (link.is_dialled(), link.transport());
            tracing::info!(peer = %link.peer().short(), dialled, ?transport, "link up");
            endpoint.emit(LinkEvent::Up(link.clone()));
            (replaced, link.clone())
        }
        Verdict::Duplicate { kept } => (Some(link.clone()), kept),
    };
    drop(announcing);
    let loser = loser.filter(|loser| !direct::keep(endpoint, loser, link));
    if let Some(loser) = loser {
        // A peer that moves from QUIC to TCP most likely found the path dark, and cannot say so over it.
        let may_be_dark = !loser.is_same(link)
            && !link.is_dialled()
            && [loser.transport(), link.transport()] == [Transport::Quic, Transport::Tcp];
        tokio::spawn(task::alone(async move {
            let reason = "another connection between the two nodes is kept";
            tokio::select! {
                () = loser.drain(CloseCode::Duplicate, reason, DUPLICATE_GRACE, true) => {}
                () = loser.wait_stalled(), if may_be_dark => {
                    loser.close(CloseCode::Duplicate, "nothing arrives over this connection");
                }
            }
        }));
    }
    Some(kept)
}

/// Waits for the end of a link and announces it.
async fn watch(endpoint: Endpoint, link: Link) {
    let cause = link.why_closed().await;
    link.end();
    let registry = &endpoint.0.registry;
    let _announcing = registry
        .announcing
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if registry.remove(&link) {
        tracing::info!(peer = %link.peer().short(), %cause, "link down");
        let peer = link.peer();
        let down = cause.clone();
        endpoint.emit(LinkEvent::Down { link, cause });
        direct::take_over(&endpoint, peer, &down);
    } else {
        direct::forget(&endpoint, &link);
    }
}

/// Samples every link and reports the samples to the receiver, until the endpoint shuts down.
///
/// One pass over all links: with hundreds of links each visit starts with cache misses, so one task
/// visits them once per interval for all.
async fn measure(endpoint: Endpoint) {
    let mut ticks = tokio::time::interval(SAMPLE_EVERY.into());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = endpoint.shutting_down() => return,
        }
        let at = endpoint.clock().now();
        let links = endpoint.links().into_iter();
        let links = links.map(|link| {
            let sample = link.measure();
            (link, sample)
        });
        let links = links.collect();
        endpoint.0.context.receiver.measured(Samples { at, links });
    }
}

/// Closes links with peers that are no longer admitted, until the endpoint shuts down.
async fn enforce(endpoint: Endpoint) {
    let mut changes = endpoint.admission().changes();
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = endpoint.shutting_down() => return,
        }
        for link in endpoint.links() {
            end_if_refused(&endpoint, link.peer());
        }
    }
}

fn end_if_refused(endpoint: &Endpoint, peer: NodeId) {
    if !endpoint.admission().admits(peer)
        && let Some(link) = endpoint.link(peer)
    {
        link.close(CloseCode::NotAdmitted, &refusal(endpoint.id(), peer));
    }
}
