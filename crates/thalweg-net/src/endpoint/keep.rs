//! Keeps a link with a peer for ever.
//!
//! *The idea.* A kept peer has one task. It waits on the link while there is one and dials when
//! there is none. After a failure, or a link that ended soon, it pauses longer each time, up to a
//! few seconds, with jitter, so that many nodes do not redial in step. A link that the peer dialled
//! serves as well.
//!
//! While a link over TCP lasts, QUIC is retried at long intervals and takes over when it gets
//! through. A new connection also takes over from a link with a vanished local address (`roaming`)
//! and from a link that the peer has lost (`silence`) or that has stalled (`stall`).

use thalweg_base::id::NodeId;
use tokio::sync::watch;
use tokio::time::{Duration, timeout};

use super::backoff::{BACKOFF_MIN, Backoff};
use super::{Endpoint, PeerState, dial, engage, introduce, silence, stall};
use crate::address::Addresses;
use crate::close::CloseCode;
use crate::error::Unreachable;
use crate::link::{Link, LinkEvent, Transport};
use crate::reason;

/// A link that lasted this long resets the pause. A shorter one counts as a failure, since its peer
/// may close each link as soon as it is made.
const LASTING: thalweg_base::time::Duration = thalweg_base::time::Duration::from_secs(5);

/// Keeps a link with a peer, until aborted.
pub(crate) async fn keep(endpoint: Endpoint, peer: NodeId, addresses: Addresses, seed: u64) {
    let mut backoff = Backoff::new(seed);
    let mut changes = endpoint.0.registry.changes(peer);
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
            (None, Ok(found)) => introduce::dial_introduced(&endpoint, peer, found, first).await,
            (None, Err(reason)) => Err(reason.clone()),
        };
        match dialled {
            Ok(link) => {
                endpoint.set_state(peer, PeerState::Up);
                last_reason = None;
                first = link.transport();
                let dialled = found.as_deref().unwrap_or(&addresses);
                watch_link(&endpoint, &link, dialled, seed).await;
                if link.transport() == Transport::Engine {
                    // The link that stands by has taken over then.
                    wait_announced(&endpoint, &link).await;
                }
                if link.is_narrow() && endpoint.link(peer).is_none() {
                    endpoint.0.small_paths.insert(peer);
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
    let mut changes = registry.changes(link.peer());
    let _ = changes.wait_for(|()| !registry.has(link)).await;
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
/// `changes` also reports the end of a link, which is no reason to dial early.
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
    // A link over the engine is left for the one that stands by.
    let is_direct = link.transport() == Transport::Engine;
    let may_try = endpoint.may_try_quic(addresses) && !is_direct;
    let may_renew = endpoint.may_try_quic(addresses) && is_direct;
    let may_better = link.transport() == Transport::Tcp && may_try;
    let pause: Duration = endpoint.0.tcp.retry.into();
    let mut changes = endpoint.0.network.changes();
    let source = link.source();
    let may_leave = stall::has_other_way(link, addresses);
    loop {
        let has_moved = tokio::select! {
            _ = link.closed() => return,
            () = replaced(endpoint, link) => return,
            () = engage::renew_standby(endpoint, link, addresses), if may_renew => return,
            () = silence::redial_when_silent(endpoint, link, addresses, seed), if may_try => return,
            () = stall::leave_when_stalled(endpoint, link, addresses), if may_leave => return,
            () = tokio::time::sleep(pause), if may_better => false,
            () = changes.moved(source, &addresses.udp), if !is_direct => true,
        };
        let head_start = endpoint.0.tcp.head_start.into();
        match dial::over_quic(endpoint, link.peer(), addresses, head_start).await {
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
    let mut changes = endpoint.0.registry.changes(link.peer());
    let other = changes.wait_for(|()| endpoint.link(link.peer()).is_some_and(is_other));
    // The registry lives as long as the endpoint.
    let _ = other.await;
}
