//! Detects paths with an MTU too small for QUIC, and abandons them.
//!
//! *The idea.* Every packet of a QUIC handshake fills 1,200 bytes (RFC 9000 §14.1), and so do most
//! packets of a busy link. On a path that drops such packets but passes smaller ones, a dial times
//! out as if no node listened, and an existing link looks alive but delivers nothing. A probe
//! distinguishes this from a blocked or cut path: a QUIC node answers a packet of an unknown
//! version with a list of its versions (RFC 9000 §6). So the probe sends small packets and full
//! ones.
//!
//! ```text
//! no handshake after 1 s ──┐                    ┌─ small answered, full not ─► too small: TCP, or
//! report it
//! link: full packets lost ─┼─► 8 probes in 0.7 s ┤
//! link: silent for 1 s ────┘                    └─ anything else ─► go on as before
//! ```
//!
//! A link is also abandoned without a probe if acknowledgements prove the path too small
//! (`thalweg_link::hop::narrow`), as behind a NAT that passes no probe.
//!
//! TCP to a peer behind such a path uses small segments ([`SmallPaths`]), since the ICMP messages by
//! which a kernel would learn of the limit are often dropped there too.
//!
//! *What it does not do.* A probe covers the forward path only; the peer watches its own packets on
//! the way back. Relayed paths are not probed.
//!
//! *Sources.* RFC 2923 §2.1 (TCP in such a path); RFC 9000 §6, §14, §17.2.1; noq-proto 1.4
//! `endpoint.rs`, which answers small packets too.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration as StdDuration;

use thalweg_base::id::NodeId;
use thalweg_base::limits::LINKS_MAX;
use thalweg_base::time::Duration;
use thalweg_link::hop::narrow::Passage;
use thalweg_link::hop::settings::MTU_BYTES_MIN;
use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::{Endpoint, Reach};
use crate::address::Addresses;
use crate::error::Unreachable;
use crate::link::{Link, Remote};
use crate::reason;

/// How long a handshake may take before the path is probed: its first packet is retransmitted after
/// 1 s.
const HANDSHAKE_WAIT: StdDuration = StdDuration::from_secs(1);

/// How long a link is silent before its path is probed.
const SILENT: Duration = Duration::from_secs(1);

/// Pause after a probe that was answered. After one without any answer, as on a cut path, the pause
/// doubles up to the maximum.
const PAUSE_MIN: StdDuration = StdDuration::from_secs(1);
const PAUSE_MAX: StdDuration = StdDuration::from_secs(8);

/// Packets sent per size and probe. At 30 % loss each way all full packets fail by chance once in
/// 200 probes.
const PROBES: u8 = 8;

/// Answers to small packets that make the absence of answers to full ones significant.
const ANSWERS_MIN: u32 = 4;

/// Interval between packets; a busy peer is not asked faster.
const PROBE_INTERVAL: StdDuration = StdDuration::from_millis(100);

/// How long to wait for the last answer. Over a satellite, the first four answers arrive in time.
const LAST_WAIT: StdDuration = StdDuration::from_millis(400);

/// Size of a small packet, below the MTU of every IP path (RFC 791: 68 bytes; RFC 8200: 1,280).
const SMALL_BYTES: usize = 40;

/// A version of the form 0x?a?a?a?a, reserved by RFC 9000 §15 to force version negotiation.
const NO_VERSION: [u8; 4] = [0x5a, 0x6a, 0x7a, 0x8a];

/// The first byte of a packet: long header and fixed bit.
const LONG_HEADER: u8 = 0xc0;

/// The sockets that send probes, one per family. They are reused, since a peer remembers each
/// address it hears from.
#[derive(Debug, Default)]
pub(super) struct Prober(Mutex<[Option<UdpSocket>; 2]>);

/// Peers behind a path too small for QUIC, until a QUIC connection with them succeeds.
///
/// At most [`LINKS_MAX`]; later ones get segments of the usual size.
#[derive(Debug, Default)]
pub(super) struct SmallPaths(StdMutex<BTreeSet<NodeId>>);

impl SmallPaths {
    pub(super) fn insert(&self, peer: NodeId) {
        let mut peers = self.peers();
        if peers.len() < LINKS_MAX {
            peers.insert(peer);
        }
    }

