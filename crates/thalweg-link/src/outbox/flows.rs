//! The flows of an outbox, open and closed, with their turns.
//!
//! *The idea.* A closed flow's place is used again under another generation, so that an old name of
//! it is void. Whatever makes a flow send more or less also moves its turn, so the flows and the ring
//! of turns have one owner.
//!
//! *What it does not do.* It drops nothing, and knows no ADU but by its slot.

use alloc::vec::Vec;
use core::num::NonZeroU8;
use core::ops::{Index, IndexMut};

use thalweg_base::needs::Order;
use thalweg_base::units::Bitrate;

use super::FlowId;
use super::slab::Slab;
use super::turns::{Flow, Turns};

/// The flows.
#[derive(Debug, Default)]
pub(super) struct Flows {
    by_index: Vec<Flow>,
    free: Vec<u32>,
    turns: Turns,
}

impl Flows {
    /// Opens a flow; `None` if there are `flows_max` already.
    pub(super) fn open(
        &mut self,
        weight: NonZeroU8,
        order: Order,
        flows_max: usize,
    ) -> Option<FlowId> {
        let index = match self.free.pop() {
            Some(index) => {
                let flow = &mut self.by_index[index as usize];
                *flow = Flow::new(flow.generation, weight, order);
                index
            }
            None if self.by_index.len() < flows_max => {
                self.by_index.push(Flow::new(0, weight, order));
                self.by_index.len() as u32 - 1
            }
            None => return None,
        };
        Some(self.id(index))
    }

    /// Closes a flow that has no ADUs left.
    pub(super) fn close(&mut self, index: u32) {
        self.turns.close(&mut self.by_index, index);
        self.free.push(index);
    }

    pub(super) fn id(&self, index: u32) -> FlowId {
        FlowId {
            index,
            generation: self.by_index[index as usize].generation,
        }
    }

    /// Returns the index of a flow, if it is open.
    pub(super) fn find(&self, flow: FlowId) -> Option<u32> {
        let found = self.by_index.get(flow.index as usize)?;
        (found.is_open() && found.generation == flow.generation).then_some(flow.index)
    }

    /// Returns all flows, open or closed, by index.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.by_index.iter()
    }

    /// Returns the flow that would hold most for its weight, counting an ADU that arrives in one of
    /// them; in a tie, that one. It holds bytes, or ADUs if `by_number`.
    pub(super) fn largest(&self, arriving: u32, bytes: u64, by_number: bool) -> u32 {
        let held = |index: u32| {
            let flow = &self.by_index[index as usize];
            let comes = u64::from(index == arriving);
            let held = if by_number {
                flow.queue.len() as u64 + comes
            } else {
                flow.bytes + comes * bytes
            };
            (held, u64::from(flow.weight.get()))
        };
        let mut largest_flow = (arriving, held(arriving));
        for index in 0..self.by_index.len() as u32 {
            let (held, weight) = held(index);
            let (most, its_weight) = largest_flow.1;
            // held / weight > most / its_weight, without a division.
            if u128::from(held) * u128::from(its_weight) > u128::from(most) * u128::from(weight) {
                largest_flow = (index, (held, weight));
            }
        }
        largest_flow.0
    }

    /// Changes a flow's weight from its next turn on.
    pub(super) fn set_weight(&mut self, index: u32, weight: NonZeroU8) {
        self.turns
            .set_weight(&mut self.by_index[index as usize], weight);
    }

    /// Adds a flow to the turns if it has bytes to send.
    pub(super) fn join(&mut self, index: u32, slab: &Slab, chunk_bytes: u32) {
        if self.by_index[index as usize].queue.first(slab).is_some() {
            self.turns.join(&mut self.by_index, index, chunk_bytes);
        }
    }

    /// The same for a flow that has more to send than before: an urgent ADU may take its turn early.
    pub(super) fn activate(&mut self, index: u32, slab: &Slab, chunk_bytes: u32) {
        let queue = &mut self.by_index[index as usize].queue;
        if let Some(first) = queue.first(slab) {
            let rank = queue.rank(&slab[first]);
            self.turns.join(&mut self.by_index, index, chunk_bytes);
            self.turns
                .take_turn_early(&mut self.by_index, index, rank, chunk_bytes);
        }
    }

    /// Returns the flow that sends next, and the ADU that it sends.
    pub(super) fn next(&mut self, slab: &Slab, chunk_bytes: u32) -> Option<(u32, u32)> {
        self.turns.next(&mut self.by_index, slab, chunk_bytes)
    }

    /// Charges the flow in turn for bytes of this rank.
    pub(super) fn charge(&mut self, rank: u8, bytes: u32) {
        self.turns.charge(&mut self.by_index, rank, bytes);
    }

    /// Returns whether any flow is in turn; a flow that ran dry leaves only at the next poll.
    pub(super) fn have_turn(&self) -> bool {
        self.turns.has_flow()
    }

    /// Returns a flow's share of the rate while all flows in turn send.
    pub(super) fn share(&self, index: u32, rate: Bitrate) -> Bitrate {
        self.turns.share(&self.by_index[index as usize], rate)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        let queues = self.by_index.iter().map(|flow| flow.queue.capacity());
        self.turns.capacity() + queues.sum::<usize>()
    }
}

impl Index<u32> for Flows {
    type Output = Flow;

    fn index(&self, index: u32) -> &Flow {
        &self.by_index[index as usize]
    }
}

impl IndexMut<u32> for Flows {
    fn index_mut(&mut self, index: u32) -> &mut Flow {
        &mut self.by_index[index as usize]
    }
}
