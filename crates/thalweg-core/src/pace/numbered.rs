//! Things by numbers that rise: mostly the newest is added, and the oldest goes.
//!
//! *The idea.* They lie in a row in the order of their numbers. What is asked for is nearly always at one of its ends, and is found
//! there without a search; what goes from between leaves its place empty, and empty places are let go of when they are most.
//!
//! ```text
//! 17 · · 20 21 · 23      asked for: 23, then 17; 20 by halves
//! ```
//!
//! *What it does not do.* It gives no numbers out.

use alloc::collections::VecDeque;

/// Empty places that are never worth the letting go.
const EMPTY_FEW: usize = 8;

/// Room for so many is kept, however few there are.
const ROOM_KEPT: usize = 64;

/// Things by numbers that rise.
#[derive(Clone, Debug)]
pub struct Numbered<N, T> {
    /// The first and the last are not empty.
    places: VecDeque<(N, Option<T>)>,
    count: usize,
}

impl<N: Copy + Ord, T> Numbered<N, T> {
    /// Begins empty.
    pub const fn new() -> Self {
        Self {
            places: VecDeque::new(),
            count: 0,
        }
    }

    /// Returns how many there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the one of a number.
    ///
    /// Cost    O(1) at the ends, O(log n) between
    pub fn get(&self, number: N) -> Option<&T> {
        self.places[self.find(number)?].1.as_ref()
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: N) -> Option<&mut T> {
        let at = self.find(number)?;
        self.places[at].1.as_mut()
    }

    /// Returns whether there is one of a number.
    pub fn contains(&self, number: N) -> bool {
        self.get(number).is_some()
    }

    /// Adds one; returns the one that had its number.
    ///
    /// Cost    O(1) for the newest, O(n) otherwise
    pub fn insert(&mut self, number: N, thing: T) -> Option<T> {
        let is_newest = self.places.back().is_none_or(|(last, _)| *last < number);
        let found = if is_newest {
            Err(self.places.len())
        } else {
            self.search(number)
        };
        let before = match found {
            Ok(at) => self.places[at].1.replace(thing),
            Err(at) => {
                self.places.insert(at, (number, Some(thing)));
                None
            }
        };
        self.count += usize::from(before.is_none());
        before
    }

    /// Takes one out.
    ///
    /// Cost    as to get it, O(1) on the average besides
    pub fn remove(&mut self, number: N) -> Option<T> {
        let at = self.find(number)?;
        let thing = self.places[at].1.take()?;
        self.count -= 1;
        self.tidy();
        Some(thing)
    }

    /// Returns all, in order.
    pub fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        let all = self.places.iter();
        all.filter_map(|(number, thing)| Some((*number, thing.as_ref()?)))
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (N, &mut T)> {
        let all = self.places.iter_mut();
        all.filter_map(|(number, thing)| Some((*number, thing.as_mut()?)))
    }

    fn find(&self, number: N) -> Option<usize> {
        let last = self.places.back()?.0;
        if number >= last {
            return (number == last).then(|| self.places.len() - 1);
        }
        let first = self.places.front()?.0;
        if number <= first {
            return (number == first).then_some(0);
        }
        self.search(number).ok()
    }

    fn search(&self, number: N) -> Result<usize, usize> {
        self.places
            .binary_search_by_key(&number, |(known, _)| *known)
    }

    /// Lets go of empty places at the ends, and of all if they are most.
    fn tidy(&mut self) {
        while let Some((_, None)) = self.places.front() {
            self.places.pop_front();
        }
        while let Some((_, None)) = self.places.back() {
            self.places.pop_back();
        }
        if self.places.len() > 2 * self.count + EMPTY_FEW {
            self.places.retain(|(_, thing)| thing.is_some());
        }
        // Of thousands that there were once the room goes by halves.
        let room = self.places.capacity();
        if room > ROOM_KEPT && self.places.len() < room / 8 {
            self.places.shrink_to(room / 2);
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
        /// The next number, or one so far behind it.
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
    fn the_room_of_many_is_let_go_of() {
        let mut row = Numbered::new();
        for number in 0..10_000 {
            row.insert(number, ());
        }
        for number in 0..10_000 {
            row.remove(number);
        }
        assert!(row.is_empty());
        assert!(
            row.places.capacity() <= ROOM_KEPT,
            "{}",
            row.places.capacity()
        );
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec(step(), 0..300)) {
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
                        prop_assert_eq!(row.remove(number), oldest.map(|(_, thing)| thing));
                    }
                }
                prop_assert_eq!((row.len(), row.is_empty()), (map.len(), map.is_empty()));
                prop_assert!(row.places.len() <= 2 * row.len() + EMPTY_FEW);
                let all: Vec<_> = row.iter().map(|(number, thing)| (number, *thing)).collect();
                let known: Vec<_> = map.iter().map(|(number, thing)| (*number, *thing)).collect();
                prop_assert_eq!(all, known);
                for number in next.saturating_sub(45)..=next {
                    prop_assert_eq!(row.get(number), map.get(&number));
                    prop_assert_eq!(row.contains(number), map.contains_key(&number));
                    if let Some(thing) = row.get_mut(number) {
                        *thing += 1;
                    }
                    if let Some(thing) = map.get_mut(&number) {
                        *thing += 1;
                    }
                }
            }
        }
    }
}
