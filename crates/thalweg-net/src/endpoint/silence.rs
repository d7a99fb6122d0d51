//! Redials beside a link over which nothing arrives.
//!
//! *The idea.* A peer that was killed and restarted has lost the connection and cannot say so: its
//! neighbour would wait for the idle timeout. So a kept peer is redialled beside a link that has
//! been silent for a while. Once the new connection stands, the path is known to work, and the peer
//! is pinged over the old one. A peer that still has the old connection answers (the path was cut,
//! or the peer was busy), and the new one is closed before it becomes a link. If no answer arrives,
//! the new connection takes over.
//!
//! ```text
//! silent for 0.75 s ─► dial, at most 2 s ──► connected ─► ping over the old one ──► no answer:
//! greet; the new one is the link
//!        ▲               │    │                               └─► an answer: the new one is closed
//!        └── a pause ◄───┘    └─► the link is heard: the dial is cancelled
//! ```
//!
//! A dial costs a packet of 1.3 KB a second on the link's own path, and a handshake on a peer that
//! may be too busy to answer. So pauses between dials double, and each false alarm doubles the
//! silence that is tolerated next time.
//!
//! *What it does not do.* It closes no link without a replacement: otherwise the connection's idle
//! timeout decides.

use std::time::Duration as StdDuration;

use thalweg_base::time::{Duration, Instant};
use tokio::time::timeout;

use super::backoff::Backoff;
use super::{Endpoint, accept, dial};
use crate::address::Addresses;
use crate::close::{CloseCode, ToVarInt as _};
use crate::error::Unreachable;
use crate::link::{Link, NewConnection};
use crate::reason;

/// How long a link is silent before its peer is redialled: three ticks. A working peer answers
/// within a few round trips.
const PATIENCE_MIN: Duration = Duration::from_millis(750);

/// The longest such silence: below QUIC's own idle timeout.
const PATIENCE_MAX: Duration = Duration::from_secs(6);

/// Time without a false alarm after which the tolerated silence is the shortest again.
const CALM_TIME: Duration = Duration::from_secs(60);

/// Minimum time limit of one dial: its first packet is retransmitted after 1 s, and a restarted
/// peer is back soon.
const DIAL_WAIT: StdDuration = StdDuration::from_secs(2);

/// The same in round trips: two for the handshake, doubled for a lost packet, and as many for a
/// queue.
const DIAL_ROUNDS: u32 = 8;

/// How long a link may be silent, given its earlier false alarms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    wait: Duration,
    /// Until then another false alarm doubles `wait`.
    doubled_until: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            wait: PATIENCE_MIN,
            doubled_until: Instant::ZERO,
        }
    }
}

impl Patience {
    /// Returns how long the link may be silent.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        if now < self.doubled_until {
            self.wait
        } else {
            PATIENCE_MIN
        }
    }

    /// Records that the peer was redialled needlessly.
    pub(super) fn handle_false_alarm(&mut self, now: Instant) {
        let wait = self.wait(now);
        self.wait = (wait + wait).min(PATIENCE_MAX);
        self.doubled_until = now + CALM_TIME;
    }
}

/// Redials beside a link whenever it is silent; returns when another link has replaced it.
pub(super) async fn redial_when_silent(
    endpoint: &Endpoint,
    link: &Link,
    addresses: &Addresses,
    seed: u64,
) {
    let now = || endpoint.clock().now();
    let mut patience = Patience::default();
    loop {
        link.wait_silent(patience.wait(now())).await;
        let mut backoff = Backoff::new(seed);
        while link.is_silent() {
            match dial_beside(endpoint, link, addresses).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(reason) => {
                    tracing::debug!(peer = %link.peer().short(), %reason, "no other path to a silent peer");
                }
            }
            let _ = timeout(backoff.next(), link.wait_heard()).await;
        }
        patience.handle_false_alarm(now());
    }
}

/// Redials the peer of a silent link once; returns whether another link has replaced it.
async fn dial_beside(
    endpoint: &Endpoint,
    link: &Link,
    addresses: &Addresses,
) -> Result<bool, Unreachable> {
    let peer = link.peer();
    if !endpoint.is_present(link) {
        return Ok(true);
    }
    tracing::debug!(peer = %peer.short(), "dialling beside a silent link");
    let wait = DIAL_WAIT.max(StdDuration::from(link.rtt()) * DIAL_ROUNDS);
    let connected = tokio::select! {
        connected = timeout(wait, dial::connect(endpoint, peer, addresses)) => connected,
        () = link.wait_heard() => return Ok(false),
    };
    let connection = connected.map_err(|_| Unreachable::TimedOut {
        addresses: reason::list_quic(addresses),
    })??;
    if link.answers_ping().await {
        let reason = b"the link between the two nodes works again";
        connection.close(CloseCode::Duplicate.varint(), reason);
        return Ok(false);
    }
    accept::replace(endpoint, link, NewConnection::Quic(connection)).await
}
