//! Admission: which ADUs are accepted, and which make room.
//!
//! *The idea.* A useless ADU is refused at once, with the reason: its producer can still react. At
//! a bound, the flow that holds most for its weight makes room, so no flow can crowd out another:
//! the ADU that it would send last is dropped, if its value is below the new one's.
//!
//! *What it does not do.* It refuses no ADU because of what is queued before it: that may still change.
//!
//! *Sources.* RFC 8290 §4.1 for dropping from the longest queue.

use thalweg_base::event::DropCause;
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;

use super::slab::{Slot, State};
use super::{Entry, Outbox, Refused, Ticket};

impl Outbox {
    /// Returns the slot for an ADU, once it is useful and has room.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        flow: u32,
        entry: &Entry,
    ) -> Result<Slot, Refused> {
        // A deadline of now is past: nothing arrives in no time.
        if entry.deadline <= now {
            let late = now.saturating_since(entry.deadline);
            return Err(Refused::Expired { late });
        }
        let size = DataSize::from_bytes(entry.bytes as u64);
        // Late even alone on the fastest path that may be expected.
        if let Some(carried) = self.promise.carried_until(entry.deadline, now)
            && size > carried
        {
            return Err(Refused::Oversized { size, carried });
        }
        self.check_base(flow, entry)?;
        let overflow = Refused::Overflow {
            adus: self.live,
            queued: self.queued(),
        };
        // A slot counts in u32: the bound on bytes is below, so a longer ADU has no room anyway.
        let bytes = u32::try_from(entry.bytes).map_err(|_| overflow)?;
        let slot = Slot {
            flow,
            flow_generation: self.flows[flow].generation,
            importance: entry.importance.0,
            bytes,
            available: u32::try_from(entry.available_bytes).map_or(bytes, |b| b.min(bytes)),
            deadline: entry.deadline,
            send_by: self.promise.send_by(now, entry.deadline),
            sequence: entry.sequence.0,
            base: entry.depends_on.map(|base| base.0),
            ..Slot::default()
        };
        if !self.make_room(&slot) {
            return Err(overflow);
        }
        // Making room may have dropped its base.
        self.check_base(flow, entry)?;
        Ok(slot)
    }

    fn check_base(&self, flow: u32, entry: &Entry) -> Result<(), Refused> {
        match entry.depends_on {
            Some(base) if self.flows[flow].lost.contains(base.0) => {
                Err(Refused::Dependant { base })
            }
            _ => Ok(()),
        }
    }

    /// Drops ADUs of lower value until this one has room; returns whether it has.
    fn make_room(&mut self, slot: &Slot) -> bool {
        let bytes = u64::from(slot.bytes);
        let bytes_max = self.settings.bytes_max.as_bytes();
        if bytes > bytes_max {
            return false;
        }
        loop {
            // At either bound; the flow to drop from is chosen by what is scarce.
            let is_full = self.live >= self.settings.adus_max;
            if !is_full && self.queued_bytes + bytes <= bytes_max {
                // Dropped ADUs that are not yet polled keep their slots, which are bounded as well.
                return self.slab.used() < 2 * self.settings.adus_max;
            }
            let victim = self.flows.largest(slot.flow, bytes, is_full);
            let flow = &mut self.flows[victim];
            let Some((key, last)) = flow.queue.last(&self.slab) else {
                return false;
            };
            // Within its own flow only an ADU that would go after the new one makes room.
            if victim == slot.flow && key <= flow.queue.key(slot) {
                return false;
            }
            self.drop_with_dependants(last, DropCause::Preempted);
        }
    }

    pub(super) fn insert(&mut self, mut slot: Slot) -> Ticket {
        let (flow_index, sequence, base) = (slot.flow, slot.sequence, slot.base);
        slot.state = State::Queued;
        self.version += 1;
        slot.arrival = self.version;
        self.live += 1;
        self.queued_bytes += u64::from(slot.bytes);
        let flow = &mut self.flows[flow_index];
        flow.bytes += u64::from(slot.bytes);
        // Another copy of a lost ADU: its dependants are useful again.
        flow.lost.remove(sequence);
        let index = self.slab.insert(slot);
        self.slab[index].is_known = self.families.add_adu(flow_index, sequence, index);
        if let Some(base) = base {
            self.families
                .add_child(&mut self.slab, flow_index, base, index);
        }
        self.deadlines.set(&mut self.slab, index, self.version);
        flow.queue.insert(&mut self.slab, index, self.version);
        self.activate(flow_index);
        self.slab.ticket(index)
    }
}
