//! The ADUs of one flow in sending order, and all deadlines in theirs.
//!
//! *The idea.* Heap entries are copies of a key with a version. When an ADU leaves from the middle,
//! or its importance changes, its slot gets another version; the old entry is stale and is skipped
//! when it reaches an end of the heap. When stale entries are the majority the heap is swept. So
//! they take at most half of it, and sweeping costs a constant share of the operations that made
//! them.
//!
//! An ADU that can send nothing now, because the rest is still arriving, waits in a second heap and
//! lets others pass. In order of sequence it keeps its place and blocks those behind it.
//!
//! *What it does not do.* It decides nothing between flows.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use thalweg_base::needs::Order;
use thalweg_base::time::Instant;

use super::slab::{Slab, Slot};
use super::spread::MinMaxHeap;

/// Stale entries up to this many are never swept.
const STALE_MIN: usize = 64;

/// The sort key of a flow's ADUs: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// 255 less the importance.
    rank: u8,
    is_postponed: bool,
    deadline: Instant,
    sequence: u64,
}

/// A heap entry. Versions are unique and ascending, so equal keys go first in, first out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    key: Key,
    version: u64,
    slot: u32,
}

/// A heap with stale entries.
#[derive(Debug)]
struct Heap {
    nodes: MinMaxHeap<Node>,
    live: usize,
}

/// The queued ADUs of one flow.
#[derive(Debug)]
pub(super) struct Queue {
    order: Order,
    ready: Heap,
    /// Of the ADUs ordered by importance, those that can send nothing now.
    arriving: Heap,
}

/// The deadlines of all ADUs that have one.
#[derive(Debug)]
pub(super) struct Deadlines {
    nodes: BinaryHeap<Reverse<DeadlineNode>>,
    live: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeadlineNode {
    at: Instant,
    version: u64,
    slot: u32,
}

impl Key {
    pub(super) fn of(order: Order, slot: &Slot) -> Self {
        match order {
            Order::Importance => Self {
                rank: u8::MAX - slot.importance,
                is_postponed: slot.is_postponed,
                deadline: slot.deadline,
                sequence: slot.sequence,
            },
            Order::Sequence => Self {
                rank: 0,
                is_postponed: false,
                deadline: Instant::ZERO,
                sequence: slot.arrival,
            },
        }
    }
}

impl Heap {
    const EMPTY: Self = Self {
        nodes: MinMaxHeap::EMPTY,
        live: 0,
    };

    fn push(&mut self, node: Node) {
        self.live += 1;
        self.nodes.push(node);
    }

    /// Returns the first slot, past stale entries.
    fn first(&mut self, slab: &Slab) -> Option<u32> {
        while let Some(node) = self.nodes.least() {
            if slab[node.slot].queue_version == node.version {
                return Some(node.slot);
            }
            self.nodes.pop_least();
        }
        None
    }

    /// Returns the last entry, past stale ones.
    fn last(&mut self, slab: &Slab) -> Option<Node> {
        while let Some(node) = self.nodes.greatest() {
            if slab[node.slot].queue_version == node.version {
                return Some(*node);
            }
            self.nodes.pop_greatest();
        }
        None
    }

    /// Removes the first entry, just returned by [`Heap::first`].
    fn take_first(&mut self) {
        self.live -= 1;
        self.nodes.pop_least();
    }

    /// Counts an entry that became stale.
    fn forget(&mut self, slab: &Slab) {
        self.live -= 1;
        if self.live == 0 {
            self.nodes.clear();
        } else if self.nodes.len() > 2 * self.live + STALE_MIN {
            self.nodes
                .retain(|node| slab[node.slot].queue_version == node.version);
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

    /// Returns the number of ADUs.
    pub(super) fn len(&self) -> usize {
        self.ready.live + self.arriving.live
    }

    pub(super) fn key(&self, slot: &Slot) -> Key {
        Key::of(self.order, slot)
    }

    /// Returns 255 less the importance, or 0 where the order is by sequence.
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

    /// Inserts an ADU at its place.
    pub(super) fn insert(&mut self, slab: &mut Slab, slot: u32, version: u64) {
        slab[slot].queue_version = version;
        let key = self.key(&slab[slot]);
        self.heap(&slab[slot]).push(Node { key, version, slot });
    }

    /// Removes an ADU from the middle; what it can send must be as when it was inserted.
    pub(super) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        slab[slot].queue_version = 0;
        self.heap(&slab[slot]).forget(slab);
    }

    /// Returns the ADU to send from now, if there is one.
    pub(super) fn first(&mut self, slab: &Slab) -> Option<u32> {
        let slot = self.ready.first(slab)?;
        slab[slot].sendable().map(|_| slot)
    }

    /// Removes an ADU that can send: mostly the one just returned by [`Queue::first`].
    pub(super) fn take(&mut self, slab: &mut Slab, slot: u32) {
        let version = core::mem::take(&mut slab[slot].queue_version);
        if self
            .ready
            .nodes
            .least()
            .is_some_and(|node| node.version == version)
        {
            self.ready.take_first();
        } else {
            self.ready.forget(slab);
        }
    }

    /// Returns the ADU that would be sent last, with its key.
    pub(super) fn last(&mut self, slab: &Slab) -> Option<(Key, u32)> {
        // What arrives competes with what is ready: both hold room.
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

impl Deadlines {
    pub(super) const EMPTY: Self = Self {
        nodes: BinaryHeap::new(),
        live: 0,
    };

    /// Sets the deadline of an ADU in place of the previous one; an ADU without a deadline gets no
    /// entry.
    pub(super) fn set(&mut self, slab: &mut Slab, slot: u32, version: u64) {
        self.clear(slab, slot);
        let at = slab[slot].deadline;
        if !at.is_never() {
            slab[slot].deadline_version = version;
            self.live += 1;
            self.nodes.push(Reverse(DeadlineNode { at, version, slot }));
        }
    }

    pub(super) fn clear(&mut self, slab: &mut Slab, slot: u32) {
        if slab[slot].deadline_version == 0 {
            return;
        }
        slab[slot].deadline_version = 0;
        self.live -= 1;
        if self.live == 0 {
            self.nodes.clear();
        } else if self.nodes.len() > 2 * self.live + STALE_MIN {
            self.nodes
                .retain(|Reverse(node)| slab[node.slot].deadline_version == node.version);
        }
        while let Some(Reverse(node)) = self.nodes.peek()
            && slab[node.slot].deadline_version != node.version
        {
            self.nodes.pop();
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Returns the earliest deadline and its slot, which is pending.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.nodes
            .peek()
            .map(|Reverse(alarm)| (alarm.at, alarm.slot))
    }
}