    pub(super) fn remove(&self, peer: NodeId) {
        self.peers().remove(&peer);
    }

    pub(super) fn contains(&self, peer: NodeId) -> bool {
        self.peers().contains(&peer)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of answers per packet size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    small: u32,
    full: u32,
}

/// The probe of a path on which a handshake is overdue.
#[derive(Debug, Default)]
pub(super) struct Test {
    /// Whether a node has answered.
    is_answered: AtomicBool,
}

impl Test {
    /// Waits until a handshake is overdue and its path has failed the probe; for ever if it passes.
    pub(super) async fn fails(&self, endpoint: &Endpoint, addresses: &Addresses) -> Unreachable {
        sleep(HANDSHAKE_WAIT).await;
        match answers(endpoint, &addresses.udp).await {
            answers if answers.is_too_small() => Unreachable::Narrow {
                addresses: reason::list_quic(addresses),
            },
            answers => {
                let is_answered = answers.full > 0;
                self.is_answered.store(is_answered, Ordering::Relaxed);
                std::future::pending().await
            }
        }
    }

    /// Returns why a handshake did not complete.
    pub(super) fn why_no_handshake(&self, addresses: &Addresses) -> Unreachable {
        let addresses = reason::list_quic(addresses);
        if self.is_answered.load(Ordering::Relaxed) {
            Unreachable::NoHandshake { addresses }
        } else {
            Unreachable::TimedOut { addresses }
        }
    }
}

impl Answers {
    const fn is_too_small(self) -> bool {
        self.full == 0 && self.small >= ANSWERS_MIN
    }
}

/// Watches a link over QUIC until it ends; closes it if its path turns out to be too small.
pub(super) async fn watch(endpoint: Endpoint, link: Link) {
    tokio::select! {
        _ = link.closed() => {}
        () = wait_narrow(&endpoint, &link) => link.close_narrow(),
    }
}

/// Waits until the path of a link is found too small.
async fn wait_narrow(endpoint: &Endpoint, link: &Link) {
    let mut pause = PAUSE_MIN;
    loop {
        let passage = tokio::select! {
            passage = link.wait_narrow() => passage,
            () = link.wait_silent(SILENT) => Passage::Suspect,
        };
        if passage == Passage::Narrow {
            return;
        }
        let paths = link.stats().paths;
        let addresses = paths.iter().filter_map(|path| match path.remote {
            Remote::Address(address) => Some(address),
            _ => None,
        });
        let addresses: Vec<_> = addresses.take(1).collect();
        let answers = answers(endpoint, &addresses).await;
        if answers.is_too_small() {
            return;
        }
        sleep(pause).await;
        pause = if answers == Answers::default() {
            PAUSE_MAX.min(pause * 2)
        } else {
            PAUSE_MIN
        };
    }
}

/// Probes the paths to these addresses; returns the best one's answers.
async fn answers(endpoint: &Endpoint, addresses: &[SocketAddr]) -> Answers {
    let mut best = Answers::default();
    if endpoint.0.reach == Reach::OwnAddress {
        // Under this reach, packets from any socket but iroh's go nowhere.
        return best;
    }
    let own = endpoint.listening();
    for address in addresses {
        match endpoint.0.prober.probe(&own, *address).await {
            Ok(answers) if answers.full > 0 => return answers,
            Ok(answers) => best.small = best.small.max(answers.small),
            Err(error) => tracing::debug!(%address, %error, "path not tested"),
        }
    }
    best
}

impl Prober {
    /// Sends small and full packets to an address, until a full one is answered.
    async fn probe(&self, own: &[SocketAddr], to: SocketAddr) -> io::Result<Answers> {
        // One probe at a time: the caller's dial or link goes on while it waits here.
        let mut sockets = self.0.lock().await;
        let socket = &mut sockets[usize::from(to.is_ipv6())];
        let socket = match socket {
            Some(socket) => socket,
            none => none.insert(bind(own, to).await?),
        };
        let nonce = RandomState::new().hash_one(to);
        let mut answers = Answers::default();
        for probe in 0..PROBES {
            for is_full in [false, true] {
                // On a cut path the kernel may report an error; the probe then simply gets no
                // answer.
                let _ = socket.send_to(&probe_packet(nonce, is_full), to).await;
            }
            let wait = if probe + 1 < PROBES {
                PROBE_INTERVAL
            } else {
                LAST_WAIT
            };
            let listening = listen(socket, nonce, to, &mut answers);
            // The counts matter, not whether it timed out.
            let _ = timeout(wait, listening).await;
            if answers.full > 0 {
                break;
            }
        }
        tracing::debug!(%to, ?answers, "path tested");
        Ok(answers)
    }
}

/// Counts answers until one is to a full packet.
async fn listen(socket: &UdpSocket, nonce: u64, from: SocketAddr, answers: &mut Answers) {
    let mut buffer = [0; 256];
    while answers.full == 0 {
        let Ok((bytes, sender)) = socket.recv_from(&mut buffer).await else {
            // An ICMP answer to an earlier packet.
            sleep(PROBE_INTERVAL).await;
            continue;
        };
        if sender != from {
            continue;
        }
        match answered(&buffer[..bytes], nonce) {
            Some(true) => answers.full += 1,
            Some(false) => answers.small += 1,
            None => {}
        }
    }
}

/// Binds a socket to the node's own address of the target's family.
async fn bind(own: &[SocketAddr], to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut of_family = own.iter().filter(|own| own.is_ipv4() == to.is_ipv4());
    let ip = of_family.next().map_or(any, SocketAddr::ip);
    UdpSocket::bind((ip, 0)).await
}

/// Returns a packet that asks a node for its supported versions.
///
/// ```text
/// first byte · version · 8, target id · 8, own id = size and nonce · zeros
/// ```
fn probe_packet(nonce: u64, is_full: bool) -> Vec<u8> {
    let mut packet = vec![LONG_HEADER];
    packet.extend(NO_VERSION);
    packet.push(8);
    packet.extend(nonce.to_be_bytes());
    packet.push(8);
    packet.extend(own_id(nonce, is_full));
    let bytes = if is_full {
        usize::from(MTU_BYTES_MIN)
    } else {
        SMALL_BYTES
    };
    packet.resize(bytes, 0);
    packet
}

/// Returns the connection id to which the answer comes; it encodes the packet's size.
fn own_id(nonce: u64, is_full: bool) -> [u8; 8] {
    let mut id = nonce.to_be_bytes();
    id[0] = u8::from(is_full);
    id
}

/// Returns whether an answer is to a full packet; `None` if it is no answer to this probe.
fn answered(packet: &[u8], nonce: u64) -> Option<bool> {
    let (first, rest) = packet.split_first()?;
    let (version, rest) = rest.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first()?;
    let id = rest.first_chunk::<8>()?;
    let is_list = first & 0x80 != 0 && *version == [0; 4] && *length == 8;
    let mut sizes = [false, true].into_iter();
    sizes.find(|is_full| is_list && own_id(nonce, *is_full) == *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version negotiation packet as in RFC 9000 §17.2.1: the connection ids are swapped.
    fn list(probe_packet: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x80 | 0x2a, 0, 0, 0, 0, 8];
        packet.extend(&probe_packet[15..23]);
        packet.push(8);
        packet.extend(&probe_packet[6..14]);
        packet.extend([0, 0, 0, 1]);
        packet
    }

    #[test]
    fn answer_identifies_probe_size() {
        let nonce = 0x0123_4567_89ab_cdef;
        for is_full in [false, true] {
            let probe_packet = probe_packet(nonce, is_full);
            assert_eq!(probe_packet.len(), if is_full { 1_200 } else { 40 });
            assert_eq!(answered(&list(&probe_packet), nonce), Some(is_full));
        }
    }

    #[test]
    fn foreign_packet_is_ignored() {
        let nonce = 0x0123_4567_89ab_cdef;
        let answer = list(&probe_packet(nonce, true));
        assert_eq!(answered(&answer, nonce + 1), None);
        for length in 0..14 {
            assert_eq!(answered(&answer[..length], nonce), None, "{length} bytes");
        }
        let mut other = answer;
        other[4] = 1;
        assert_eq!(answered(&other, nonce), None, "a packet of version 1");
    }
}
