//! The slots of queued ADUs, and the list of dropped ones.
//!
//! *The idea.* One array of reused slots; a slot's generation tells a new occupant from an old
//! one's ticket. A dropped ADU keeps its slot, linked into a list, until its drop is polled. So
//! unpolled drops are bounded too, and the list serves as the work list of a drop with dependants.
//!
//! *What it does not do.* It knows no order.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use thalweg_base::event::DropCause;
use thalweg_base::time::Instant;

use super::{NONE, Ticket};

/// The slots.
#[derive(Debug)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: u32,
    /// Slots in use, including dropped ones.
    used: usize,
    dropped_first: u32,
    dropped_last: u32,
}

/// One ADU.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all of them may meet"
)]
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) flow: u32,
    pub(super) flow_generation: u32,
    pub(super) importance: u8,
    /// Whether a chunk of it was handed over.
    pub(super) begun: bool,
    /// Whether the transport takes no more of it for now.
    pub(super) is_blocked: bool,
    /// Whether it would be late at its flow's share of the rate: others of its importance go first.
    pub(super) is_postponed: bool,
    /// Whether the family table has it under its sequence.
    pub(super) is_known: bool,
    pub(super) bytes: u32,
    pub(super) available: u32,
    pub(super) sent: u32,
    pub(super) deadline: Instant,
    /// When its last byte must leave to be in time.
    pub(super) send_by: Instant,
    pub(super) sequence: u64,
    /// Its number among all accepted ADUs; the maximum until it is accepted.
    pub(super) arrival: u64,
    pub(super) base: Option<u64>,
    /// Version of this slot's live queue entry; entries with another version are stale and skipped.
    pub(super) queue_version: u64,
    /// The same for its entry among the deadlines.
    pub(super) deadline_version: u64,
    pub(super) sibling_before: u32,
    pub(super) sibling_after: u32,
    /// The next free or dropped slot.
    pub(super) next: u32,
}

/// The state of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Not handed over whole.
    Queued,
    /// Handed over whole, and still pending.
    Departed,
    /// Waits for its drop to be polled.
    Dropped {
        cause: DropCause,
        /// Whether its dependants have become useless.
        is_lost: bool,
    },
}

impl Default for Slab {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            used: 0,
            dropped_first: NONE,
            dropped_last: NONE,
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            generation: 0,
            state: State::Free,
            flow: NONE,
            flow_generation: 0,
            importance: 0,
            begun: false,
            is_blocked: false,
            is_postponed: false,
            is_known: false,
            bytes: 0,
            available: 0,
            sent: 0,
            deadline: Instant::NEVER,
            send_by: Instant::NEVER,
            sequence: 0,
            arrival: u64::MAX,
            base: None,
            queue_version: 0,
            deadline_version: 0,
            sibling_before: NONE,
            sibling_after: NONE,
            next: NONE,
        }
    }
}

impl Slot {
    /// Returns how many bytes can be handed over now; zero, once, for an empty ADU.
    pub(super) fn sendable(&self) -> Option<u32> {
        let bytes = self.available - self.sent;
        let is_due = bytes > 0 || (self.bytes == 0 && !self.begun);
        (is_due && !self.is_blocked).then_some(bytes)
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Queued | State::Departed)
    }
}

impl Slab {
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Stores an ADU in a free slot.
    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        self.used += 1;
        if self.free == NONE {
            let index = u32::try_from(self.slots.len()).expect("the bound on ADUs is far below");
            self.slots.push(slot);
            return index;
        }
        let index = self.free;
        let occupant = &mut self[index];
        let (next, generation) = (occupant.next, occupant.generation);
        // The generation stays with the slot, so that old tickets stay void.
        *occupant = Slot { generation, ..slot };
        self.free = next;
        index
    }

    /// Frees a slot; its tickets become void.
    pub(super) fn remove(&mut self, index: u32) {
        let free = self.free;
        let slot = &mut self[index];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        // Version 0 is never given out: all heap entries of the slot become stale.
        slot.queue_version = 0;
        slot.deadline_version = 0;
        slot.next = free;
        self.free = index;
        self.used -= 1;
    }

    pub(super) fn ticket(&self, index: u32) -> Ticket {
        Ticket {
            index,
            generation: self[index].generation,
        }
    }

    /// Returns the slot of a ticket, if the ADU is pending.
    pub(super) fn find(&self, ticket: Ticket) -> Option<u32> {
        let slot = self.slots.get(ticket.index as usize)?;
        (slot.generation == ticket.generation && slot.is_live()).then_some(ticket.index)
    }

    /// Returns every pending ADU.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.is_live())
            .map(|(index, _)| index as u32)
    }

    /// Appends an ADU to the list of drops.
    pub(super) fn append_dropped(&mut self, index: u32) {
        self[index].next = NONE;
        let last = core::mem::replace(&mut self.dropped_last, index);
        if last == NONE {
            self.dropped_first = index;
        } else {
            self[last].next = index;
        }
    }

    /// Returns the end of that list, from which [`Slab::dropped_after`] goes on.
    pub(super) fn dropped_last(&self) -> u32 {
        self.dropped_last
    }

    /// Returns the next in the list; after `NONE` comes its first.
    pub(super) fn dropped_after(&self, index: u32) -> u32 {
        if index == NONE {
            self.dropped_first
        } else {
            self[index].next
        }
    }

    /// Removes the first of the list.
    pub(super) fn take_dropped(&mut self) -> Option<u32> {
        let index = self.dropped_first;
        if index == NONE {
            return None;
        }
        self.dropped_first = self[index].next;
        if self.dropped_first == NONE {
            self.dropped_last = NONE;
        }
        Some(index)
    }
}

impl Index<u32> for Slab {
    type Output = Slot;

    fn index(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl IndexMut<u32> for Slab {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }
}
