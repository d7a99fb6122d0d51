//! How a peer begins a connection, and how many may at once.
//!
//! *The idea.* A handshake costs a signature, and the loop that makes it also carries every stream.
//! So each turn begins a few only, and the number that is pending is bounded. Below a first bound
//! any address is taken at its word; above it, a peer must prove its address first (RFC 9000
//! §8.1.2), which costs this end no state; and one host has half of the places at most. The rest is
//! ignored: the peer asks again after a second.
//!
//! ```text
//! Initial ─► free? ─► a place ─► begun in some turn ─► key proved ─► admitted? ─► a connection
//!              ├──► proof of address (Retry)                           └─► closed: not admitted
//!              └──► ignored
//! ```
//!
//! *What it does not do.* It keeps no list of keys: [`Admission`] does.

use std::collections::{BTreeMap, VecDeque};

use noq_proto::{Connection as Quic, Incoming};
use rustls::pki_types::CertificateDer;
use thalweg_base::id::NodeId;
use thalweg_base::limits::LINKS_MAX;

use crate::admission::Admission;
use crate::close::CloseCode;
use crate::lobby::Host;
use crate::raw_key::proved;

/// Handshakes that one turn begins: 2 ms of signatures.
pub(super) const BEGUN_PER_TURN: usize = 8;

/// Pending handshakes above which a peer must prove its address.
const RETRY_ABOVE: usize = 32;

/// Pending handshakes at once.
const PENDING_MAX: usize = 256;

/// Pending handshakes of one host.
const PENDING_PER_HOST: usize = PENDING_MAX / 2;

/// Connections at once: each link, and one that is about to replace it.
const CONNECTIONS_MAX: usize = 2 * LINKS_MAX;

/// Connections of one key at once: the link, one that replaces it, and two that drain.
const CONNECTIONS_PER_KEY: usize = 4;

/// The pending handshakes, begun or not.
#[derive(Debug, Default)]
pub(super) struct Pending {
    waiting: VecDeque<(Host, Incoming)>,
    /// Places taken, the waiting ones among them.
    taken: usize,
    by_host: BTreeMap<Host, usize>,
}

/// What happens to a first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Begin,
    Retry,
    Ignore,
}

/// The connections of each key.
#[derive(Debug, Default)]
pub(super) struct Shares {
    by_key: BTreeMap<NodeId, usize>,
    count: usize,
}

/// Why a peer gets no connection although its handshake is complete.
pub(super) enum Refusal {
    NotAdmitted(String),
    Overload,
}

impl Pending {
    /// Decides about a first packet of a host.
    pub(super) fn judge(&self, host: Host, is_validated: bool) -> Verdict {
        let own = self.by_host.get(&host).copied().unwrap_or(0);
        if self.taken >= PENDING_MAX || own >= PENDING_PER_HOST {
            Verdict::Ignore
        } else if self.taken >= RETRY_ABOVE && !is_validated {
            Verdict::Retry
        } else {
            Verdict::Begin
        }
    }

    /// Takes a place for a handshake that some turn begins.
    pub(super) fn push(&mut self, host: Host, incoming: Incoming) {
        self.take(host);
        self.waiting.push_back((host, incoming));
    }

    /// Returns the next handshake to begin.
    pub(super) fn pop(&mut self) -> Option<(Host, Incoming)> {
        self.waiting.pop_front()
    }

    /// Returns how many there are.
    pub(super) const fn count(&self) -> usize {
        self.taken
    }

    /// Returns whether a handshake waits to be begun.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn take(&mut self, host: Host) {
        self.taken += 1;
        *self.by_host.entry(host).or_default() += 1;
    }

    /// Gives back the place of a handshake that has ended.
    pub(super) fn leave(&mut self, host: Host) {
        self.taken -= 1;
        if let Some(own) = self.by_host.get_mut(&host) {
            *own -= 1;
            if *own == 0 {
                self.by_host.remove(&host);
            }
        }
    }
}

impl Shares {
    fn has_room(&self, peer: NodeId) -> bool {
        let own = self.by_key.get(&peer).copied().unwrap_or(0);
        self.count < CONNECTIONS_MAX && own < CONNECTIONS_PER_KEY
    }

    /// Returns how many there are, and the most of one key.
    pub(super) fn count(&self) -> (usize, usize) {
        let most = self.by_key.values().copied().max();
        (self.count, most.unwrap_or(0))
    }

    /// Counts a connection.
    pub(super) fn join(&mut self, peer: NodeId) {
        self.count += 1;
        *self.by_key.entry(peer).or_default() += 1;
    }

    /// Counts the end of a connection.
    pub(super) fn leave(&mut self, peer: NodeId) {
        self.count -= 1;
        if let Some(own) = self.by_key.get_mut(&peer) {
            *own -= 1;
            if *own == 0 {
                self.by_key.remove(&peer);
            }
        }
    }

    /// Decides about a key that has been proved.
    pub(super) fn judge(
        &self,
        own: NodeId,
        peer: NodeId,
        admission: &Admission,
    ) -> Result<(), Refusal> {
        if !admission.admits(peer) {
            return Err(Refusal::NotAdmitted(admission.refuse(own, peer)));
        }
        if !self.has_room(peer) {
            return Err(Refusal::Overload);
        }
        Ok(())
    }
}

impl Refusal {
    /// Returns the code and the reason with which the connection is closed.
    pub(super) fn parts(&self) -> (CloseCode, &str) {
        match self {
            Self::NotAdmitted(reason) => (CloseCode::NotAdmitted, reason),
            Self::Overload => (CloseCode::Overload, "no room for a connection"),
        }
    }
}

/// Returns the key that the peer has proved in its handshake.
pub(super) fn peer(quic: &Quic) -> Option<NodeId> {
    let presented = quic.crypto_session().peer_identity()?;
    let presented = presented.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    proved(Some(&presented))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: usize) -> Host {
        Host::of(std::net::Ipv4Addr::from_bits(number as u32).into())
    }

    #[test]
    fn crowd_must_prove_addresses() {
        let mut pending = Pending::default();
        for number in 0..RETRY_ABOVE {
            assert_eq!(pending.judge(host(number), false), Verdict::Begin);
            pending.take(host(number));
        }
        assert_eq!(pending.judge(host(0), false), Verdict::Retry);
        assert_eq!(pending.judge(host(0), true), Verdict::Begin);
        pending.leave(host(3));
        assert_eq!(pending.judge(host(0), false), Verdict::Begin);
    }

    #[test]
    fn host_fills_half_of_the_places() {
        let mut pending = Pending::default();
        for _ in 0..PENDING_PER_HOST {
            assert_eq!(pending.judge(host(1), true), Verdict::Begin);
            pending.take(host(1));
        }
        assert_eq!(pending.judge(host(1), true), Verdict::Ignore);
        for number in PENDING_PER_HOST..PENDING_MAX {
            assert_eq!(pending.judge(host(number), true), Verdict::Begin);
            pending.take(host(number));
        }
        assert_eq!(pending.judge(host(0), true), Verdict::Ignore);
    }

    #[test]
    fn key_has_few_connections() {
        let (own, peer) = (NodeId([1; 32]), NodeId([2; 32]));
        let admission = Admission::of([peer]);
        let mut shares = Shares::default();
        for _ in 0..CONNECTIONS_PER_KEY {
            assert!(shares.judge(own, peer, &admission).is_ok());
            shares.join(peer);
        }
        let refused = shares.judge(own, peer, &admission);
        assert!(matches!(refused, Err(Refusal::Overload)));
        shares.leave(peer);
        assert!(shares.judge(own, peer, &admission).is_ok());
    }
}
