//! Dialling, once or for ever.
//!
//! *The idea.* A kept peer has one task: it waits on the link while there is one, dials when there is none, and after a
//! failure waits longer each time, up to a few seconds, with some chance in it so that a fleet does not knock in step.
//! A link that the peer dialled serves as well.

use std::net::SocketAddr;

use iroh::{EndpointAddr, PublicKey, TransportAddr};
use thalweg_core::id::NodeId;
use thalweg_core::random::SplitMix;
use tokio::time::{Duration, timeout};

use super::{ALPN, Endpoint, PeerState, accept, reason};
use crate::error::Unreachable;
use crate::link::{Link, LinkEvent};

/// How long one dial may take; iroh gives up by itself at about the same time.
const DIAL_WAIT: Duration = Duration::from_secs(10);

/// The first wait after a failure: a peer that was restarted is back soon.
const BACKOFF_MIN: Duration = Duration::from_millis(200);

/// The longest wait: a person who plugs in a cable does not wait longer.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Dials once.
pub(crate) async fn once(
    endpoint: &Endpoint,
    peer: NodeId,
    addresses: &[SocketAddr],
) -> Result<Link, Unreachable> {
    if peer == endpoint.id() {
        return Err(Unreachable::OwnKey(peer));
    }
    if let Some(link) = endpoint.link(peer) {
        return Ok(link);
    }
    let other = |reason: String| Unreachable::Other { peer, reason };
    let key = PublicKey::from_bytes(&peer.0).map_err(|error| other(error.to_string()))?;
    let target = EndpointAddr::from_parts(key, addresses.iter().copied().map(TransportAddr::Ip));
    let dialled = async {
        let connection = endpoint
            .0
            .iroh
            .connect(target, ALPN.as_bytes())
            .await
            .map_err(|error| reason::of_dial(error, peer, addresses))?;
        accept::establish(endpoint, connection, true).await
    };
    timeout(DIAL_WAIT, dialled).await.unwrap_or_else(|_| {
        Err(Unreachable::TimedOut {
            addresses: reason::list(addresses),
        })
    })
}

/// Keeps a link with a peer, until aborted.
pub(crate) async fn keep(endpoint: Endpoint, peer: NodeId, addresses: Vec<SocketAddr>, seed: u64) {
    let mut backoff = Backoff::new(seed);
    let mut changes = endpoint.0.registry.changes();
    let mut last_reason = None;
    loop {
        changes.mark_unchanged();
        if let Some(link) = endpoint.link(peer) {
            endpoint.set_state(peer, PeerState::Up);
            (backoff, last_reason) = (Backoff::new(backoff.random.next_u64()), None);
            link.closed().await;
            continue;
        }
        if last_reason.is_none() {
            endpoint.set_state(peer, PeerState::Connecting);
            endpoint.emit(LinkEvent::Connecting(peer));
        }
        let Err(reason) = once(&endpoint, peer, &addresses).await else {
            continue;
        };
        if last_reason.as_ref() != Some(&reason) {
            tracing::warn!(peer = %peer.short(), %reason, "peer unreachable");
            endpoint.set_state(peer, PeerState::Unreachable(reason.clone()));
            endpoint.emit(LinkEvent::Unreachable {
                peer,
                reason: reason.clone(),
            });
            last_reason = Some(reason);
        }
        // The peer may dial us meanwhile.
        let _ = timeout(backoff.next(), changes.changed()).await;
    }
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

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.wait.mul_f64(0.75 + self.random.next_unit() / 2.0);
        self.wait = (self.wait * 2).min(BACKOFF_MAX);
        wait
    }
}
