//! What was sent and when, so that an acknowledgement says how fast the path delivers.
//!
//! *The idea.* A packet remembers how much had been delivered when it left. When it is acknowledged, what was delivered
//! since then, over the longer of the two times in which that was sent and acknowledged, is a sample of the delivery
//! rate; neither a burst of packets nor one of acknowledgements makes it too large. A sample that was taken while the
//! application had nothing to send is marked: it says what the application sent and not what the path carries.
//!
//! A round trip ends when a packet is acknowledged that was sent after the round trip began.
//!
//! An acknowledgement may be told with a moment before it came, where the transport asks for the time and then waits for the
//! processor before it reads. Too long a round trip is forgotten with the next; one that is too short would be the shortest for
//! good. So a sample says also what the round trip is at most, by when the acknowledgement was worked on.
//!
//! *What it does not do.* It finds no losses: the transport does.
//!
//! *Sources.* draft-cheng-iccrg-delivery-rate-estimation; draft-ietf-ccwg-bbr §4.1.

use alloc::collections::VecDeque;

use super::order::Order;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// Packets that are remembered: 1 Gbit/s over 190 ms. Older ones are acknowledged without a sample.
pub(super) const PACKETS_MAX: usize = 1 << 14;

/// Packets behind the newest acknowledged one after which nothing more is heard of a packet: QUIC gives up much earlier,
/// but says nothing of probes for the MTU.
const STALE_PACKETS: u64 = 1 << 12;

/// What one batch of acknowledgements says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// When the newest packet of the batch was sent.
    pub(super) sent: Instant,
    /// How large that is.
    pub(super) size: DataSize,
    /// How long its acknowledgement took, as it is told.
    pub(super) rtt: Duration,
    /// How long it took at most, by the clock.
    pub(super) rtt_most: Duration,
    /// What was acknowledged.
    pub(super) acked: DataSize,
    /// The delivery rate, if enough time passed to say one.
    pub(super) rate: Option<Bitrate>,
    /// Whether the application sent less than it might have.
    pub(super) is_short: bool,
    /// Whether a round trip has ended.
    pub(super) ends_round: bool,
}

/// The packets on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    packets: VecDeque<Packet>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    in_flight: u64,
    /// Up to which delivered byte samples are the application's.
    short_until: u64,
    round_until: u64,
    batch: Option<Batch>,
    order: Order,
    /// The latest time that was told.
    clock: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    is_short: bool,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    acked: u64,
    sent: Instant,
    size: u64,
    newest: Option<Packet>,
}

impl Ledger {
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns by how much packets came late of late without a queue.
    pub(super) fn late(&self) -> Duration {
        self.order.late()
    }

    /// Takes in a packet that leaves.
    pub(super) fn handle_sent(&mut self, now: Instant, number: u64, size: DataSize) {
        let size = size.as_bytes();
        if self.in_flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        // Packet numbers begin again with each of QUIC's spaces; then what is remembered is of no use.
        if self
            .packets
            .back()
            .is_some_and(|last| last.number >= number)
        {
            self.packets.clear();
            self.order.forget_numbers();
        }
        if self.packets.len() >= PACKETS_MAX {
            self.packets.pop_front();
        }
        self.packets.push_back(Packet {
            number,
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_short: self.short_until > self.delivered,
            is_done: false,
        });
        self.in_flight = self.in_flight.saturating_add(size);
    }

    /// Takes in the acknowledgement of a packet; those that are not known count as delivered.
    pub(super) fn handle_ack(&mut self, now: Instant, number: u64, sent: Instant, size: DataSize) {
        let size = size.as_bytes();
        self.delivered = self.delivered.saturating_add(size);
        self.delivered_at = now;
        self.in_flight = self.in_flight.saturating_sub(size);
        let packet = self.take(number).filter(|packet| packet.sent == sent);
        let batch = self.batch.get_or_insert(Batch {
            acked: 0,
            sent,
            size,
            newest: None,
        });
        batch.acked = batch.acked.saturating_add(size);
        if sent >= batch.sent {
            (batch.sent, batch.size) = (sent, size);
        }
        if let Some(packet) = packet {
            self.order.handle_ack(now, number);
            if batch
                .newest
                .is_none_or(|newest| newest.number < packet.number)
            {
                batch.newest = Some(packet);
            }
        }
        self.forget(number);
    }

    /// Takes in that a packet was lost.
    pub(super) fn handle_lost(&mut self, number: u64, size: DataSize) {
        self.in_flight = self.in_flight.saturating_sub(size.as_bytes());
        self.take(number);
        self.order.handle_lost(number);
    }

    /// Takes in that all packets that were given up have come after all. When the last of them came the
    /// transport does not say: not before the last packet that was sent or acknowledged.
    pub(super) fn handle_spurious(&mut self) {
        let last_sent = self.packets.back().map(|packet| packet.sent);
        let known = last_sent.map_or(self.delivered_at, |sent| sent.max(self.delivered_at));
        self.order.handle_spurious(known);
    }

    /// Takes in what time it is.
    pub(super) fn handle_clock(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
    }

    /// Takes in what the transport says is on its way, which is right where it differs.
    pub(super) fn handle_in_flight(&mut self, in_flight: DataSize) {
        self.in_flight = in_flight.as_bytes();
    }

    /// Takes in that the application has nothing to send: what is on its way, and what follows it, measures that.
    pub(super) fn handle_short(&mut self) {
        self.short_until = self.delivered.saturating_add(self.in_flight.max(1));
    }

    /// Ends a batch of acknowledgements and returns what it says; nothing if nothing was acknowledged.
    pub(super) fn end_batch(&mut self, now: Instant) -> Option<Sample> {
        let batch = self.batch.take()?;
        if self.short_until != 0 && self.delivered > self.short_until {
            self.short_until = 0;
        }
        let mut sample = Sample {
            sent: batch.sent,
            size: DataSize::from_bytes(batch.size),
            rtt: now.saturating_since(batch.sent),
            rtt_most: self.clock.max(now).saturating_since(batch.sent),
            acked: DataSize::from_bytes(batch.acked),
            rate: None,
            is_short: true,
            ends_round: false,
        };
        let Some(newest) = batch.newest else {
            return Some(sample);
        };
        sample.is_short = newest.is_short;
        self.order.handle_newest(now, newest.number);
        if newest.delivered >= self.round_until {
            self.round_until = self.delivered;
            self.order.handle_round();
            sample.ends_round = true;
        }
        self.first_sent = newest.sent;
        let send_time = newest.sent.saturating_since(newest.first_sent);
        let ack_time = now.saturating_since(newest.delivered_at);
        let time = send_time.max(ack_time);
        if time > Duration::ZERO {
            let delivered = DataSize::from_bytes(self.delivered.saturating_sub(newest.delivered));
            sample.rate = Some(delivered / time);
        }
        Some(sample)
    }

    /// Marks a packet as done and returns it, unless it is unknown or was done already.
    fn take(&mut self, number: u64) -> Option<Packet> {
        let at = self
            .packets
            .binary_search_by_key(&number, |packet| packet.number)
            .ok()?;
        let packet = &mut self.packets[at];
        if packet.is_done {
            return None;
        }
        packet.is_done = true;
        Some(*packet)
    }

    /// Drops what is done or stale.
    fn forget(&mut self, acked: u64) {
        while let Some(first) = self.packets.front()
            && (first.is_done || first.number.saturating_add(STALE_PACKETS) < acked)
        {
            self.packets.pop_front();
        }
    }

    /// Returns how many packets are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
}
