//! One direction of a line, as arithmetic: what the simulator, the shaper and the testbed do to packets.
//!
//! *The idea.* A packet waits in a drop-tail queue, is put on the line bit by bit at the rate, may be lost there, and
//! comes out after the propagation delay:
//!
//! ```text
//! in ─► queue (bytes) ─► serialiser (bit/s) ─► loss ─► delay, jitter ─┬─► out
//!                                                                     └─► held back ─► out
//! ```
//!
//! Times are reckoned ideally, each packet from the end of the one before it, so a late caller catches up and nothing
//! drifts. A lost packet has taken its share of the rate: it was lost on the line, not before it. A change of rate
//! applies to the packet on the line too, for what is left of it. Jitter keeps the order, as a queue does that others
//! fill, and only what is held back is overtaken, unless the line is not `ordered`: then each packet is late by itself, as
//! where several ways are used at once or a radio repeats what it lost.
//!
//! *What it does not do.* It has no clock and no socket, duplicates nothing and corrupts nothing.
//!
//! *Sources.* The link model of ns-3 and mahimahi; Linux `sch_netem` for what can go wrong on a line.

mod loss;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};

use self::loss::Loss;
use crate::model::{Edge, Link};
use crate::random::SplitMix;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize, Ratio};

/// The least time for which a packet is held back, so that a line without delay reorders too.
const HOLD_MIN: Duration = Duration::from_millis(1);

/// What a direction of a line does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Bits a second, IP and UDP headers included; zero stops the line.
    pub rate: Bitrate,
    /// From the last bit sent to the last bit received.
    pub delay: Duration,
    /// Up to how much longer a packet takes, evenly distributed. It waits for the one before it: the order is kept, and
    /// where packets come closer than the jitter, most take more than half of it.
    pub jitter: Duration,
    /// Whether jitter keeps the order; if not, a packet waits for no other and comes as late as its own dice say.
    pub ordered: bool,
    /// The share of packets held back by `max(delay / 2, jitter, 1 ms)`, so that later ones overtake them.
    pub reorder: Ratio,
    /// The share of packets lost in the mean.
    pub loss: Ratio,
    /// How many packets a burst of losses lasts in the mean; 1, each is lost or not by itself.
    pub burst: f64,
    /// The share of packets lost inside a burst.
    pub burst_loss: Ratio,
    /// Room for packets that wait; one packet finds room in an empty queue, whatever its size.
    pub queue: DataSize,
    /// Whether it works: a line that is down loses all that is on it and all that is offered.
    pub up: bool,
}

/// What has passed a direction of a line; `offered` is the sum of the others and of [`Line::inside`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineCounters {
    /// Packets that were offered.
    pub offered: u64,
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes, IP and UDP headers included.
    pub bytes: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets lost because the line was down, or went down under them.
    pub cut: u64,
}

/// One direction of a line; `P` is whatever a packet is.
#[derive(Debug)]
pub struct Line<P> {
    impairment: Impairment,
    loss: Loss,
    random: SplitMix,
    waiting: VecDeque<Packet<P>>,
    waiting_size: DataSize,
    current: Option<Sending<P>>,
    /// On their way, by the time at which they come out and then by their number.
    flying: BTreeMap<(Instant, u64), Packet<P>>,
    /// Numbers what has left the line, so that two that come out at once do so in order.
    flown: u64,
    /// When the last one comes out that was not held back.
    last_arrival: Instant,
    counters: LineCounters,
}

#[derive(Debug)]
struct Packet<P> {
    size: DataSize,
    content: P,
}

/// The packet that is being sent.
#[derive(Debug)]
struct Sending<P> {
    packet: Packet<P>,
    /// Up to when `left` is reckoned.
    at: Instant,
    /// What is left of it in billionths of a bit: bits a second times nanoseconds, so that nothing is rounded.
    left: u128,
}

impl Default for Impairment {
    /// A stopped line without delay or loss, with the queue of a link that does not state one.
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
            queue: Edge::QUEUE_DEFAULT,
            up: true,
        }
    }
}

impl From<&Link> for Impairment {
    /// What a world says of a link, which is so in both directions.
    fn from(link: &Link) -> Self {
        Self {
            rate: link.rate,
            delay: link.delay,
            jitter: link.jitter,
            ordered: link.ordered,
            reorder: link.reorder,
            loss: link.loss,
            burst: link.burst,
            burst_loss: link.burst_loss,
            queue: link.queue,
            up: link.up,
        }
    }
}

