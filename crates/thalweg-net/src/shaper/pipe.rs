//! One direction of a shaped line, as arithmetic.
//!
//! *The idea.* A packet waits in a drop-tail queue, is put on the line bit by bit at the rate, may be lost there, and
//! comes out one propagation delay later:
//!
//! ```text
//! in ─► queue (bytes) ─► serialiser (bit/s) ─► loss ─► delay line ─► out
//! ```
//!
//! Times are reckoned ideally, each packet from the end of the one before it, so a late caller catches up and nothing
//! drifts. A lost packet has taken its share of the rate: it was lost on the line, not before it. A change of rate
//! applies to the packet on the line too, for what is left of it.
//!
//! *What it does not do.* It has no clock and no socket, and never reorders.
//!
//! *Sources.* The link model of ns-3 and mahimahi.

use std::collections::VecDeque;

use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize, Ratio};

use crate::random::SplitMix;

/// What a direction of a line does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairment {
    /// Bits a second, IP and UDP headers included; zero stops the line.
    pub rate: Bitrate,
    /// From the last bit sent to the last bit received.
    pub delay: Duration,
    /// The chance of each packet to be lost.
    pub loss: Ratio,
    /// Room for packets that wait; one packet finds room in an empty queue, whatever its size.
    pub queue: DataSize,
}

/// What has passed a direction of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipeCounters {
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes, IP and UDP headers included.
    pub bytes: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
}

/// One direction of a line; `P` is whatever a packet is.
#[derive(Debug)]
pub(crate) struct Pipe<P> {
    impairment: Impairment,
    random: SplitMix,
    waiting: VecDeque<Packet<P>>,
    waiting_size: DataSize,
    on_line: Option<OnLine<P>>,
    /// On their way, with the time at which they come out.
    flying: VecDeque<(Instant, Packet<P>)>,
    counters: PipeCounters,
}

#[derive(Debug)]
struct Packet<P> {
    size: DataSize,
    content: P,
}

/// The packet that is being sent.
#[derive(Debug)]
struct OnLine<P> {
    packet: Packet<P>,
    /// Up to when `left` is reckoned.
    at: Instant,
    /// What is left of it in billionths of a bit: bits a second times nanoseconds, so that nothing is rounded.
    left: u128,
}

impl<P> Pipe<P> {
    pub(crate) fn new(impairment: Impairment, seed: u64) -> Self {
        Self {
            impairment,
            random: SplitMix::new(seed),
            waiting: VecDeque::new(),
            waiting_size: DataSize::ZERO,
            on_line: None,
            flying: VecDeque::new(),
            counters: PipeCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> PipeCounters {
        self.counters
    }

    /// Changes what the direction does, from now on.
    pub(crate) fn handle_change(&mut self, now: Instant, impairment: Impairment) {
        self.advance(now);
        let rate = self.impairment.rate;
        if let Some(on_line) = &mut self.on_line {
            on_line.left = on_line.left.saturating_sub(sent(rate, on_line.at, now));
            on_line.at = now;
        }
        self.impairment = impairment;
    }

    /// Takes a packet in.
    pub(crate) fn handle_packet(&mut self, now: Instant, size: DataSize, content: P) {
        self.advance(now);
        let packet = Packet { size, content };
        if self.on_line.is_none() {
            self.on_line = Some(OnLine::begin(now, packet));
        } else if self.waiting.is_empty() || self.waiting_size + size <= self.impairment.queue {
            self.waiting_size += size;
            self.waiting.push_back(packet);
        } else {
            self.counters.overflowed += 1;
        }
    }

    /// Gives out the next packet that has come through by now.
    pub(crate) fn poll_packet(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        self.flying.front().filter(|(arrival, _)| *arrival <= now)?;
        let (_, packet) = self.flying.pop_front()?;
        self.counters.packets += 1;
        self.counters.bytes += packet.size.as_bytes();
        Some(packet.content)
    }

    /// Says when something happens next; `NEVER` if nothing will.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let done = self.done_at().unwrap_or(Instant::NEVER);
        let arrival = self.flying.front().map_or(Instant::NEVER, |(at, _)| *at);
        done.min(arrival)
    }

    fn done_at(&self) -> Option<Instant> {
        let on_line = self.on_line.as_ref()?;
        let rate = u128::from(self.impairment.rate.as_bps());
        let nanos = match rate {
            0 => u64::MAX,
            _ => u64::try_from(on_line.left.div_ceil(rate)).unwrap_or(u64::MAX),
        };
        Some(on_line.at + Duration::from_nanos(nanos))
    }

    /// Lets the line run up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(done) = self
            .done_at()
            .filter(|done| *done <= now && !done.is_never())
            && let Some(on_line) = self.on_line.take()
        {
            if let Some(next) = self.waiting.pop_front() {
                self.waiting_size = self.waiting_size.saturating_sub(next.size);
                self.on_line = Some(OnLine::begin(done, next));
            }
            self.fly(done, on_line.packet);
        }
    }

    fn fly(&mut self, done: Instant, packet: Packet<P>) {
        if self.random.next_unit() < self.impairment.loss.as_f64() {
            self.counters.lost += 1;
            return;
        }
        // A line does not reorder, even if its delay has just shrunk.
        let last = self.flying.back().map_or(Instant::ZERO, |(at, _)| *at);
        let arrival = (done + self.impairment.delay).max(last);
        self.flying.push_back((arrival, packet));
    }
}

impl<P> OnLine<P> {
    fn begin(at: Instant, packet: Packet<P>) -> Self {
        let left = u128::from(packet.size.as_bytes()) * 8 * 1_000_000_000;
        Self { packet, at, left }
    }
}

/// Returns what goes over a line between two times, in billionths of a bit.
fn sent(rate: Bitrate, since: Instant, until: Instant) -> u128 {
    u128::from(rate.as_bps()) * u128::from(until.saturating_since(since).as_nanos())
}
