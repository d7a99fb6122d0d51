//! The ADUs of one flow in their order, and all deadlines in theirs.
//!
//! *The idea.* Heaps hold copies of what they are ordered by, and a stamp: an ADU that leaves from the middle, or whose
//! importance changes, gets another stamp, and its old node is a husk that is thrown away when it comes to an end of the
//! heap. When husks outnumber the rest by far the heap is swept, so they take at most half of it and sweeping costs a
//! constant share of what made them.
//!
//! An ADU of which nothing can be sent just now, for the rest is still arriving, waits in a second heap, out of the way
//! of those that can be; where order is by sequence it stays at its place and holds up those behind it.
//!
//! *What it does not do.* It decides nothing between flows.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::slab::{Slab, Slot};
use super::spread::Spread;
use crate::needs::Order;
use crate::time::Instant;

/// Husks that are not worth a sweep.
const HUSKS_MIN: usize = 64;

/// What the ADUs of a flow are ordered by: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// 255 less the importance.
    rank: u8,
    is_doubtful: bool,
    deadline: Instant,
    sequence: u64,
}

/// An ADU in a heap. No two have the same stamp, and the later has the larger, so equal keys go first in first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    key: Key,
    stamp: u64,
    slot: u32,
}

/// A heap of which some nodes are husks.
#[derive(Debug)]
struct Heap {
    nodes: Spread<Node>,
    live: usize,
}

/// The queued ADUs of one flow.
#[derive(Debug)]
pub(super) struct Queue {
    order: Order,
    ready: Heap,
    /// Of those that are ordered by importance.
    arriving: Heap,
}

/// The deadlines of all ADUs that have one.
#[derive(Debug)]
pub(super) struct Alarms {
    nodes: BinaryHeap<Reverse<Alarm>>,
    live: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Instant,
    stamp: u64,
    slot: u32,
}

impl Key {
    pub(super) fn of(order: Order, slot: &Slot) -> Self {
        match order {
            Order::Importance => Self {
                rank: u8::MAX - slot.importance,
                is_doubtful: slot.is_doubtful,
                deadline: slot.deadline,
                sequence: slot.sequence,
            },
            Order::Sequence => Self {
                rank: 0,
                is_doubtful: false,
                deadline: Instant::ZERO,
                sequence: slot.arrival,
            },
        }
    }
}

impl Heap {
    const EMPTY: Self = Self {
        nodes: Spread::EMPTY,
        live: 0,
    };

    fn push(&mut self, node: Node) {
        self.live += 1;
        self.nodes.push(node);
    }

    /// Returns the slot at the front, past husks.
    fn first(&mut self, slab: &Slab) -> Option<u32> {
        while let Some(node) = self.nodes.least() {
            if slab[node.slot].place == node.stamp {
                return Some(node.slot);
            }
            self.nodes.pop_least();
        }
        None
    }

    /// Returns the node at the back, past husks.
    fn last(&mut self, slab: &Slab) -> Option<Node> {
        while let Some(node) = self.nodes.greatest() {
            if slab[node.slot].place == node.stamp {
                return Some(*node);
            }
            self.nodes.pop_greatest();
        }
        None
    }

    /// Takes out the front, which [`Heap::first`] has just returned.
    fn take_first(&mut self) {
        self.live -= 1;
        self.nodes.pop_least();
    }

    /// Notes that a node has become a husk.
    fn forget(&mut self, slab: &Slab) {
        self.live -= 1;
        if self.live == 0 {
            self.nodes.clear();
        } else if self.nodes.len() > 2 * self.live + HUSKS_MIN {
            self.nodes
                .retain(|node| slab[node.slot].place == node.stamp);
        }
    }
}

impl Queue {
    pub(super) const fn new(order: Order) -> Self {
        Self {
            order,
            ready: Heap::EMPTY,
            arriving: Heap::EMPTY,
        }
    }

    /// Returns how many ADUs are in it.
    pub(super) fn len(&self) -> usize {
        self.ready.live + self.arriving.live
    }

    pub(super) fn key(&self, slot: &Slot) -> Key {
        Key::of(self.order, slot)
    }

    /// Returns 255 less the importance, or 0 where that does not order.
    pub(super) const fn rank(&self, slot: &Slot) -> u8 {
        match self.order {
            Order::Importance => u8::MAX - slot.importance,
            Order::Sequence => 0,
        }
    }

    fn heap(&mut self, slot: &Slot) -> &mut Heap {
        if self.order == Order::Importance && slot.sendable().is_none() {
            &mut self.arriving
        } else {
            &mut self.ready
        }
    }

    /// Puts an ADU at its place.
    pub(super) fn insert(&mut self, slab: &mut Slab, slot: u32, stamp: u64) {
        slab[slot].place = stamp;
        let key = self.key(&slab[slot]);
        self.heap(&slab[slot]).push(Node { key, stamp, slot });
    }

    /// Takes an ADU out of the middle; what it can send must be as when it was put in.
    pub(super) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        slab[slot].place = 0;
        self.heap(&slab[slot]).forget(slab);
    }

    /// Returns the ADU that is to be sent from now, if there is one.
    pub(super) fn first(&mut self, slab: &Slab) -> Option<u32> {
        let slot = self.ready.first(slab)?;
        slab[slot].sendable().map(|_| slot)
    }

    /// Takes out an ADU of which something could be sent: mostly the one that [`Queue::first`] has just returned.
    pub(super) fn take(&mut self, slab: &mut Slab, slot: u32) {
        let stamp = core::mem::take(&mut slab[slot].place);
        if self
            .ready
            .nodes
            .least()
            .is_some_and(|node| node.stamp == stamp)
        {
            self.ready.take_first();
        } else {
            self.ready.forget(slab);
        }
    }

    /// Returns the ADU that would be sent last, with its key.
    pub(super) fn last(&mut self, slab: &Slab) -> Option<(Key, u32)> {
        let (ready, arriving) = (self.ready.last(slab), self.arriving.last(slab));
        let last = ready.max(arriving)?;
        Some((last.key, last.slot))
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ready.nodes.capacity() + self.arriving.nodes.capacity()
    }

    pub(super) const fn order(&self) -> Order {
        self.order
    }
}

impl Alarms {
    pub(super) const EMPTY: Self = Self {
        nodes: BinaryHeap::new(),
        live: 0,
    };

    /// Sets the alarm of an ADU, in place of the one it has; without a deadline there is none.
    pub(super) fn set(&mut self, slab: &mut Slab, slot: u32, stamp: u64) {
        self.clear(slab, slot);
        let at = slab[slot].deadline;
        if !at.is_never() {
            slab[slot].alarm = stamp;
            self.live += 1;
            self.nodes.push(Reverse(Alarm { at, stamp, slot }));
        }
    }

    pub(super) fn clear(&mut self, slab: &mut Slab, slot: u32) {
        if slab[slot].alarm == 0 {
            return;
        }
        slab[slot].alarm = 0;
        self.live -= 1;
        if self.live == 0 {
            self.nodes.clear();
        } else if self.nodes.len() > 2 * self.live + HUSKS_MIN {
            self.nodes
                .retain(|Reverse(node)| slab[node.slot].alarm == node.stamp);
        }
        while let Some(Reverse(node)) = self.nodes.peek()
            && slab[node.slot].alarm != node.stamp
        {
            self.nodes.pop();
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Returns the first alarm; what it belongs to has not ended.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.nodes
            .peek()
            .map(|Reverse(alarm)| (alarm.at, alarm.slot))
    }
}
