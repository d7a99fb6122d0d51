//! Paths that are too small for QUIC: found, named, and left.
//!
//! *The idea.* Every packet of a QUIC handshake fills 1,200 bytes (RFC 9000 §14.1), and so does whatever a
//! link has much of. Where such packets vanish and smaller ones pass, a dial times out as if nobody listened,
//! and a link that was up before looks alive and delivers nothing. A test tells the two apart from a blocked
//! or cut path: a QUIC node answers a packet of a version that nobody speaks with the list of its versions
//! (RFC 9000 §6). So the address is asked in small packets and in full ones.
//!
//! ```text
//! no handshake after 1 s ──┐                       ┌─ small answered, full not ─► too small: TCP, or say so
//! link: full packets lost ─┼─► ask 8 times in 0.7 s ┤
//! link: silent for 1 s ────┘                       └─ anything else ─► go on as before
//! ```
//!
//! A link is left without a test where acknowledgements prove it (`core::hop::narrow`), as behind a NAT that
//! lets no test in.
//!
//! *What it does not do.* The test covers the way there and not the way back: there each end watches its own
//! packets. Over a relay nothing is tested.
//!
//! *Sources.* RFC 9000 §6, §14, §17.2.1; noq-proto 1.4 `endpoint.rs`, which answers small packets too.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use thalweg_core::hop::narrow::Passage;
use thalweg_core::hop::settings::MTU_BYTES_MIN;
use thalweg_core::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::{Addresses, Endpoint, Reach, reason};
use crate::error::Unreachable;
use crate::link::{Link, Remote};

/// How long a handshake may take before the path is tested: its first packet is sent again after 1 s.
const HANDSHAKE_WAIT: StdDuration = StdDuration::from_secs(1);

/// How long a link is silent before its path is tested.
const SILENT: Duration = Duration::from_secs(1);

/// How long a path that passed a test is left in peace; where nothing was answered, as on one that is cut,
/// twice as long each time.
const PAUSE_MIN: StdDuration = StdDuration::from_secs(1);
const PAUSE_MAX: StdDuration = StdDuration::from_secs(8);

/// How often each size is asked. At 30 % loss each way all full packets fail by chance once in 200 tests.
const ASKS: u8 = 8;

/// So many small packets must be answered for the silence of full ones to mean anything.
const ANSWERS_MIN: u32 = 4;

/// The time between two asks; a busy peer is not asked faster.
const EVERY: StdDuration = StdDuration::from_millis(100);

/// How long the last answer is waited for. Over a satellite the first four of them come in time.
const LAST_WAIT: StdDuration = StdDuration::from_millis(400);

/// A packet that every path carries which carries IP (RFC 791: 68 bytes; RFC 8200: 1,280).
const SMALL_BYTES: usize = 40;

/// A version of the form 0x?a?a?a?a, which RFC 9000 §15 keeps for this: nobody speaks it.
const NO_VERSION: [u8; 4] = [0x5a, 0x6a, 0x7a, 0x8a];

/// The first byte of a packet with a long header and the fixed bit.
const LONG_HEADER: u8 = 0xc0;

/// The sockets from which paths are tested, one a family. They are kept, for a peer remembers each address
/// that it hears.
#[derive(Debug, Default)]
pub(super) struct Surveyor(Mutex<[Option<UdpSocket>; 2]>);

/// What was answered of what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    small: u32,
    full: u32,
}

/// The test of a path whose handshake is overdue.
#[derive(Debug, Default)]
pub(super) struct Test {
    /// Whether a node has answered there.
    is_answered: AtomicBool,
}

impl Test {
    /// Waits until a handshake is overdue and its path has failed the test; for ever if it passes.
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

