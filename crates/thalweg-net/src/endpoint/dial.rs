//! Dialling, once or for ever.
//!
//! *The idea.* A kept peer has one task: it waits on the link while there is one, dials when there is none, and after a
//! failure, or a link that was soon gone, waits longer each time, up to a few seconds, with some chance in it so that a fleet
//! does not knock in step.
//! A link that the peer dialled serves as well.
//!
//! QUIC is tried first. Where nobody answers it and the peer has an address of TCP, that is dialled; while such a link
//! lasts QUIC is tried again at long intervals, and takes over when it gets through. So does a connection from another address
//! of this node, when that from which the link goes is gone (`roaming`), and one to a peer that has lost the link (`silence`).

use std::net::SocketAddr;

use iroh::PublicKey;
use iroh::endpoint::Connection;
use thalweg_core::id::NodeId;
use thalweg_core::random::SplitMix;
use tokio::sync::watch;
use tokio::time::{Duration, timeout};

use super::{ALPN, Addresses, Endpoint, PeerState, accept, narrow, reason, silence};
use crate::close::CloseCode;
use crate::door;
use crate::error::Unreachable;
use crate::link::{Fresh, Link, LinkEvent, Transport};
use crate::tcp;

/// How long one dial may take; iroh gives up by itself at about the same time.
const DIAL_WAIT: Duration = Duration::from_secs(10);

/// The first wait after a failure: a peer that was restarted is back soon.
const BACKOFF_MIN: Duration = Duration::from_millis(200);

/// The longest wait: a person who plugs in a cable does not wait longer.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// After a link that lasted so long the first wait is the first again; one that goes sooner is like a failure, for its peer may
/// end each as soon as it is made.
const LASTING: thalweg_core::time::Duration = thalweg_core::time::Duration::from_secs(5);

/// How an endpoint dials over TCP, and where it is dialled.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) session: tcp::Options,
    pub(super) listening: Vec<SocketAddr>,
    pub(crate) head_start: thalweg_core::time::Duration,
    pub(super) retry: thalweg_core::time::Duration,
}

/// Dials once, beginning with this transport; returns the link that there is already, if there is one.
pub(crate) async fn once(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    first: Transport,
) -> Result<Link, Unreachable> {
    if peer == endpoint.id() {
        return Err(Unreachable::OwnKey(peer));
    }
    if let Some(link) = endpoint.link(peer) {
        return Ok(link);
    }
    if addresses.tcp.is_empty() {
        return over_quic(endpoint, peer, addresses, DIAL_WAIT).await;
    }
    if !endpoint.may_try_quic(addresses) {
        return over_tcp(endpoint, peer, &addresses.tcp).await;
    }
    let head_start = endpoint.0.tcp.head_start.into();
    let udp = over_quic(endpoint, peer, addresses, head_start);
    let tcp = over_tcp(endpoint, peer, &addresses.tcp);
    let (udp, tcp) = match first {
        Transport::Quic => match udp.await {
            Err(udp) if !udp.is_answer() => (udp, tcp.await),
            done => return done,
        },
        Transport::Tcp => match tcp.await {
            Err(tcp) if !tcp.is_answer() => match udp.await {
                Err(udp) => (udp, Err(tcp)),
                done => return done,
            },
            done => return done,
        },
    };
    tcp.map_err(|tcp| {
        let (udp, tcp) = (Box::new(udp), Box::new(tcp));
        Unreachable::Both { udp, tcp }
    })
}

async fn over_quic(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    wait: Duration,
) -> Result<Link, Unreachable> {
    // Boxed, for whoever may dial both ways carries both futures.
    let dialled = Box::pin(async {
        let connection = connect(endpoint, peer, addresses).await?;
        accept::establish(endpoint, Fresh::Quic(connection), true).await
    });
    let test = narrow::Test::default();
    tokio::select! {
        dialled = timeout(wait, dialled) => match dialled {
            Ok(Err(Unreachable::TimedOut { .. })) | Err(_) => Err(test.why_no_handshake(addresses)),
            Ok(dialled) => dialled,
        },
        too_small = test.fails(endpoint, addresses) => Err(too_small),
    }
}

