//! A min-max heap: a heap with access to both its least and its greatest item.
//!
//! *The idea.* The next ADU to send is at one end of a queue, the next to drop at the other. Levels
//! of one binary tree alternate: an item on an even level is the least of all below it, one on an
//! odd level the greatest. So one array serves both ends.
//!
//! ```text
//! even            1                least of all
//! odd        9         8           the greatest is one of these
//! even     3   2     5   4
//! ```
//!
//! *What it does not do.* It finds nothing in the middle: an item removed there stays as a stale
//! entry until it reaches an end, and the heap's owner sweeps when stale entries are the majority.
//!
//! *Sources.* Atkinson, Sack, Santoro, Strothotte: "Min-max heaps and generalized priority queues",
//! CACM 29 (1986).

use alloc::vec::Vec;

/// A min-max heap.
#[derive(Debug)]
pub(super) struct MinMaxHeap<T> {
    items: Vec<T>,
}

/// An end of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Least,
    Greatest,
}

impl<T> MinMaxHeap<T> {
    pub(super) const EMPTY: Self = Self { items: Vec::new() };
}

impl<T: Copy + Ord> MinMaxHeap<T> {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.items.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
    }

    /// Inserts an item.
    ///
    /// Cost    O(log n)
    pub(super) fn push(&mut self, item: T) {
        self.items.push(item);
        self.rise(self.items.len() - 1);
    }

    pub(super) fn least(&self) -> Option<&T> {
        self.items.first()
    }

    pub(super) fn greatest(&self) -> Option<&T> {
        self.items.get(self.greatest_place())
    }

    /// Removes the least item.
    ///
    /// Cost    O(log n)
    pub(super) fn pop_least(&mut self) -> Option<T> {
        self.take(0)
    }

    /// Removes the greatest item.
    ///
    /// Cost    O(log n)
    pub(super) fn pop_greatest(&mut self) -> Option<T> {
        self.take(self.greatest_place())
    }

    /// Keeps only the items that satisfy `keep`.
    ///
    /// Cost    O(n)
    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.items.retain(keep);
        for place in (0..self.items.len() / 2).rev() {
            self.sink(place);
        }
    }

    fn greatest_place(&self) -> usize {
        match self.items.len() {
            0 | 1 => 0,
            2 => 1,
            _ if self.items[1] > self.items[2] => 1,
            _ => 2,
        }
    }

    fn take(&mut self, place: usize) -> Option<T> {
        if place >= self.items.len() {
            return None;
        }
        let item = self.items.swap_remove(place);
        if place < self.items.len() {
            self.sink(place);
        }
        Some(item)
    }

    fn rise(&mut self, place: usize) {
        if place == 0 {
            return;
        }
        let (parent, end) = ((place - 1) / 2, End::of(place));
        if end.other().prefers(&self.items[place], &self.items[parent]) {
            self.items.swap(place, parent);
            self.rise_by_two(parent, end.other());
        } else {
            self.rise_by_two(place, end);
        }
    }

    fn rise_by_two(&mut self, mut place: usize, end: End) {
        // Grandparents are on the same kind of level.
        while place >= 3 {
            let above = (place - 3) / 4;
            if !end.prefers(&self.items[place], &self.items[above]) {
                return;
            }
            self.items.swap(place, above);
            place = above;
        }
    }

    fn sink(&mut self, mut place: usize) {
        let end = End::of(place);
        while let Some(next) = self.foremost_below(place, end) {
            if !end.prefers(&self.items[next], &self.items[place]) {
                return;
            }
            self.items.swap(next, place);
            if next <= 2 * place + 2 {
                // A child has no descendants on this kind of level.
                return;
            }
            let parent = (next - 1) / 2;
            if end.prefers(&self.items[parent], &self.items[next]) {
                self.items.swap(parent, next);
            }
            place = next;
        }
    }

    /// Returns the place of the foremost among children and grandchildren.
    fn foremost_below(&self, place: usize, end: End) -> Option<usize> {
        let (child, grandchild) = (2 * place + 1, 4 * place + 3);
        // A child goes behind its own children, so it counts only where it has none.
        if let Some([a, b, c, d]) = self.items.get(grandchild..grandchild + 4) {
            let left = usize::from(end.prefers(b, a));
            let right = 2 + usize::from(end.prefers(d, c));
            let (one, other) = (
                &self.items[grandchild + left],
                &self.items[grandchild + right],
            );
            return Some(grandchild + if end.prefers(other, one) { right } else { left });
        }
        let len = self.items.len();
        if child >= len {
            return None;
        }
        let mut foremost = child;
        let below = (child + 1..(child + 2).min(len)).chain(grandchild..(grandchild + 4).min(len));
        for candidate in below {
            if end.prefers(&self.items[candidate], &self.items[foremost]) {
                foremost = candidate;
            }
        }
        Some(foremost)
    }
}

impl End {
    /// Returns the end that a place's level belongs to.
    const fn of(place: usize) -> Self {
        if (place + 1).ilog2().is_multiple_of(2) {
            Self::Least
        } else {
            Self::Greatest
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Least => Self::Greatest,
            Self::Greatest => Self::Least,
        }
    }

    fn prefers<T: Ord>(self, one: &T, other: &T) -> bool {
        match self {
            Self::Least => one < other,
            Self::Greatest => one > other,
        }
    }
}
