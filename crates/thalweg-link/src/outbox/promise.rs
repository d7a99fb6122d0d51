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

use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::slab::{Slot, State};
use super::{CHUNK_OVERHEAD_BYTES, Outbox};

impl Outbox {
    /// Returns whether an ADU would be late even if all of it went now, and nothing else.
    pub(super) fn is_too_late(&self, now: Instant, index: u32) -> bool {
        let slot = &self.slab[index];
        if slot.send_by.is_never() {
            return false;
        }
        let left = DataSize::from_bytes((slot.bytes - slot.sent).into());
        let time = slot.send_by.saturating_since(now);
        now > slot.send_by || self.ceiling.is_some_and(|ceiling| ceiling * time < left)
    }

    /// Postpones an ADU that is about to be begun and would be late; returns whether it did.
    ///
    /// Cost    O(log n), once in an ADU's life
    pub(super) fn postpones(&mut self, now: Instant, flow: u32, index: u32) -> bool {
        let slot = &self.slab[index];
        // Such an ADU needs no later turn, so only its own serialization delay counts.
        let is_one_chunk = slot.bytes <= self.chunk_bytes;
        if slot.begun || slot.is_postponed || slot.send_by.is_never() {
            return false;
        }
        // Most ADUs have time enough, and cost no division.
        if is_one_chunk && now + self.chunk_time <= slot.send_by {
            return false;
        }
        let queue = &self.flows[flow as usize].queue;
        // Nothing could go before it.
        if queue.order() == Order::Sequence || queue.len() == 1 {
            return false;
        }
        let Some(rate) = self.rate else {
            return false;
        };
        if now + self.time_to_send(flow, slot, rate) <= slot.send_by {
            return false;
        }
        let queue = &mut self.flows[flow as usize].queue;
        queue.take(&mut self.slab, index);
        // The flag is part of the sort key: the ADU is inserted again behind its equals.
        self.slab[index].is_postponed = true;
        self.version += 1;
        queue.insert(&mut self.slab, index, self.version);
        true
    }

    /// Returns the ADU of a flow to send from: the first, or the one begun before it that would be
    /// late otherwise.
    pub(super) fn choose(&self, now: Instant, flow: u32, first: u32) -> u32 {
        let begun = self.flows[flow as usize].begun;
        let begun = begun.and_then(|begun| self.slab.find(begun));
        let (Some(begun), Some(rate)) = (begun.filter(|begun| *begun != first), self.rate) else {
            return first;
        };
        let (slot, other) = (&self.slab[begun], &self.slab[first]);
        let could_go = slot.state == State::Queued && slot.sendable().is_some();
        let is_by_importance = self.flows[flow as usize].queue.order() == Order::Importance;
        if !could_go || !is_by_importance || slot.importance != other.importance {
            return first;
        }
        let through = now + self.time_to_send(flow, slot, rate);
        let is_urgent = through + self.time_to_send(flow, other, rate) > slot.send_by;
        // It would be in time now, and late after a turn of the other.
        if through <= slot.send_by && is_urgent {
            begun
        } else {
            first
        }
    }

    /// Returns how long the rest of an ADU takes while all flows in turn send.
    fn time_to_send(&self, flow: u32, slot: &Slot, rate: Bitrate) -> Duration {
        let left = slot.bytes - slot.sent;
        let chunk = left.min(self.chunk_bytes);
        let share = self.turns.share(&self.flows[flow as usize], rate);
        let size = |bytes: u32| DataSize::from_bytes(bytes.into());
        rate.time_for(size(chunk + CHUNK_OVERHEAD_BYTES)) + share.time_for(size(left - chunk))
    }
}
