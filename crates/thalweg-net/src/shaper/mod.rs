//! A slow, lossy line in user space, between two UDP addresses of one machine.
//!
//! *The idea.* One task with a socket on each side and a [`Line`] per direction. It needs no
//! privilege, so a demonstration or a test can have a satellite link on loopback.
//!
//! ```text
//! A ─► near address │ a_to_b ─► │ far address ─► B
//! A ◄─ near address │ ◄─ b_to_a │ far address ◄─ B
//! ```
//!
//! The near socket has A's IP address and the far one B's, so that endpoints confined by
//! [`Reach::OwnAddress`](crate::endpoint::Reach::OwnAddress) can reach each other through it and in
//! no other way. A is the sender of the last packet to the near address, or is named from the
//! start; then B may dial the far address.
//!
//! A packet's size is its UDP payload plus 28 bytes of IPv4 and UDP headers, so that a rate means
//! what it means on a real line. tokio's timers have a resolution of 1 ms: packets leave up to that
//! much late, never early, and late packets leave at once.
//!
//! *What it does not do.* It shapes only UDP; the model of the line is [`thalweg_netem`]'s.
//!
//! *Sources.* mahimahi's `mm-link` and `mm-delay`.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_netem::Line;
pub use thalweg_netem::{Impairment, LineCounters};
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::clock::Clock;

/// IPv4 and UDP headers, which count on the line with each payload.
pub const HEADER_BYTES: usize = 28;

/// The largest UDP payload.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Maximum number of packets taken from a socket before due packets are sent.
const BATCH: usize = 64;

/// The ends of a line and what it does to packets.
#[derive(Clone, Copy, Debug)]
pub struct ShaperOptions {
    /// The end that dials, A; its IP address becomes the near socket's. With port 0, A is any
    /// sender to [`Shaper::address`].
    pub from: SocketAddr,
    /// The other end, B.
    pub towards: SocketAddr,
    /// The impairment from A to B.
    pub a_to_b: Impairment,
    /// The impairment from B to A.
    pub b_to_a: Impairment,
    /// Seed of the packet losses.
    pub seed: u64,
}

/// A direction of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the dialling end to the other.
    AToB,
    /// From the other end back.
    BToA,
}

/// A shaped line; it is up until dropped.
#[derive(Debug)]
pub struct Shaper {
    line: Arc<Ways>,
    near: SocketAddr,
    far: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Ways {
    clock: Clock,
    a_to_b: Mutex<Line<Bytes>>,
    b_to_a: Mutex<Line<Bytes>>,
    changed: Notify,
}

impl Shaper {
    /// Starts a line.
    ///
    /// Fails   if no socket can be bound on the IP address of one of the two ends
    pub async fn start(options: ShaperOptions) -> io::Result<Self> {
        let near = UdpSocket::bind(SocketAddr::new(options.from.ip(), 0)).await?;
        let far = UdpSocket::bind(SocketAddr::new(options.towards.ip(), 0)).await?;
        let (near_address, far_address) = (near.local_addr()?, far.local_addr()?);
        let mut seeds = SplitMix::new(options.seed);
        let line = Arc::new(Ways {
            clock: Clock::start(),
            a_to_b: Mutex::new(Line::new(options.a_to_b, seeds.next_u64())),
            b_to_a: Mutex::new(Line::new(options.b_to_a, seeds.next_u64())),
            changed: Notify::new(),
        });
        let ends = Ends {
            near,
            far,
            a: (options.from.port() != 0).then_some(options.from),
            b: options.towards,
        };
        let task = tokio::spawn(run(line.clone(), ends));
        Ok(Self {
            line,
            near: near_address,
            far: far_address,
            task,
        })
    }

    /// Returns the address that A dials to reach B.
    pub fn address(&self) -> SocketAddr {
        self.near
    }

    /// Returns the address that B sees as A's, and may dial if A was named.
    pub fn far_address(&self) -> SocketAddr {
        self.far
    }

    /// Changes the impairment of a direction, from now on.
    pub fn set(&self, direction: Direction, impairment: Impairment) {
        let now = self.line.clock.now();
        self.line.way(direction).handle_change(now, impairment);
        self.line.changed.notify_one();
    }

    /// Returns the counters of a direction.
    pub fn counters(&self, direction: Direction) -> LineCounters {
        self.line.way(direction).counters()
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ways {
    fn way(&self, direction: Direction) -> MutexGuard<'_, Line<Bytes>> {
        let way = match direction {
            Direction::AToB => &self.a_to_b,
            Direction::BToA => &self.b_to_a,
        };
        // The model does not panic; if it did, its packets would still be whole.
        way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timeout(&self) -> Instant {
        let there = self.way(Direction::AToB).poll_timeout();
        there.min(self.way(Direction::BToA).poll_timeout())
    }
}

struct Ends {
    near: UdpSocket,
    far: UdpSocket,
    a: Option<SocketAddr>,
    b: SocketAddr,
}

async fn run(line: Arc<Ways>, mut ends: Ends) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        tokio::select! {
            // An error here is the run-time's, not a packet's; the next turn tries again.
            _ = ends.near.readable() => ends.take_near(&line, &mut buffer),
            _ = ends.far.readable() => ends.take_far(&line, &mut buffer),
            () = line.clock.sleep_until(line.timeout()) => {}
            () = line.changed.notified() => {}
        }
        ends.send_due(&line).await;
    }
}

impl Ends {
    fn take_near(&mut self, line: &Ways, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            match self.near.try_recv_from(buffer) {
                Ok((bytes, from)) => {
                    self.a = Some(from);
                    take(line, Direction::AToB, &buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP answer to an earlier packet: A is gone for now.
                Err(_) => {}
            }
        }
    }

    fn take_far(&mut self, line: &Ways, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            match self.far.try_recv_from(buffer) {
                Ok((bytes, from)) if from == self.b => {
                    take(line, Direction::BToA, &buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Not from B, or an ICMP answer to an earlier packet.
                _ => {}
            }
        }
    }

    /// Sends the packets that are due.
    async fn send_due(&self, line: &Ways) {
        let now = line.clock.now();
        loop {
            let there = line.way(Direction::AToB).poll_packet(now);
            let back = line.way(Direction::BToA).poll_packet(now);
            if there.is_none() && back.is_none() {
                return;
            }
            if let Some(packet) = there {
                // A line cannot report that its end is gone.
                let _ = self.far.send_to(&packet, self.b).await;
            }
            if let (Some(packet), Some(a)) = (back, self.a) {
                let _ = self.near.send_to(&packet, a).await;
            }
        }
    }
}

fn take(line: &Ways, direction: Direction, payload: &[u8]) {
    let size = DataSize::from_bytes((payload.len() + HEADER_BYTES) as u64);
    let packet = Bytes::copy_from_slice(payload);
    let now = line.clock.now();
    line.way(direction).handle_packet(now, size, packet);
}