    /// Says why a handshake has not come to its end.
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

/// Watches a link over QUIC until it has ended; closes it if its path turns out to be too small.
pub(super) async fn watch(endpoint: Endpoint, link: Link) {
    tokio::select! {
        _ = link.closed() => {}
        () = narrows(&endpoint, &link) => link.leave_narrow(),
    }
}

/// Waits until the path of a link is known to be too small.
async fn narrows(endpoint: &Endpoint, link: &Link) {
    let mut pause = PAUSE_MIN;
    loop {
        let passage = tokio::select! {
            passage = link.narrows() => passage,
            () = link.falls_silent(SILENT) => Passage::Suspect,
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

/// Tests the paths to these addresses, and returns what the best of them answered.
async fn answers(endpoint: &Endpoint, addresses: &[SocketAddr]) -> Answers {
    let mut best = Answers::default();
    if endpoint.0.reach == Reach::OwnAddress {
        // Nothing leaves by another socket than iroh's there.
        return best;
    }
    let own = endpoint.listening();
    for address in addresses {
        match endpoint.0.surveyor.ask(&own, *address).await {
            Ok(answers) if answers.full > 0 => return answers,
            Ok(answers) => best.small = best.small.max(answers.small),
            Err(error) => tracing::debug!(%address, %error, "path not tested"),
        }
    }
    best
}

impl Surveyor {
    /// Asks an address in small packets and in full ones, until one of the full ones is answered.
    async fn ask(&self, own: &[SocketAddr], to: SocketAddr) -> io::Result<Answers> {
        // One test at a time: whoever waits here has a dial or a link that goes on meanwhile.
        let mut sockets = self.0.lock().await;
        let socket = &mut sockets[usize::from(to.is_ipv6())];
        let socket = match socket {
            Some(socket) => socket,
            none => none.insert(bind(own, to).await?),
        };
        let nonce = RandomState::new().hash_one(to);
        let mut answers = Answers::default();
        for ask in 0..ASKS {
            for is_full in [false, true] {
                // Of a path that is cut the kernel may say so; then nothing is answered.
                let _ = socket.send_to(&question(nonce, is_full), to).await;
            }
            let wait = if ask + 1 < ASKS { EVERY } else { LAST_WAIT };
            let listening = listen(socket, nonce, to, &mut answers);
            // Whether the time is over or a full packet was answered, the answers tell.
            let _ = timeout(wait, listening).await;
            if answers.full > 0 {
                break;
            }
        }
        tracing::debug!(%to, ?answers, "path tested");
        Ok(answers)
    }
}

/// Takes answers until one says that a full packet has come.
async fn listen(socket: &UdpSocket, nonce: u64, from: SocketAddr, answers: &mut Answers) {
    let mut buffer = [0; 256];
    while answers.full == 0 {
        let Ok((bytes, sender)) = socket.recv_from(&mut buffer).await else {
            // An ICMP answer to an earlier packet.
            sleep(EVERY).await;
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

/// Binds a socket that leaves by the same address as the node's own.
async fn bind(own: &[SocketAddr], to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut of_family = own.iter().filter(|own| own.is_ipv4() == to.is_ipv4());
    let ip = of_family.next().map_or(any, SocketAddr::ip);
    UdpSocket::bind((ip, 0)).await
}

/// Returns a packet that asks for the versions that a node speaks.
///
/// ```text
/// first byte · version · 8, target id · 8, own id = size and nonce · zeros
/// ```
fn question(nonce: u64, is_full: bool) -> Vec<u8> {
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

/// Returns the id under which the answer comes: it tells the size of what was asked.
fn own_id(nonce: u64, is_full: bool) -> [u8; 8] {
    let mut id = nonce.to_be_bytes();
    id[0] = u8::from(is_full);
    id
}

/// Returns whether an answer is to a full packet; nothing if it is none of ours.
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

    /// A list of versions as RFC 9000 §17.2.1 has it: the ids change places.
    fn list(question: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x80 | 0x2a, 0, 0, 0, 0, 8];
        packet.extend(&question[15..23]);
        packet.push(8);
        packet.extend(&question[6..14]);
        packet.extend([0, 0, 0, 1]);
        packet
    }

    #[test]
    fn answer_tells_the_size_of_its_question() {
        let nonce = 0x0123_4567_89ab_cdef;
        for is_full in [false, true] {
            let question = question(nonce, is_full);
            assert_eq!(question.len(), if is_full { 1_200 } else { 40 });
            assert_eq!(answered(&list(&question), nonce), Some(is_full));
        }
    }

    #[test]
    fn foreign_packet_is_no_answer() {
        let nonce = 0x0123_4567_89ab_cdef;
        let answer = list(&question(nonce, true));
        assert_eq!(answered(&answer, nonce + 1), None);
        for length in 0..14 {
            assert_eq!(answered(&answer[..length], nonce), None, "{length} bytes");
        }
        let mut other = answer;
        other[4] = 1;
        assert_eq!(answered(&other, nonce), None, "a packet of version 1");
    }
}
