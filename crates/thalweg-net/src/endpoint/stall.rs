//! Leaves a stalled QUIC link for another way to the peer.
//!
//! *The idea.* Where a kept peer has a TCP address or several UDP addresses, a stall needs no long wait:
//! another way can be tried at once, beside the link. [`Link::wait_stalled`] detects the stall. Then
//! QUIC to all addresses and TCP are dialled together while the stalled link is pinged. Any byte over
//! it ends the attempt, so a slow link with jitter keeps its connection. The first new connection takes
//! over.
//!
//! ```text
//! in flight, nothing for max(4 · RTT + 25 ms, 150 ms) ─► dial QUIC and TCP, ping every 50 ms
//!        ▲                                                │     └─► connected, 50 ms later: it is the link
//!        └── a pause of 1 s, doubled each time to 16 s ◄──┘ a byte came, or no way was found
//! ```
//!
//! *What it does not do.* It moves no ADU: those without an outcome end as lost with the link, and the node
//! resends them. It leaves no link that is younger than [`SETTLED`], so moves are at least that far apart;
//! QUIC is retried only after the usual interval.

use std::time::Duration as StdDuration;

use thalweg_base::time::Duration;
use tokio::time::{sleep, timeout};

use super::{Endpoint, accept, dial};
use crate::address::Addresses;
use crate::error::Unreachable;
use crate::link::{Link, NewConnection, Transport};
use crate::reason;

/// Age below which a link is not left: at most twelve moves a minute.
const SETTLED: Duration = Duration::from_secs(5);

/// Interval between pings over a stalled link.
const PING_EVERY: StdDuration = StdDuration::from_millis(50);

/// How long an answer over the stalled link may come after the new connection: a peer that was busy answers
/// both when it wakes, in any order, the pings within QUIC's delay of acknowledgements (25 ms).
const GRACE: StdDuration = StdDuration::from_millis(50);

/// Time limit of an attempt: the first packet of a dial is retransmitted after 1 s.
const ATTEMPT_WAIT: StdDuration = StdDuration::from_secs(2);

/// First and longest pause after an attempt that did not replace the link.
const PAUSE_MIN: StdDuration = StdDuration::from_secs(1);
const PAUSE_MAX: StdDuration = StdDuration::from_secs(16);

/// Returns whether a link can be left for another way to its peer.
pub(super) fn has_other_way(link: &Link, addresses: &Addresses) -> bool {
    let ways = addresses.udp.len() + addresses.tcp.len();
    link.transport() == Transport::Quic && ways > 1
}

/// Replaces a link when it stalls; returns when another link has replaced it.
pub(super) async fn leave_when_stalled(endpoint: &Endpoint, link: &Link, addresses: &Addresses) {
    let clock = endpoint.clock();
    clock.sleep_until(link.since() + SETTLED).await;
    let mut pause = PAUSE_MIN;
    loop {
        link.wait_stalled().await;
        match timeout(ATTEMPT_WAIT, replace(endpoint, link, addresses)).await {
            Ok(Ok(true)) => return,
            Ok(Err(reason)) => {
                tracing::debug!(peer = %link.peer().short(), %reason, "no other way to a stalled peer");
            }
            Ok(Ok(false)) | Err(_) => {}
        }
        sleep(pause).await;
        pause = PAUSE_MAX.min(pause * 2);
    }
}

/// Dials beside a stalled link until it is heard; returns whether another link has replaced it.
async fn replace(
    endpoint: &Endpoint,
    link: &Link,
    addresses: &Addresses,
) -> Result<bool, Unreachable> {
    if !endpoint.is_present(link) {
        return Ok(true);
    }
    tracing::debug!(peer = %link.peer().short(), "dialling beside a stalled link");
    let connected = tokio::select! {
        biased;
        () = ping_until_heard(link) => return Ok(false),
        connected = async {
            let connected = connect_first(endpoint, link, addresses).await;
            sleep(GRACE).await;
            connected
        } => connected?,
    };
    accept::replace(endpoint, link, connected).await
}

/// Pings over a link until something arrives.
async fn ping_until_heard(link: &Link) {
    let received = || link.sign(true).received;
    let before = received();
    while received() == before {
        link.ping();
        sleep(PING_EVERY).await;
    }
}

/// Connects over QUIC and TCP at once; returns the first connection.
async fn connect_first(
    endpoint: &Endpoint,
    link: &Link,
    addresses: &Addresses,
) -> Result<NewConnection, Unreachable> {
    let peer = link.peer();
    let quic = async {
        let connection = dial::connect(endpoint, peer, addresses).await?;
        Ok::<_, Unreachable>(NewConnection::Quic(connection))
    };
    let tcp = async {
        if addresses.tcp.is_empty() {
            let addresses = reason::list_quic(addresses);
            return Err(Unreachable::TimedOut { addresses });
        }
        dial::connect_tcp(endpoint, peer, &addresses.tcp).await
    };
    tokio::pin!(quic, tcp);
    tokio::select! {
        connected = &mut quic => match connected {
            Ok(connected) => Ok(connected),
            Err(_) => tcp.await,
        },
        connected = &mut tcp => match connected {
            Ok(connected) => Ok(connected),
            Err(_) => quic.await,
        },
    }
}
