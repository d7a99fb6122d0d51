//! The packets in flight, and the delivery rate that each acknowledgement shows.
//!
//! *The idea.* A packet remembers how much had been delivered when it was sent. When it is
//! acknowledged, the bytes delivered since, over the longer of the times in which those were sent
//! and acknowledged, are a sample of the delivery rate. Neither a burst of packets nor one of
//! acknowledgements makes it too large. A sample is app-limited if the application had nothing to
//! send meanwhile: it measures the application, and not the path.
//!
//! A round trip ends when a packet is acknowledged that was sent after the round trip began.
//!
//! A transport may stamp an acknowledgement too early, where it takes the time and then waits for
//! the processor before it reads. The next sample corrects a round trip that is too long, but one
//! that is too short would be the minimum for good. So a sample also has an upper bound of the
//! round trip, by the clock when the acknowledgement was processed.
//!
//! *What it does not do.* It detects no losses: the transport does.
//!
//! *Sources.* draft-cheng-iccrg-delivery-rate-estimation; draft-ietf-ccwg-bbr §4.1.

use alloc::collections::VecDeque;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::order::Order;

/// Most packets remembered: 1 Gbit/s over 190 ms. Older ones are acknowledged without a sample.
pub(super) const PACKETS_MAX: usize = 1 << 14;

/// A packet this far behind the newest acknowledged one is forgotten: QUIC declares it lost much
/// earlier, but reports no loss of MTU probes.
const STALE_PACKETS: u64 = 1 << 12;

/// What one batch of acknowledgements shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// When the newest packet of the batch was sent.
    pub(super) sent: Instant,
    /// The size of that packet.
    pub(super) size: DataSize,
    /// Its round trip, by the time that the transport gave.
    pub(super) rtt: Duration,
    /// The upper bound of its round trip, by the clock.
    pub(super) rtt_max: Duration,
    /// The bytes that the batch acknowledged.
    pub(super) acked: DataSize,
    /// The delivery rate, if enough time passed to measure one.
    pub(super) rate: Option<Bitrate>,
    /// Whether the sender was app-limited when the packet was sent.
    pub(super) app_limited: bool,
    /// Whether a round trip has ended.
    pub(super) ends_round: bool,
}

/// The packets in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct SentPackets {
    packets: VecDeque<Packet>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    in_flight: u64,
    /// Samples are app-limited up to this count of delivered bytes; zero if none is.
    app_limited_until: u64,
    round_until: u64,
    batch: Option<Batch>,
    order: Order,
    /// The latest time given.
    clock: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    app_limited: bool,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    acked: u64,
    sent: Instant,
    size: u64,
    newest: Option<Packet>,
}

impl SentPackets {
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns how late packets arrived recently for reasons other than a queue.
    pub(super) fn late(&self) -> Duration {
        self.order.late()
    }

    /// Handles a packet that was sent.
    pub(super) fn handle_sent(&mut self, now: Instant, number: u64, size: DataSize) {
        let size = size.as_bytes();
        if self.in_flight == 0 {
            // After idling, the send and delivery intervals of the next sample start now.
            self.first_sent = now;
            self.delivered_at = now;
        }
        // Packet numbers start over with each of QUIC's packet number spaces; older entries are
        // then useless.
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
            app_limited: self.app_limited_until > self.delivered,
            is_done: false,
        });
        self.in_flight = self.in_flight.saturating_add(size);
    }

    /// Handles the acknowledgement of a packet; an unknown packet counts as delivered.
    pub(super) fn handle_ack(&mut self, now: Instant, number: u64, sent: Instant, size: DataSize) {
        let size = size.as_bytes();
        self.delivered = self.delivered.saturating_add(size);
        self.delivered_at = now;
        self.in_flight = self.in_flight.saturating_sub(size);
        // A number may be from another packet number space: only the same send time identifies the
        // packet.
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
        self.drop_done(number);
    }

    /// Handles a packet that was declared lost.
    pub(super) fn handle_lost(&mut self, number: u64, size: DataSize) {
        self.in_flight = self.in_flight.saturating_sub(size.as_bytes());
        self.take(number);
        self.order.handle_lost(number);
    }

    /// Handles that all packets declared lost have arrived after all. The transport does not say
    /// when, but it was not before the last packet was sent or acknowledged.
    pub(super) fn handle_spurious(&mut self) {
        let last_sent = self.packets.back().map(|packet| packet.sent);
        let known = last_sent.map_or(self.delivered_at, |sent| sent.max(self.delivered_at));
        self.order.handle_spurious(known);
    }

    /// Handles the current time.
    pub(super) fn handle_clock(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
    }

    /// Handles the transport's count of bytes in flight, which wins where it differs.
    pub(super) fn handle_in_flight(&mut self, in_flight: DataSize) {
        self.in_flight = in_flight.as_bytes();
    }

    /// Handles that the application has nothing to send: samples of what is in flight are app-limited.
    pub(super) fn handle_app_limited(&mut self) {
        self.app_limited_until = self.delivered.saturating_add(self.in_flight.max(1));
    }

    /// Ends a batch of acknowledgements and returns its sample; `None` if nothing was acknowledged.
    pub(super) fn end_batch(&mut self, now: Instant) -> Option<Sample> {
        let batch = self.batch.take()?;
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let mut sample = Sample {
            sent: batch.sent,
            size: DataSize::from_bytes(batch.size),
            rtt: now.saturating_since(batch.sent),
            rtt_max: self.clock.max(now).saturating_since(batch.sent),
            acked: DataSize::from_bytes(batch.acked),
            rate: None,
            app_limited: true,
            ends_round: false,
        };
        // Only packets older than the record were acknowledged: they give a round trip but no rate.
        let Some(newest) = batch.newest else {
            return Some(sample);
        };
        sample.app_limited = newest.app_limited;
        self.order.handle_newest(now, newest.number);
        // The packet was sent after the last round ended, so a round trip has passed since.
        if newest.delivered >= self.round_until {
            self.round_until = self.delivered;
            self.order.handle_round();
            sample.ends_round = true;
        }
        self.first_sent = newest.sent;
        let send_time = newest.sent.saturating_since(newest.first_sent);
        let ack_time = now.saturating_since(newest.delivered_at);
        // The longer interval: a burst of packets or of acknowledgements would inflate the rate by
        // the shorter one.
        let time = send_time.max(ack_time);
        if time > Duration::ZERO {
            let delivered = DataSize::from_bytes(self.delivered.saturating_sub(newest.delivered));
            sample.rate = Some(delivered / time);
        }
        Some(sample)
    }

    /// Marks a packet as done and returns it, unless it is unknown or already done.
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

    /// Drops packets that are done or stale.
    fn drop_done(&mut self, acked: u64) {
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