impl<P> Line<P> {
    /// Lays a direction of a line; the seed determines which packets are lost, late or held back.
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        Self {
            loss: Loss::new(&impairment),
            impairment,
            random: SplitMix::new(seed),
            waiting: VecDeque::new(),
            waiting_size: DataSize::ZERO,
            current: None,
            flying: BTreeMap::new(),
            flown: 0,
            last_arrival: Instant::ZERO,
            counters: LineCounters::default(),
        }
    }

    /// Returns what the direction does to packets.
    pub fn impairment(&self) -> &Impairment {
        &self.impairment
    }

    /// Returns what has passed.
    pub fn counters(&self) -> LineCounters {
        self.counters
    }

    /// Returns how much waits to be put on the line.
    pub fn queued(&self) -> DataSize {
        self.waiting_size
    }

    /// Returns how many packets are in the queue, on the line and on their way.
    pub fn inside(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some()) + self.flying.len()
    }

    /// Changes what the direction does, from now on.
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
            self.counters.cut += self.inside() as u64;
            self.waiting.clear();
            self.waiting_size = DataSize::ZERO;
            self.current = None;
            self.flying.clear();
        }
    }

    /// Takes a packet in.
    pub fn handle_packet(&mut self, now: Instant, size: DataSize, content: P) {
        self.advance(now);
        self.counters.offered += 1;
        let packet = Packet { size, content };
        if !self.impairment.up {
            self.counters.cut += 1;
        } else if self.current.is_none() {
            self.current = Some(Sending::begin(now, packet));
        } else if self.waiting.is_empty() || self.waiting_size + size <= self.impairment.queue {
            self.waiting_size += size;
            self.waiting.push_back(packet);
        } else {
            self.counters.overflowed += 1;
        }
    }

    /// Gives out the next packet that has come through by now.
    pub fn poll_packet(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let next = self.flying.first_entry()?;
        if next.key().0 > now {
            return None;
        }
        let packet = next.remove();
        self.counters.packets += 1;
        self.counters.bytes += packet.size.as_bytes();
        Some(packet.content)
    }

    /// Says when something happens next; `NEVER` if nothing will.
    pub fn poll_timeout(&self) -> Instant {
        let done = self.done_at().unwrap_or(Instant::NEVER);
        let arrival = self.flying.first_key_value();
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

    /// Lets the line run up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(done) = self
            .done_at()
            .filter(|done| *done <= now && !done.is_never())
            && let Some(current) = self.current.take()
        {
            if let Some(next) = self.waiting.pop_front() {
                self.waiting_size = self.waiting_size.saturating_sub(next.size);
                self.current = Some(Sending::begin(done, next));
            }
            self.fly(done, current.packet);
        }
    }

    fn fly(&mut self, done: Instant, packet: Packet<P>) {
        if self.loss.takes_next(&mut self.random) {
            self.counters.lost += 1;
            return;
        }
        let Impairment { delay, jitter, .. } = self.impairment;
        let late = match jitter {
            Duration::ZERO => Duration::ZERO,
            longest => self.random.next_duration(longest),
        };
        let mut arrival = done + delay + late;
        if self.impairment.ordered {
            // Nothing overtakes by jitter, nor if the delay has just shrunk.
            arrival = arrival.max(self.last_arrival);
        }
        if self.impairment.reorder > Ratio::ZERO && self.random.next_bool(self.impairment.reorder) {
            let half = Duration::from_nanos(delay.as_nanos() / 2);
            arrival = arrival + half.max(jitter).max(HOLD_MIN);
        } else {
            self.last_arrival = arrival;
        }
        self.flown += 1;
        self.flying.insert((arrival, self.flown), packet);
    }
}

impl<P> Sending<P> {
    fn begin(at: Instant, packet: Packet<P>) -> Self {
        let left = u128::from(packet.size.as_bytes()) * 8 * 1_000_000_000;
        Self { packet, at, left }
    }
}

/// Returns what goes over a line between two times, in billionths of a bit.
fn sent(rate: Bitrate, since: Instant, until: Instant) -> u128 {
    u128::from(rate.as_bps()) * u128::from(until.saturating_since(since).as_nanos())
}