/// Makes a connection over QUIC, which is no link yet.
pub(super) async fn connect(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
) -> Result<Connection, Unreachable> {
    if endpoint.0.confined.is_none() && addresses.is_link_local_alone() {
        return Err(Unreachable::LinkLocal {
            addresses: reason::list(&addresses.udp),
        });
    }
    let other = |reason: String| Unreachable::Other { peer, reason };
    let key = PublicKey::from_bytes(&peer.0).map_err(|error| other(error.to_string()))?;
    let target = addresses.target(key, endpoint.udp());
    let connecting = endpoint.0.iroh.connect(target, ALPN.as_bytes());
    connecting
        .await
        .map_err(|error| reason::of_dial(error, peer, addresses))
}

async fn over_tcp(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &[SocketAddr],
) -> Result<Link, Unreachable> {
    if !endpoint.admission().admits(peer) {
        return Err(Unreachable::NotAdmittedHere(peer));
    }
    let dialled = Box::pin(async {
        let (connection, events) = tcp::dial(&endpoint.0.tcp.session, peer, addresses).await?;
        accept::establish(endpoint, Fresh::Tcp(connection, events), true).await
    });
    timeout(DIAL_WAIT, dialled).await.unwrap_or_else(|_| {
        Err(Unreachable::TimedOut {
            addresses: reason::list(addresses),
        })
    })
}

/// Dials once; where one of the two does not admit the other, they introduce themselves at its door and it dials again.
async fn once_introduced(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &Addresses,
    first: Transport,
) -> Result<Link, Unreachable> {
    let refused = match once(endpoint, peer, addresses, first).await {
        Err(refused @ (Unreachable::NotAdmitted { .. } | Unreachable::NotAdmittedHere(_))) => {
            refused
        }
        dialled => return dialled,
    };
    let Some(door) = &endpoint.0.door else {
        return Err(refused);
    };
    if door::introduce(endpoint, peer, addresses, door).await? {
        once(endpoint, peer, addresses, first).await
    } else {
        Err(refused)
    }
}

/// Keeps a link with a peer, until aborted.
pub(crate) async fn keep(endpoint: Endpoint, peer: NodeId, addresses: Addresses, seed: u64) {
    let mut backoff = Backoff::new(seed);
    let mut changes = endpoint.0.registry.changes();
    let mut last_reason = None;
    // What reached the peer last most likely does so again.
    let mut first = Transport::Quic;
    loop {
        if endpoint.link(peer).is_none() && last_reason.is_none() {
            endpoint.set_state(peer, PeerState::Connecting);
            endpoint.emit(LinkEvent::Connecting(peer));
        }
        // Names anew each time: they may stand for something else since, or for something at last.
        let found = addresses.looked_up().await;
        let dialled = match (endpoint.link(peer), &found) {
            (Some(link), _) => Ok(link),
            (None, Ok(found)) => once_introduced(&endpoint, peer, found, first).await,
            (None, Err(reason)) => Err(reason.clone()),
        };
        match dialled {
            Ok(link) => {
                endpoint.set_state(peer, PeerState::Up);
                last_reason = None;
                first = link.transport();
                let dialled = found.as_deref().unwrap_or(&addresses);
                stay(&endpoint, &link, dialled, seed).await;
                if link.is_narrow() && endpoint.link(peer).is_none() {
                    made_known(&endpoint, &link).await;
                    if dialled.tcp.is_empty() {
                        let addresses = reason::list_quic(dialled);
                        let reason = Unreachable::Narrow { addresses };
                        last_reason = Some(tell(&endpoint, peer, reason));
                    } else {
                        first = Transport::Tcp;
                        continue;
                    }
                }
                let lived = endpoint.clock().now().saturating_since(link.since());
                if lived >= LASTING {
                    backoff.reset();
                    continue;
                }
                if endpoint.link(peer).is_none() && last_reason.is_none() {
                    endpoint.set_state(peer, PeerState::Connecting);
                }
            }
            Err(reason) if last_reason.as_ref() != Some(&reason) => {
                last_reason = Some(tell(&endpoint, peer, reason));
            }
            Err(_) => {}
        }
        rest(backoff.next(), &mut changes, || {
            endpoint.link(peer).is_some()
        })
        .await;
    }
}

