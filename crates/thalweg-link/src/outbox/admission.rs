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
use thalweg_base::time::{Duration, Instant};
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
        if let Some(ceiling) = self.ceiling
            && !entry.deadline.is_never()
        {
            let carried = ceiling * entry.deadline.saturating_since(now);
            // Late even alone on the fastest path that may be expected.
            if size > carried {
                return Err(Refused::Oversized { size, carried });
            }
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
            flow_generation: self.flows[flow as usize].generation,
            importance: entry.importance.0,
            bytes,
            available: u32::try_from(entry.available_bytes).map_or(bytes, |b| b.min(bytes)),
            deadline: entry.deadline,
            send_by: self.send_by(now, entry.deadline),
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

    fn send_by(&self, now: Instant, deadline: Instant) -> Instant {
        if deadline.is_never() {
            return deadline;
        }
        // The transit time is half a round trip; an asymmetric path may have less in this direction.
        let quarter = Duration::from_nanos(deadline.saturating_since(now).as_nanos() / 4);
        deadline - self.transit.min(quarter)
    }

    fn check_base(&self, flow: u32, entry: &Entry) -> Result<(), Refused> {
        match entry.depends_on {
            Some(base) if self.flows[flow as usize].lost.contains(base.0) => {
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
            let victim = self.largest_flow(slot.flow, bytes, is_full);
            let flow = &mut self.flows[victim as usize];
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

    /// Returns the flow that would hold most for its weight, counting the new ADU; in a tie, that
    /// ADU's own flow.
    fn largest_flow(&self, arriving: u32, bytes: u64, by_number: bool) -> u32 {
        let held = |index: u32| {
            let flow = &self.flows[index as usize];
            let comes = u64::from(index == arriving);
            let held = if by_number {
                flow.queue.len() as u64 + comes
            } else {
                flow.bytes + comes * bytes
            };
            (held, u64::from(flow.weight.get()))
        };
        let mut largest_flow = (arriving, held(arriving));
        for index in 0..self.flows.len() as u32 {
            let (held, weight) = held(index);
            let (most, its_weight) = largest_flow.1;
            // held / weight > most / its_weight, without a division.
            if u128::from(held) * u128::from(its_weight) > u128::from(most) * u128::from(weight) {
                largest_flow = (index, (held, weight));
            }
        }
        largest_flow.0
    }

    pub(super) fn insert(&mut self, mut slot: Slot) -> Ticket {
        let (flow_index, sequence, base) = (slot.flow, slot.sequence, slot.base);
        slot.state = State::Queued;
        self.version += 1;
        slot.arrival = self.version;
        self.live += 1;
        self.queued_bytes += u64::from(slot.bytes);
        let flow = &mut self.flows[flow_index as usize];
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
