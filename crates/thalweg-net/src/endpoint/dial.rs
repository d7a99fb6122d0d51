//! Dialling a peer, once or for ever.
//!
//! *The idea.* A kept peer has one task. It waits on the link while there is one and dials when
//! there is none. After a failure, or a link that ended soon, it pauses longer each time, up to a
//! few seconds, with jitter, so that many nodes do not redial in step. A link that the peer dialled
//! serves as well.
//!
//! QUIC is tried first. If it gets no answer and the peer has a TCP address, that is dialled; while
//! such a link lasts, QUIC is retried at long intervals and takes over when it gets through. A new
//! connection also takes over from a link with a vanished local address (`roaming`) and from a link
//! that the peer has lost (`silence`).

use std::net::SocketAddr;

use iroh::PublicKey;
use iroh::endpoint::Connection;
use thalweg_base::id::NodeId;
use thalweg_base::random::SplitMix;
use tokio::sync::watch;
use tokio::time::{Duration, timeout};

use super::{ALPN, Addresses, Endpoint, PeerState, accept, narrow, reason, silence};
use crate::close::CloseCode;
use crate::door;
use crate::error::Unreachable;
use crate::link::{Fresh, Link, LinkEvent, Transport};
use crate::tcp;

/// Time limit of one dial; iroh's own is about the same.
const DIAL_WAIT: Duration = Duration::from_secs(10);

/// First pause after a failure: a restarted peer is back soon.
const BACKOFF_MIN: Duration = Duration::from_millis(200);

/// Longest pause: about as long as a person waits after plugging in a cable.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A link that lasted this long resets the pause. A shorter one counts as a failure, since its peer
/// may close each link as soon as it is made.
const LASTING: thalweg_base::time::Duration = thalweg_base::time::Duration::from_secs(5);

/// The endpoint's settings for TCP, and the addresses it listens on.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) session: tcp::Options,
    pub(super) listening: Vec<SocketAddr>,
    pub(crate) head_start: thalweg_base::time::Duration,
    pub(super) retry: thalweg_base::time::Duration,
}

/// Dials once, with `first` as the first transport; returns the existing link if there is one.
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
    // Boxed: a caller that may dial over both transports holds both futures.
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

/// Opens a QUIC connection that is not a link yet.
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

/// Dials once; if one end does not admit the other yet, introduces this node at the peer's door and
/// dials again.
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
    // The transport that reached the peer last most likely does so again.
    let mut first = Transport::Quic;
    loop {
        if endpoint.link(peer).is_none() && last_reason.is_none() {
            endpoint.set_state(peer, PeerState::Connecting);
            endpoint.emit(LinkEvent::Connecting(peer));
        }
        // Resolved at each attempt: the names may resolve to something else now.
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
                watch_link(&endpoint, &link, dialled, seed).await;
                if link.is_narrow() && endpoint.link(peer).is_none() {
                    wait_announced(&endpoint, &link).await;
                    if dialled.tcp.is_empty() {
                        let addresses = reason::list_quic(dialled);
                        let reason = Unreachable::Narrow { addresses };
                        last_reason = Some(report_unreachable(&endpoint, peer, reason));
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
                last_reason = Some(report_unreachable(&endpoint, peer, reason));
            }
            Err(_) => {}
        }
        pause_dialling(backoff.next(), &mut changes, || {
            endpoint.link(peer).is_some()
        })
        .await;
    }
}

/// Waits until the end of a link has been announced, so that later events of its peer follow it.
async fn wait_announced(endpoint: &Endpoint, link: &Link) {
    let registry = &endpoint.0.registry;
    // The registry lives as long as the endpoint.
    let _ = registry.changes().wait_for(|()| !registry.has(link)).await;
    drop(registry.announcing.lock());
}

/// Announces why a peer cannot be reached; returns the reason.
fn report_unreachable(endpoint: &Endpoint, peer: NodeId, reason: Unreachable) -> Unreachable {
    tracing::warn!(peer = %peer.short(), %reason, "peer unreachable");
    endpoint.set_state(peer, PeerState::Unreachable(reason.clone()));
    let reported = reason.clone();
    endpoint.emit(LinkEvent::Unreachable {
        peer,
        reason: reported,
    });
    reason
}

/// Waits at most `wait`, or until there is a link with the peer, which may dial this node
/// meanwhile.
///
/// `changes` reports every link's changes; on a node with many links, one more is no reason to dial
/// early.
pub(super) async fn pause_dialling(
    wait: Duration,
    changes: &mut watch::Receiver<()>,
    is_linked: impl Fn() -> bool,
) {
    let _ = timeout(wait, changes.wait_for(|()| is_linked())).await;
}

/// Waits for the end of a link, and replaces it early where possible: retries QUIC beside a link
/// over TCP, redials when the link's local address is gone, and redials when the link is silent.
///
/// The replaced link is drained, or closed if nothing arrives over it any more.
async fn watch_link(endpoint: &Endpoint, link: &Link, addresses: &Addresses, seed: u64) {
    let may_try = endpoint.may_try_quic(addresses);
    let may_better = link.transport() == Transport::Tcp && may_try;
    let pause: Duration = endpoint.0.tcp.retry.into();
    let mut changes = endpoint.0.network.changes();
    let source = link.source();
    loop {
        let has_moved = tokio::select! {
            _ = link.closed() => return,
            () = replaced(endpoint, link) => return,
            () = silence::redial_when_silent(endpoint, link, addresses, seed), if may_try => return,
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
                tracing::debug!(peer = %link.peer().short(), %reason, has_moved, "no better link found");
            }
        }
        if timeout(BACKOFF_MIN, link.closed()).await.is_ok() {
            return;
        }
    }
}

/// Waits until another link with the peer has replaced this one, which may still drain for seconds.
async fn replaced(endpoint: &Endpoint, link: &Link) {
    let is_other = |present: Link| !present.is_same(link);
    let mut changes = endpoint.0.registry.changes();
    let other = changes.wait_for(|()| endpoint.link(link.peer()).is_some_and(is_other));
    // The registry lives as long as the endpoint.
    let _ = other.await;
}

/// Exponential backoff with a jitter of ±25 %.
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

    /// Restarts with the first pause.
    pub(crate) const fn reset(&mut self) {
        self.wait = BACKOFF_MIN;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.wait.mul_f64(0.75 + self.random.next_unit() / 2.0);
        self.wait = (self.wait * 2).min(BACKOFF_MAX);
        wait
    }
}