/// Waits until the end of a link has been made known, so that what is said of its peer next comes after it.
async fn made_known(endpoint: &Endpoint, link: &Link) {
    let registry = &endpoint.0.registry;
    // The registry lives as long as the endpoint.
    let _ = registry.changes().wait_for(|()| !registry.has(link)).await;
    drop(registry.announcing.lock());
}

/// Makes known why a peer cannot be reached, and gives the reason back.
fn tell(endpoint: &Endpoint, peer: NodeId, reason: Unreachable) -> Unreachable {
    tracing::warn!(peer = %peer.short(), %reason, "peer unreachable");
    endpoint.set_state(peer, PeerState::Unreachable(reason.clone()));
    let told = reason.clone();
    endpoint.emit(LinkEvent::Unreachable { peer, reason: told });
    reason
}

/// Waits so long, unless there is a link with the peer, which may dial us meanwhile.
///
/// The changes are those of all links: on a node of which many come and go, one more is no reason to dial.
pub(super) async fn rest(
    wait: Duration,
    changes: &mut watch::Receiver<()>,
    is_linked: impl Fn() -> bool,
) {
    let _ = timeout(wait, changes.wait_for(|()| is_linked())).await;
}

/// Waits for the end of a link; while it goes over TCP, tries now and then whether QUIC gets through again, and when it cannot go on
/// from this node's address, dials from another, and so when nothing comes over it any more.
///
/// The link that QUIC makes takes the place of the other, which is drained, or closed if nothing comes through it any more.
async fn stay(endpoint: &Endpoint, link: &Link, addresses: &Addresses, seed: u64) {
    let may_try = endpoint.may_try_quic(addresses);
    let may_better = link.transport() == Transport::Tcp && may_try;
    let pause: Duration = endpoint.0.tcp.retry.into();
    let mut changes = endpoint.0.network.changes();
    let source = link.source();
    loop {
        let has_moved = tokio::select! {
            _ = link.closed() => return,
            () = replaced(endpoint, link) => return,
            () = silence::outlive(endpoint, link, addresses, seed), if may_try => return,
            () = tokio::time::sleep(pause), if may_better => false,
            () = changes.moved(source, &addresses.udp) => true,
        };
        let head_start = endpoint.0.tcp.head_start.into();
        match over_quic(endpoint, link.peer(), addresses, head_start).await {
            Ok(_) if has_moved => {
                return link.close(CloseCode::Duplicate, "this node has another address");
            }
            Ok(_) => return,
            Err(reason) => {
                tracing::debug!(peer = %link.peer().short(), %reason, has_moved, "no better link");
            }
        }
        if timeout(BACKOFF_MIN, link.closed()).await.is_ok() {
            return;
        }
    }
}

/// Waits until another link with the peer has taken the place of this one, which may be drained for seconds yet.
async fn replaced(endpoint: &Endpoint, link: &Link) {
    let is_other = |present: Link| !present.is_same(link);
    let mut changes = endpoint.0.registry.changes();
    let other = changes.wait_for(|()| endpoint.link(link.peer()).is_some_and(is_other));
    // The registry lives as long as the endpoint.
    let _ = other.await;
}

/// Waits that double, with a quarter of chance either way.
#[derive(Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    random: SplitMix,
}

impl Backoff {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            wait: BACKOFF_MIN,
            random: SplitMix::new(seed),
        }
    }

    /// Begins with the first wait again.
    pub(crate) const fn reset(&mut self) {
        self.wait = BACKOFF_MIN;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.wait.mul_f64(0.75 + self.random.next_unit() / 2.0);
        self.wait = (self.wait * 2).min(BACKOFF_MAX);
        wait
    }
}
