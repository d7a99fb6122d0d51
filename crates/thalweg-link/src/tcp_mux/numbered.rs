//! A map with ascending keys: mostly the newest is added and the oldest removed.
//!
//! *The idea.* Entries lie in a ring in the order of their numbers. A lookup is nearly always at
//! one of its ends and needs no search there. Removal from between leaves a hole; holes are
//! compacted once they are the majority.
//!
//! ```text
//! 17 · · 20 21 · 23      lookup: 23, then 17; 20 by binary search
//! ```
//!
//! *What it does not do.* It assigns no numbers.

use alloc::collections::VecDeque;

/// Holes up to this many are never compacted.
const HOLES_FEW: usize = 8;

/// Capacity that is kept, however few entries there are.
const CAPACITY_KEPT: usize = 64;

/// Values by ascending numbers.
#[derive(Clone, Debug)]
pub struct Numbered<N, T> {
    /// The first and the last entry are not holes.
    entries: VecDeque<(N, Option<T>)>,
    count: usize,
}

impl<N: Copy + Ord, T> Numbered<N, T> {
    /// Returns an empty map.
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            count: 0,
        }
    }

    /// Returns the number of values.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value of a number.
    ///
    /// Cost    O(1) at the ends, O(log n) between
    pub fn get(&self, number: N) -> Option<&T> {
        self.entries[self.find(number)?].1.as_ref()
    }

    /// Returns the value of a number, mutably.
    pub fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let at = self.find(number)?;
        self.entries[at].1.as_mut()
    }

    /// Returns whether a number has a value.
    pub fn contains(&self, number: N) -> bool {
        self.get(number).is_some()
    }

    /// Inserts a value; returns the previous value of that number.
    ///
    /// Cost    O(1) for the newest, O(n) otherwise
    pub fn insert(&mut self, number: N, value: T) -> Option<T> {
        let is_newest = self.entries.back().is_none_or(|(last, _)| *last < number);
        let found = if is_newest {
            Err(self.entries.len())
        } else {
            self.search(number)
        };
        let before = match found {
            Ok(at) => self.entries[at].1.replace(value),
            Err(at) => {
                self.entries.insert(at, (number, Some(value)));
                None
            }
        };
        self.count += usize::from(before.is_none());
        before
    }

    /// Removes and returns the value of a number.
    ///
    /// Cost    the lookup, and O(1) amortized
    pub fn remove(&mut self, number: N) -> Option<T> {
        let at = self.find(number)?;
        let value = self.entries[at].1.take()?;
        self.count -= 1;
        self.compact();
        Some(value)
    }

    /// Iterates over numbers and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        let all = self.entries.iter();
        all.filter_map(|(number, value)| Some((*number, value.as_ref()?)))
    }

    /// Iterates over numbers and values in order, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (N, &mut T)> {
        let all = self.entries.iter_mut();
        all.filter_map(|(number, value)| Some((*number, value.as_mut()?)))
    }

    fn find(&self, number: N) -> Option<usize> {
        let last = self.entries.back()?.0;
        // The newest or the oldest, mostly.
        if number >= last {
            return (number == last).then(|| self.entries.len() - 1);
        }
        let first = self.entries.front()?.0;
        if number <= first {
            return (number == first).then_some(0);
        }
        self.search(number).ok()
    }

    fn search(&self, number: N) -> Result<usize, usize> {
        self.entries
            .binary_search_by_key(&number, |(known, _)| *known)
    }

    /// Drops holes at the ends, and all holes if they are the majority.
    fn compact(&mut self) {
        while let Some((_, None)) = self.entries.front() {
            self.entries.pop_front();
        }
        while let Some((_, None)) = self.entries.back() {
            self.entries.pop_back();
        }
        if self.entries.len() > 2 * self.count + HOLES_FEW {
            self.entries.retain(|(_, value)| value.is_some());
        }
        // Capacity from a time with thousands of entries is released by halves.
        let capacity = self.entries.capacity();
        if capacity > CAPACITY_KEPT && self.entries.len() < capacity / 8 {
            self.entries.shrink_to(capacity / 2);
        }
    }
}

impl<N: Copy + Ord, T> Default for Numbered<N, T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// Insert the next number, or one this far behind it.
        Insert(Option<u16>),
        Remove(u16),
        RemoveOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => Just(Step::Insert(None)),
            1 => (0_u16..40).prop_map(|back| Step::Insert(Some(back))),
            3 => (0_u16..40).prop_map(Step::Remove),
            4 => Just(Step::RemoveOldest),
        ]
    }

    #[test]
    fn emptied_map_releases_memory() {
        let mut row = Numbered::new();
        for number in 0..10_000 {
            row.insert(number, ());
        }
        for number in 0..10_000 {
            row.remove(number);
        }
        assert!(row.is_empty());
        assert!(
            row.entries.capacity() <= CAPACITY_KEPT,
            "{}",
            row.entries.capacity()
        );
    }

    proptest! {
        #[test]
        fn numbered_equals_btree_map(steps in proptest::collection::vec(step(), 0..300)) {
            let (mut row, mut map, mut next) = (Numbered::new(), BTreeMap::new(), 0_u16);
            for (time, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(back) => {
                        let number = back.map_or(next, |back| next.saturating_sub(back));
                        next = next.max(number + 1);
                        prop_assert_eq!(row.insert(number, time), map.insert(number, time));
                    }
                    Step::Remove(back) => {
                        let number = next.saturating_sub(back);
                        prop_assert_eq!(row.remove(number), map.remove(&number));
                    }
                    Step::RemoveOldest => {
                        let oldest = map.pop_first();
                        let number = oldest.map_or(0, |(number, _)| number);
                        prop_assert_eq!(row.remove(number), oldest.map(|(_, value)| value));
                    }
                }
                prop_assert_eq!((row.len(), row.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(row.entries.len() <= 2 * row.len() + HOLES_FEW);
                let all: Vec<_> = row.iter().map(|(number, value)| (number, *value)).collect();
                let known: Vec<_> = map.iter().map(|(number, value)| (*number, *value)).collect();
                prop_assert_eq!(all, known);
                for number in next.saturating_sub(45)..=next {
                    prop_assert_eq!(row.get(number), map.get(&number));
                    prop_assert_eq!(row.contains(number), map.contains_key(&number));
                    if let Some(value) = row.get_mut(number) {
                        *value += 1;
                    }
                    if let Some(value) = map.get_mut(&number) {
                        *value += 1;
                    }
                }
            }
        }
    }
}
