//! One direction of a line, as arithmetic: what the simulator, the shaper and the testbed do to packets.
//!
//! *The idea.* A packet waits in a drop-tail queue, is serialized onto the line at its rate, may be
//! lost there, and comes out after the propagation delay:
//!
//! ```text
//! in ─► queue (bytes) ─► serialiser (bit/s) ─► loss ─► delay, jitter ─┬─► out
//!                                                                     └─► held back ─► out
//! ```
//!
//! Times are ideal, each packet's counted from the end of the one before it, so a late caller
//! catches up and nothing drifts. A lost packet has used its share of the rate: it was lost on the
//! line, not before it. A change of rate applies to the packet on the line too, for what is left of
//! it. Jitter keeps the order, as a queue of other traffic does, and only packets that are held
//! back are overtaken, unless the line is not `ordered`. Then each packet is late by itself, as
//! over several paths at once or over a radio that retransmits.
//!
//! *What it does not do.* It has no clock and no socket, duplicates nothing and corrupts nothing.
//!
//! *Sources.* The link model of ns-3 and mahimahi; Linux `sch_netem` for what can go wrong on a line.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod loss;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};

use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};

use self::loss::Loss;

/// The queue of a line that states none.
pub const QUEUE_DEFAULT: DataSize = DataSize::from_kib(64);

/// Minimum time for which a packet is held back, so that a line without delay reorders too.
const HOLD_MIN: Duration = Duration::from_millis(1);

/// The properties of one direction of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Bits a second, including IP and UDP headers; zero stops the line.
    pub rate: Bitrate,
    /// From the last bit sent to the last bit received.
    pub delay: Duration,
    /// Most extra delay of a packet, evenly distributed. A packet waits for the one before it, so
    /// the order is kept; where packets come closer than the jitter, most take more than half of
    /// it.
    pub jitter: Duration,
    /// Whether jitter keeps the order; if not, each packet's delay is drawn independently.
    pub ordered: bool,
    /// The share of packets held back by `max(delay / 2, jitter, 1 ms)`, so that later ones
    /// overtake them.
    pub reorder: Ratio,
    /// The mean share of packets lost.
    pub loss: Ratio,
    /// The mean length of a burst of losses, in packets; at 1 packets are lost independently.
    pub burst: f64,
    /// The share of packets lost inside a burst.
    pub burst_loss: Ratio,
    /// Bytes that the queue holds; an empty queue takes one packet of any size.
    pub queue: DataSize,
    /// Whether the line is up: one that is down loses everything on it and everything offered.
    pub up: bool,
}

/// Counters of one direction; `offered` is the sum of the others and of [`Line::inside`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineCounters {
    /// Packets offered.
    pub offered: u64,
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes, IP and UDP headers included.
    pub bytes: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
    /// Packets lost because the line was or went down.
    pub cut: u64,
}

/// One direction of a line; `P` is the content of a packet.
#[derive(Debug)]
pub struct Line<P> {
    impairment: Impairment,
    loss: Loss,
    random: SplitMix,
    waiting: VecDeque<Packet<P>>,
    waiting_size: DataSize,
    current: Option<Serializing<P>>,
    /// Packets in propagation, by the time at which they come out and then by their number.
    propagating: BTreeMap<(Instant, u64), Packet<P>>,
    /// Numbers the packets that have left the line, so that two that come out at once keep their order.
    departed: u64,
    /// When the last packet comes out that was not held back.
    last_arrival: Instant,
    counters: LineCounters,
}

#[derive(Debug)]
struct Packet<P> {
    size: DataSize,
    content: P,
}

/// The packet being serialized.
#[derive(Debug)]
struct Serializing<P> {
    packet: Packet<P>,
    /// The time as of which `left` is counted.
    at: Instant,
    /// What is left of it in billionths of a bit: bits a second times nanoseconds, so that nothing
    /// is rounded.
    left: u128,
}

impl Default for Impairment {
    /// A stopped line without delay or loss, with the queue of a link that states none.
    fn default() -> Self {
        Self {
            rate: Bitrate::ZERO,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            ordered: true,
            reorder: Ratio::ZERO,
            loss: Ratio::ZERO,
            burst: 1.0,
            burst_loss: Ratio::ONE,
            queue: QUEUE_DEFAULT,
            up: true,
        }
    }
}

