//! Dialling beside a link over which nothing comes.
//!
//! *The idea.* A peer that was killed and started anew has lost the connection, and cannot say so: whoever dialled it would wait until
//! that has idled out. So a kept peer is dialled again beside a link that has been silent for a while. Once the new connection
//! is made, the line carries, and the peer is asked for a word over the old one: a peer that has that answers, for its line was
//! only cut, or it was busy, and the new connection is given up before it is a link. From one that does not, the new takes over.
//!
//! ```text
//! silent for 0.75 s ─► dial, 2 s at most ──► made ─► asked over the old one ──► nothing: greet; the new one is the link
//!        ▲               │    │                            └─► a word: the new one is closed
//!        └── a pause ◄───┘    └─► the link is heard: the dial is given up
//! ```
//!
//! A dial is a packet of 1.3 KB a second, over the path that the link takes; a peer that is too busy to answer has a handshake to
//! make on top. So pauses between dials double, and after each silence that was a false alarm it is waited for twice as long.
//!
//! *What it does not do.* It gives no link up: a peer that is not reached otherwise is waited for until the connection idles out.

use std::time::Duration as StdDuration;

use thalweg_core::time::{Duration, Instant};
use tokio::time::timeout;

use super::dial::{self, Backoff};
use super::{Addresses, Endpoint, accept, reason};
use crate::close::{CloseCode, ToVarInt as _};
use crate::error::Unreachable;
use crate::link::{Fresh, Link};

/// How long a link is silent before its peer is dialled: three looks. One that is at work answers within a few round trips.
const PATIENCE_MIN: Duration = Duration::from_millis(750);

/// The longest such wait: below the time after which QUIC itself gives up.
const PATIENCE_MAX: Duration = Duration::from_secs(6);

/// After a false alarm it is waited no longer than usual again when so much time has passed without another.
const CALM: Duration = Duration::from_secs(60);

/// How long one dial lasts at least: its first packet is sent again after 1 s, and a peer that was restarted is back soon.
const DIAL_WAIT: StdDuration = StdDuration::from_secs(2);

/// The same in round trips: two for the handshake, twice if a packet is lost, and as much for a queue.
const DIAL_ROUNDS: u32 = 8;

/// How patient one is with a link that has been silent before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    wait: Duration,
    /// Until when another false alarm makes it more patient.
    wary_until: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            wait: PATIENCE_MIN,
            wary_until: Instant::ZERO,
        }
    }
}

impl Patience {
    /// Returns how long the link may be silent.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        if now < self.wary_until {
            self.wait
        } else {
            PATIENCE_MIN
        }
    }

    /// Takes in that the peer was dialled for nothing.
    pub(super) fn handle_false_alarm(&mut self, now: Instant) {
        let wait = self.wait(now);
        self.wait = (wait + wait).min(PATIENCE_MAX);
        self.wary_until = now + CALM;
    }
}

/// Dials beside a link whenever it is silent; returns when another has taken its place.
pub(super) async fn outlive(endpoint: &Endpoint, link: &Link, addresses: &Addresses, seed: u64) {
    let now = || endpoint.clock().now();
    let mut patience = Patience::default();
    loop {
        link.falls_silent(patience.wait(now())).await;
        let mut backoff = Backoff::new(seed);
        while link.is_silent() {
            match dial_beside(endpoint, link, addresses).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(reason) => {
                    tracing::debug!(peer = %link.peer().short(), %reason, "a silent link is all there is");
                }
            }
            let _ = timeout(backoff.next(), link.is_heard()).await;
        }
        patience.handle_false_alarm(now());
    }
}

/// Dials the peer of a silent link, once; returns whether another link is there now.
async fn dial_beside(
    endpoint: &Endpoint,
    link: &Link,
    addresses: &Addresses,
) -> Result<bool, Unreachable> {
    let peer = link.peer();
    let is_present = |present: Link| present.is_same(link);
    if !endpoint.link(peer).is_some_and(is_present) {
        return Ok(true);
    }
    tracing::debug!(peer = %peer.short(), "dialling beside a silent link");
    let wait = DIAL_WAIT.max(StdDuration::from(link.rtt()) * DIAL_ROUNDS);
    let connected = tokio::select! {
        connected = timeout(wait, dial::connect(endpoint, peer, addresses)) => connected,
        () = link.is_heard() => return Ok(false),
    };
    let connection = connected.map_err(|_| Unreachable::TimedOut {
        addresses: reason::list_quic(addresses),
    })??;
    if link.answers().await {
        let reason = b"the link between the two nodes is heard again";
        connection.close(CloseCode::Duplicate.varint(), reason);
        return Ok(false);
    }
    let kept = accept::establish(endpoint, Fresh::Quic(connection), true).await?;
    let is_replaced = !kept.is_same(link);
    if is_replaced {
        link.close(CloseCode::Duplicate, "nothing comes over this connection");
    }
    Ok(is_replaced)
}
