//! Which ADUs can be in time, and which are worth finishing.
//!
//! *The idea.* Half an ADU is worth nothing. On a full line the earliest deadline is always about
//! to pass, so a sender of the earliest first begins one after the other and finishes few. So among
//! ADUs of equal importance
//!
//! 1. one that is not begun, and would be late at its flow's share of the rate, is postponed behind
//!    those that would be in time. It is not dropped: the share may grow, and then it goes;
//! 2. one that is begun is finished before one that is due sooner, if it would be late otherwise
//!    and is in time so.
//!
//! ```text
//! time to send = first chunk / rate + rest / share        share = rate · weight / weights of all that send
//! ```
//!
//! A more important ADU overtakes in any case, and no ADU is postponed behind a less important one.
//!
//! *What it does not do.* It looks neither ahead to what may come, nor at the sizes of what is
//! queued behind: it does not seek the largest set of ADUs that can be in time.
//!
//! *Sources.* Moore, "An n job, one machine sequencing algorithm for minimizing the number of late
//! jobs", Management Science 15, 1968, for postponing what would be late rather than what is next.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::slab::Slot;
use super::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_BYTES_UNKNOWN, CHUNK_OVERHEAD_BYTES, CHUNK_TIME,
};

/// Most bytes of a packet that are not payload: 13 of header, 15 of frame, 16 of AEAD tag, and a
/// frame's own header.
const PACKET_OVERHEAD_BYTES: u64 = 48;

/// What the path is expected to carry, and in what pieces.
#[derive(Debug)]
pub(super) struct Promise {
    rate: Option<Bitrate>,
    /// How long a chunk occupies the path.
    chunk_time: Duration,
    ceiling: Option<Bitrate>,
    transit: Duration,
    chunk_bytes: u32,
    /// The payload of a packet.
    chunk_least: u32,
}

impl Promise {
    /// Of a path of which nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        rate: None,
        chunk_time: Duration::ZERO,
        ceiling: None,
        transit: Duration::ZERO,
        chunk_bytes: CHUNK_BYTES_UNKNOWN,
        chunk_least: CHUNK_BYTES_MIN,
    };

    pub(super) fn set_packet(&mut self, packet: DataSize) {
        let carried = packet.as_bytes().saturating_sub(PACKET_OVERHEAD_BYTES);
        self.chunk_least = carried.clamp(CHUNK_BYTES_MIN.into(), CHUNK_BYTES_MAX.into()) as u32;
    }

    pub(super) fn set_rate(&mut self, rate: Option<Bitrate>) {
        self.rate = rate;
        self.chunk_bytes = rate.map_or(CHUNK_BYTES_UNKNOWN, |rate| {
            let bytes = (rate * CHUNK_TIME).as_bytes();
            bytes.clamp(self.chunk_least.into(), CHUNK_BYTES_MAX.into()) as u32
        });
        let chunk = DataSize::from_bytes(u64::from(self.chunk_bytes + CHUNK_OVERHEAD_BYTES));
        self.chunk_time = rate.map_or(Duration::ZERO, |rate| rate.time_for(chunk));
    }

    pub(super) fn set_ceiling(&mut self, ceiling: Option<Bitrate>) {
        self.ceiling = ceiling;
    }

    pub(super) fn set_transit(&mut self, transit: Duration) {
        self.transit = transit;
    }

    /// Sets the rate alone, as if chunks had another reason for their size.
    #[cfg(test)]
    pub(super) fn set_rate_alone(&mut self, rate: Option<Bitrate>) {
        self.rate = rate;
    }

    pub(super) const fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Returns what the path carries at most before a deadline; `None` if that is not known, or
    /// there is no deadline.
    pub(super) fn carried_until(&self, deadline: Instant, now: Instant) -> Option<DataSize> {
        let ceiling = self.ceiling.filter(|_| !deadline.is_never())?;
        Some(ceiling * deadline.saturating_since(now))
    }

    /// Returns when the last byte of an ADU must leave to be in time.
    pub(super) fn send_by(&self, now: Instant, deadline: Instant) -> Instant {
        if deadline.is_never() {
            return deadline;
        }
        // The transit time is half a round trip; an asymmetric path may have less in this direction.
        let quarter = Duration::from_nanos(deadline.saturating_since(now).as_nanos() / 4);
        deadline - self.transit.min(quarter)
    }

    /// Returns whether an ADU would be late even if all of it went now, and nothing else.
    pub(super) fn is_too_late(&self, now: Instant, slot: &Slot) -> bool {
        if slot.send_by.is_never() {
            return false;
        }
        let left = DataSize::from_bytes((slot.bytes - slot.sent).into());
        let time = slot.send_by.saturating_since(now);
        now > slot.send_by || self.ceiling.is_some_and(|ceiling| ceiling * time < left)
    }

    /// Returns whether an ADU has no deadline, or goes in one chunk now. Most do: it costs no
    /// division.
    pub(super) fn has_time(&self, now: Instant, slot: &Slot) -> bool {
        // Such an ADU needs no later turn, so only its own serialization delay counts.
        let is_one_chunk = slot.bytes <= self.chunk_bytes;
        slot.send_by.is_never() || (is_one_chunk && now + self.chunk_time <= slot.send_by)
    }

    /// Returns whether an ADU would be late at its flow's share of the rate; not if that is unknown.
    pub(super) fn is_late(
        &self,
        now: Instant,
        slot: &Slot,
        share: impl Fn(Bitrate) -> Bitrate,
    ) -> bool {
        let is_late = |rate| now + self.time_to_send(slot, rate, share(rate)) > slot.send_by;
        self.rate.is_some_and(is_late)
    }

    /// Returns whether an ADU that was begun is in time now, and late after a turn of another one of
    /// its flow; not if the rate is unknown.
    pub(super) fn is_urgent(
        &self,
        now: Instant,
        [slot, other]: [&Slot; 2],
        share: impl Fn(Bitrate) -> Bitrate,
    ) -> bool {
        let Some(rate) = self.rate else {
            return false;
        };
        let share = share(rate);
        let through = now + self.time_to_send(slot, rate, share);
        through <= slot.send_by && through + self.time_to_send(other, rate, share) > slot.send_by
    }

    /// Returns how long the rest of an ADU takes while all flows in turn send.
    fn time_to_send(&self, slot: &Slot, rate: Bitrate, share: Bitrate) -> Duration {
        let left = slot.bytes - slot.sent;
        let chunk = left.min(self.chunk_bytes);
        let size = |bytes: u32| DataSize::from_bytes(bytes.into());
        rate.time_for(size(chunk + CHUNK_OVERHEAD_BYTES)) + share.time_for(size(left - chunk))
    }
}
