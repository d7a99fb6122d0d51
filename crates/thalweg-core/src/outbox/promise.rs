//! What can be through in time, and what is worth finishing.
//!
//! *The idea.* Half an ADU is worth nothing. On a full line the earliest deadline is always about to pass, so whoever sends
//! that first begins one after the other and finishes few. So among equals in importance
//!
//! 1. what was not begun, and would not be through in time at its flow's share of the rate, is put off behind those that
//!    would be. It is not given up: the share may grow, and then it goes;
//! 2. what was begun is finished before what is due sooner, if it would be late otherwise and is in time so.
//!
//! ```text
//! time to be through = first chunk / rate + rest / share        share = rate · weight / weights of all that send
//! ```
//!
//! What is more important overtakes in any case, and of several importances nothing is put off behind a lesser one.
//!
//! *What it does not do.* It does not look ahead to what comes, and not at the sizes of what waits behind: of sets of ADUs
//! that can be through, it does not seek the largest.
//!
//! *Sources.* Moore, "An n job, one machine sequencing algorithm for minimizing the number of late jobs", Management Science
//! 15, 1968, for giving up what would be late rather than what is next.

use super::slab::{Slot, State};
use super::{CHUNK_OVERHEAD_BYTES, Outbox};
use crate::needs::Order;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

impl Outbox {
    /// Returns whether an ADU would be late even if all of it went now, and nothing else.
    pub(super) fn is_hopeless(&self, now: Instant, index: u32) -> bool {
        let slot = &self.slab[index];
        if slot.send_by.is_never() {
            return false;
        }
        let left = DataSize::from_bytes((slot.bytes - slot.sent).into());
        let time = slot.send_by.saturating_since(now);
        now > slot.send_by || self.ceiling.is_some_and(|ceiling| ceiling * time < left)
    }

    /// Puts an ADU off that is about to be begun and would not be through in time; returns whether it did.
    ///
    /// Cost    O(log n), once in an ADU's life
    pub(super) fn puts_off(&mut self, now: Instant, flow: u32, index: u32) -> bool {
        let slot = &self.slab[index];
        let is_short = slot.bytes <= self.chunk_bytes;
        if slot.begun || slot.is_doubtful || slot.send_by.is_never() {
            return false;
        }
        // Most have time enough, and cost no division.
        if is_short && now + self.chunk_time <= slot.send_by {
            return false;
        }
        let queue = &self.flows[flow as usize].queue;
        if queue.order() == Order::Sequence || queue.len() == 1 {
            return false;
        }
        let Some(rate) = self.rate else {
            return false;
        };
        if now + self.time_through(flow, slot, rate) <= slot.send_by {
            return false;
        }
        let queue = &mut self.flows[flow as usize].queue;
        queue.take(&mut self.slab, index);
        self.slab[index].is_doubtful = true;
        self.stamp += 1;
        queue.insert(&mut self.slab, index, self.stamp);
        true
    }

    /// Returns the ADU of a flow to send from: the first, or the one begun before it that would be late otherwise.
    pub(super) fn preferred(&self, now: Instant, flow: u32, first: u32) -> u32 {
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
        let through = now + self.time_through(flow, slot, rate);
        let is_pressed = through + self.time_through(flow, other, rate) > slot.send_by;
        if through <= slot.send_by && is_pressed {
            begun
        } else {
            first
        }
    }

    /// Returns how long the rest of an ADU takes beside all that send.
    fn time_through(&self, flow: u32, slot: &Slot, rate: Bitrate) -> Duration {
        let left = slot.bytes - slot.sent;
        let chunk = left.min(self.chunk_bytes);
        let share = self.turns.share(&self.flows[flow as usize], rate);
        let size = |bytes: u32| DataSize::from_bytes(bytes.into());
        rate.time_for(size(chunk + CHUNK_OVERHEAD_BYTES)) + share.time_for(size(left - chunk))
    }
}
