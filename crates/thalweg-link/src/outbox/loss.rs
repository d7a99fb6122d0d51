//! Drops, with their dependants.
//!
//! *The idea.* A dropped ADU joins the list of drops. That list is worked through from there, and
//! each ADU appends its dependants. So a chain of any length needs neither recursion nor memory.
//!
//! *What it does not do.* It does not judge: the cause is given.

use alloc::vec::Vec;

use thalweg_base::event::DropCause;

use super::slab::{Slot, State};
use super::{NONE, Outbox};

impl Outbox {
    pub(super) fn drop_where(&mut self, cause: DropCause, is_meant: impl Fn(&Slot) -> bool) {
        let meant: Vec<u32> = self
            .slab
            .live()
            .filter(|index| is_meant(&self.slab[*index]))
            .collect();
        for index in meant {
            self.discard(index, cause);
        }
    }

    pub(super) fn drop_with_dependants(&mut self, index: u32, cause: DropCause) {
        let before = self.slab.dropped_last();
        self.discard(index, cause);
        self.drop_dependants(self.slab.dropped_after(before));
    }

    /// Marks a sequence as lost, and drops its dependants.
    pub(super) fn mark_lost(&mut self, flow: u32, sequence: u64) {
        if self.families.has_adu(flow, sequence) {
            return;
        }
        self.flows[flow].lost.add(sequence);
        let before = self.slab.dropped_last();
        self.discard_children(flow, sequence);
        self.drop_dependants(self.slab.dropped_after(before));
    }

    /// Drops the dependants of the ADUs from here to the end of the list of drops, which grows
    /// meanwhile.
    fn drop_dependants(&mut self, mut from: u32) {
        // A work list instead of a recursion: dependants are appended to the list that is being walked.
        while from != NONE {
            let slot = &self.slab[from];
            if matches!(slot.state, State::Dropped { is_lost: true, .. }) {
                self.discard_children(slot.flow, slot.sequence);
            }
            from = self.slab.dropped_after(from);
        }
    }

    fn discard_children(&mut self, flow: u32, sequence: u64) {
        loop {
            let child = self.families.first_child(flow, sequence);
            if child == NONE {
                return;
            }
            self.discard(child, DropCause::Dependant);
        }
    }

    fn discard(&mut self, index: u32, cause: DropCause) {
        let slot = &mut self.slab[index];
        // Before the state changes: what counts depends on it.
        let lost = &mut self.flows[slot.flow].lost;
        self.crowd.count_dropped(slot, lost, cause);
        let (flow_index, sequence, bytes) = (slot.flow, slot.sequence, u64::from(slot.bytes));
        let was_queued = slot.state == State::Queued;
        // An ADU handed over whole may have arrived.
        let is_lost = was_queued && slot.is_known;
        if is_lost {
            self.flows[flow_index].lost.add(sequence);
        }
        if was_queued {
            let flow = &mut self.flows[flow_index];
            flow.queue.remove(&mut self.slab, index);
            flow.bytes -= bytes;
            self.queued_bytes -= bytes;
            // It may have blocked those behind it.
            self.flows
                .join(flow_index, &self.slab, self.promise.chunk_bytes());
        }
        self.forget(index);
        self.slab[index].state = State::Dropped { cause, is_lost };
        self.slab.append_dropped(index);
        self.drops.add(cause);
    }

    /// Removes an ADU that has left its queue from everything else.
    pub(super) fn forget(&mut self, index: u32) {
        self.live -= 1;
        self.deadlines.clear(&mut self.slab, index);
        let slot = &self.slab[index];
        let (flow, sequence, base, is_known) = (slot.flow, slot.sequence, slot.base, slot.is_known);
        if is_known {
            self.families.remove_adu(flow, sequence);
        }
        if let Some(base) = base {
            self.families
                .remove_child(&mut self.slab, flow, base, index);
        }
    }
}
