//! Which ADUs of a stream have come to its sink, by whatever way: what came before is not delivered again.
//!
//! *The idea.* A set of sequences as disjoint ranges over a floor. Everything below the floor is settled: it came, or was
//! missing for so long that so many ranges lie above it that nobody waits for it any more. The same set is what the sink
//! acknowledges ([`Held`]), so one account serves both.
//!
//! ```text
//! settled │ missing │ came │ missing │ came
//!         floor     └ range ┘         └ range ┘
//! ```
//!
//! Whoever begins with a stream that comes here yet ([`Seen::begin_anew`]) has had none of it: what came before is new to him, and
//! acknowledged as ever. Where those before him have left, and he is to be served by plans of his own, what theirs still bring is not
//! his: his stream would begin with their last ADUs, and lack what lies between.
//!
//! *What it does not do.* It keeps no ADU and knows no subscriber.
//!
//! *Sources.* docs/continuity.md §3; RFC 9000 §19.3 (acknowledgement ranges).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::event::DropCause;
use crate::id::{Epoch, Sequence};
use crate::limits::{RECEIPT_RANGES_MAX, SEEN_RANGES_MAX};

#[cfg(test)]
mod tests;

/// The sequences of one stream that have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// To those who want it now.
    now: Ranges,
    /// To the node, if somebody has begun anew.
    ever: Option<Box<Ranges>>,
    /// What plans up to this one bring was given to those who wanted it before.
    former: Option<Epoch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges {
    floor: u64,
    /// By their first sequence; none touches another or the floor.
    ranges: BTreeMap<u64, u64>,
}

/// What a sink says that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Everything below is settled.
    pub floor: u64,
    /// What has come above, by rising sequence, none touching another; of many only the newest are told.
    pub ranges: Vec<Range<u64>>,
}

impl Seen {
    /// Takes in a sequence that a plan brought.
    ///
    /// Fails   it has come before to those who want the stream, or is below the floor: `duplicate`; it was given to those who
    ///         wanted it before: `cancelled`
    /// Cost    O(log ranges)
    pub fn insert(&mut self, epoch: Epoch, sequence: Sequence) -> Result<(), DropCause> {
        if let Some(ever) = &mut self.ever {
            ever.insert(sequence);
        }
        if self.former.is_some_and(|former| epoch <= former) {
            return Err(DropCause::Cancelled);
        }
        let is_new = self.now.insert(sequence);
        if is_new {
            Ok(())
        } else {
            Err(DropCause::Duplicate)
        }
    }

    /// From now on all that comes is new, whether it had come before or not, and is given to who begins: but what plans up to
    /// `former` bring is of those who have left. What had come is held nevertheless.
    pub fn begin_anew(&mut self, former: Option<Epoch>) {
        let before = core::mem::take(&mut self.now);
        self.ever.get_or_insert_with(|| Box::new(before));
        self.former = former;
    }

    /// Those who begin are served by the plans of those before them.
    pub const fn go_on(&mut self) {
        self.former = None;
    }

    /// Returns what is to be acknowledged.
    pub fn held(&self) -> Held {
        self.ever.as_deref().unwrap_or(&self.now).held()
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
    /// Returns what says that nothing is missing, whatever was sent.
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

    /// Returns how many sequences are settled, of those that are told.
    pub fn count(&self) -> u64 {
        self.more_than(&Self::default())
    }

    /// Returns how many sequences are told as settled that another does not tell.
    ///
    /// Cost    O(ranges · other ranges)
    pub fn more_than(&self, other: &Self) -> u64 {
        let more = self.told().map(|range| {
            let shared = other.told().map(|told| {
                let (start, end) = (range.start.max(told.start), range.end.min(told.end));
                end.saturating_sub(start)
            });
            let shared = shared.fold(0, u64::saturating_add);
            range.end.saturating_sub(range.start).saturating_sub(shared)
        });
        more.fold(0, u64::saturating_add)
    }

    /// Returns what is settled, the floor as a range.
    fn told(&self) -> impl Iterator<Item = Range<u64>> {
        core::iter::once(0..self.floor).chain(self.ranges.iter().cloned())
    }

    /// Returns whether a sequence is known to have come, and not only settled. Where as many ranges are told as can be there may be more,
    /// and the floor may lie above what never came.
    pub fn names(&self, sequence: Sequence) -> bool {
        let is_real = self.ranges.len() < RECEIPT_RANGES_MAX && *self != Self::everything();
        let is_in = |range: &Range<u64>| range.contains(&sequence.0);
        is_real && sequence.0 < self.floor || self.ranges.iter().any(is_in)
    }

    /// Returns whether a sequence is known to be missing though a later one has come. Of many ranges only the newest are told, and
    /// what lies before those may have come.
    pub fn lacks(&self, sequence: Sequence) -> bool {
        let (Some(first), Some(newest)) = (self.ranges.first(), self.ranges.last()) else {
            return false;
        };
        let is_told = self.ranges.len() < RECEIPT_RANGES_MAX || sequence.0 >= first.start;
        is_told && sequence.0 < newest.start && !self.has(sequence)
    }
}
