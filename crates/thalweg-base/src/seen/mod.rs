//! The ADUs of a stream that have arrived at its sink, by any path, to detect duplicates.
//!
//! *The idea.* A set of sequences, as a floor and disjoint ranges above it. Everything below the floor is
//! settled: it arrived, or was missing for so long that the maximum number of ranges lies above it, so that
//! no subscriber waits for it. The receipt ([`Held`]) is the same set, so one structure serves both.
//!
//! ```text
//! settled │ missing │ came │ missing │ came
//!         floor     └ range ┘         └ range ┘
//! ```
//!
//! A program that joins a stream which already arrives ([`Seen::begin_anew`]) has none of it:
//! everything is new to it, while receipts go on as before. If the earlier programs have left and
//! the new one gets plans of its own, the rest of theirs is not for it: its stream would start with
//! their last ADUs, and lack what lies between.
//!
//! *What it does not do.* It stores no ADU and knows no subscriber.
//!
//! *Sources.* docs/concepts/continuity.md §3; RFC 9000 §19.3 (acknowledgement ranges).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::event::DropCause;
use crate::id::{Epoch, Sequence};
use crate::limits::{RECEIPT_RANGES_MAX, SEEN_RANGES_MAX};

#[cfg(test)]
mod tests;

/// The sequences of one stream that have arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// For the present subscribers.
    current: Ranges,
    /// For the node, if a subscriber has started again.
    all: Option<Box<Ranges>>,
    /// The last plan of the former subscribers: what such plans bring is not for the present ones.
    former: Option<Epoch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges {
    floor: u64,
    /// Start to end; none touches another or the floor.
    ranges: BTreeMap<u64, u64>,
}

/// The contents of a receipt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Everything below is settled.
    pub floor: u64,
    /// Ranges above the floor in rising order, none touching another; of many only the newest are reported.
    pub ranges: Vec<Range<u64>>,
}

impl Seen {
    /// Inserts a sequence that arrived by a plan.
    ///
    /// Fails   with `duplicate` if the present subscribers have it or it is below the floor; with
    ///         `cancelled` if it belongs to former subscribers
    /// Cost    O(log ranges)
    pub fn insert(&mut self, epoch: Epoch, sequence: Sequence) -> Result<(), DropCause> {
        if let Some(all) = &mut self.all {
            all.insert(sequence);
        }
        if self.former.is_some_and(|former| epoch <= former) {
            return Err(DropCause::Cancelled);
        }
        let is_new = self.current.insert(sequence);
        if is_new {
            Ok(())
        } else {
            Err(DropCause::Duplicate)
        }
    }

    /// Makes everything new for the subscribers that start now, except what plans up to `former`
    /// bring, which belongs to subscribers that have left. Receipts still name what arrived before.
    pub fn begin_anew(&mut self, former: Option<Epoch>) {
        let before = core::mem::take(&mut self.current);
        self.all.get_or_insert_with(|| Box::new(before));
        self.former = former;
    }

    /// Lets the present subscribers use the plans of the former ones.
    pub const fn go_on(&mut self) {
        self.former = None;
    }

    /// Returns the receipt.
    pub fn held(&self) -> Held {
        self.all.as_deref().unwrap_or(&self.current).held()
    }
}

impl Ranges {
    fn insert(&mut self, sequence: Sequence) -> bool {
        let sequence = sequence.0;
        if sequence < self.floor {
            return false;
        }
        let before = self.ranges.range(..=sequence).next_back();
        let before = before.map(|(from, to)| (*from, *to));
        if before.is_some_and(|(_, to)| sequence < to) {
            return false;
        }
        let mut range = sequence..sequence + 1;
        if let Some((from, to)) = before
            && to == sequence
        {
            range.start = from;
        }
        if let Some(to) = self.ranges.remove(&(sequence + 1)) {
            range.end = to;
        }
        if range.start == self.floor {
            self.ranges.remove(&range.start);
            self.floor = range.end;
        } else {
            self.ranges.insert(range.start, range.end);
        }
        while self.ranges.len() > SEEN_RANGES_MAX {
            if let Some((_, to)) = self.ranges.pop_first() {
                self.floor = to;
            }
        }
        true
    }

    fn held(&self) -> Held {
        let newest = self.ranges.iter().rev().take(RECEIPT_RANGES_MAX);
        let mut ranges: Vec<Range<u64>> = newest.map(|(from, to)| *from..*to).collect();
        ranges.reverse();
        Held {
            floor: self.floor,
            ranges,
        }
    }
}

impl Held {
    /// Returns a receipt that acknowledges everything, whatever was sent.
    pub const fn everything() -> Self {
        Self {
            floor: u64::MAX,
            ranges: Vec::new(),
        }
    }

    /// Returns whether a sequence is settled.
    pub fn has(&self, sequence: Sequence) -> bool {
        let is_in = |range: &Range<u64>| range.contains(&sequence.0);
        sequence.0 < self.floor || self.ranges.iter().any(is_in)
    }

    /// Returns how many sequences the receipt settles.
    pub fn count(&self) -> u64 {
        self.more_than(&Self::default())
    }

    /// Returns how many sequences this receipt settles and another does not.
    ///
    /// Cost    O(ranges · other ranges)
    pub fn more_than(&self, other: &Self) -> u64 {
        let more = self.intervals().map(|range| {
            let shared = other.intervals().map(|theirs| {
                let (start, end) = (range.start.max(theirs.start), range.end.min(theirs.end));
                end.saturating_sub(start)
            });
            let shared = shared.fold(0, u64::saturating_add);
            range.end.saturating_sub(range.start).saturating_sub(shared)
        });
        more.fold(0, u64::saturating_add)
    }

    /// Returns the settled ranges, with the floor as one.
    fn intervals(&self) -> impl Iterator<Item = Range<u64>> {
        core::iter::once(0..self.floor).chain(self.ranges.iter().cloned())
    }

    /// Returns whether a sequence is known to have arrived, not only settled. A receipt with the maximum
    /// number of ranges may be incomplete, and its floor may lie above sequences that never arrived.
    pub fn names(&self, sequence: Sequence) -> bool {
        let is_real = self.ranges.len() < RECEIPT_RANGES_MAX && *self != Self::everything();
        let is_in = |range: &Range<u64>| range.contains(&sequence.0);
        is_real && sequence.0 < self.floor || self.ranges.iter().any(is_in)
    }

    /// Returns whether a sequence is known to be missing though a later one has arrived. A receipt
    /// names only the newest of many ranges, and earlier sequences may have arrived.
    pub fn lacks(&self, sequence: Sequence) -> bool {
        let (Some(first), Some(newest)) = (self.ranges.first(), self.ranges.last()) else {
            return false;
        };
        let is_covered = self.ranges.len() < RECEIPT_RANGES_MAX || sequence.0 >= first.start;
        is_covered && sequence.0 < newest.start && !self.has(sequence)
    }
}

/// How soon a source is to be informed of what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum News {
    /// With the next regular receipt.
    Usual,
    /// At once: much has arrived.
    Much,
    /// At once: the end of the stream has arrived.
    Ended,
}