impl<P> Line<P> {
    /// Returns a direction of a line; the seed determines which packets are lost, late or held back.
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        Self {
            loss: Loss::new(&impairment),
            impairment,
            random: SplitMix::new(seed),
            waiting: VecDeque::new(),
            waiting_size: DataSize::ZERO,
            current: None,
            propagating: BTreeMap::new(),
            departed: 0,
            last_arrival: Instant::ZERO,
            counters: LineCounters::default(),
        }
    }

    /// Returns the properties of the direction.
    pub fn impairment(&self) -> &Impairment {
        &self.impairment
    }

    /// Returns the counters.
    pub fn counters(&self) -> LineCounters {
        self.counters
    }

    /// Returns how much is queued for the line.
    pub fn queued(&self) -> DataSize {
        self.waiting_size
    }

    /// Returns how many packets are queued, on the line or in propagation.
    pub fn inside(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some()) + self.propagating.len()
    }

    /// Changes the properties from now on.
    pub fn handle_change(&mut self, now: Instant, impairment: Impairment) {
        self.advance(now);
        let rate = self.impairment.rate;
        if let Some(current) = &mut self.current {
            current.left = current.left.saturating_sub(sent(rate, current.at, now));
            current.at = now;
        }
        self.impairment = impairment;
        self.loss.handle_change(&impairment);
        if !impairment.up {
            // Everything inside is lost: queued, on the line and in propagation.
            self.counters.cut += self.inside() as u64;
            self.waiting.clear();
            self.waiting_size = DataSize::ZERO;
            self.current = None;
            self.propagating.clear();
        }
    }

    /// Handles a packet that is offered.
    pub fn handle_packet(&mut self, now: Instant, size: DataSize, content: P) {
        self.advance(now);
        self.counters.offered += 1;
        let packet = Packet { size, content };
        if !self.impairment.up {
            self.counters.cut += 1;
        } else if self.current.is_none() {
            self.current = Some(Serializing::begin(now, packet));
        } else if self.waiting.is_empty() || self.waiting_size + size <= self.impairment.queue {
            self.waiting_size += size;
            self.waiting.push_back(packet);
        } else {
            self.counters.overflowed += 1;
        }
    }

    /// Returns the next packet that has come out by now.
    pub fn poll_packet(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let next = self.propagating.first_entry()?;
        if next.key().0 > now {
            return None;
        }
        let packet = next.remove();
        self.counters.packets += 1;
        self.counters.bytes += packet.size.as_bytes();
        Some(packet.content)
    }

    /// Returns when something happens next; `NEVER` if nothing will.
    pub fn poll_timeout(&self) -> Instant {
        let done = self.done_at().unwrap_or(Instant::NEVER);
        let arrival = self.propagating.first_key_value();
        done.min(arrival.map_or(Instant::NEVER, |((at, _), _)| *at))
    }

    fn done_at(&self) -> Option<Instant> {
        let current = self.current.as_ref()?;
        let rate = u128::from(self.impairment.rate.as_bps());
        let nanos = match rate {
            0 => u64::MAX,
            _ => u64::try_from(current.left.div_ceil(rate)).unwrap_or(u64::MAX),
        };
        Some(current.at + Duration::from_nanos(nanos))
    }

    /// Runs the line up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(done) = self
            .done_at()
            .filter(|done| *done <= now && !done.is_never())
            && let Some(current) = self.current.take()
        {
            if let Some(next) = self.waiting.pop_front() {
                self.waiting_size = self.waiting_size.saturating_sub(next.size);
                self.current = Some(Serializing::begin(done, next));
            }
            self.depart(done, current.packet);
        }
    }

    fn depart(&mut self, done: Instant, packet: Packet<P>) {
        if self.loss.loses_next(&mut self.random) {
            self.counters.lost += 1;
            return;
        }
        let Impairment { delay, jitter, .. } = self.impairment;
        // Without jitter no random number is drawn, so that seeds give the same losses with and
        // without it.
        let late = match jitter {
            Duration::ZERO => Duration::ZERO,
            longest => self.random.next_duration(longest),
        };
        let mut arrival = done + delay + late;
        if self.impairment.ordered {
            // No packet overtakes by jitter, or because the delay has just shrunk.
            arrival = arrival.max(self.last_arrival);
        }
        if self.impairment.reorder > Ratio::ZERO && self.random.next_bool(self.impairment.reorder) {
            // Held back, and excluded from the order: later packets do not wait for it.
            let half = Duration::from_nanos(delay.as_nanos() / 2);
            arrival = arrival + half.max(jitter).max(HOLD_MIN);
        } else {
            self.last_arrival = arrival;
        }
        self.departed += 1;
        self.propagating.insert((arrival, self.departed), packet);
    }
}

impl<P> Serializing<P> {
    fn begin(at: Instant, packet: Packet<P>) -> Self {
        let left = u128::from(packet.size.as_bytes()) * 8 * 1_000_000_000;
        Self { packet, at, left }
    }
}

/// Returns how much crosses a line between two times, in billionths of a bit.
fn sent(rate: Bitrate, since: Instant, until: Instant) -> u128 {
    u128::from(rate.as_bps()) * u128::from(until.saturating_since(since).as_nanos())
}
