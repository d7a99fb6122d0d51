//! The counters of one node: values merge by maximum, and those that have grown are remembered.

use alloc::vec::Vec;

use thalweg_base::event::DropCause;
use thalweg_base::wire::account::{Entry, Statement};

use super::{BANDS, Band, Marked, What};

/// The order in which causes are charged for double counts: all of them depend on a link's word.
pub(super) const TAKEN_BACK: [DropCause; 4] = [
    DropCause::PathLost,
    DropCause::Expired,
    DropCause::Cancelled,
    DropCause::Dependant,
];

/// One node's counters of one plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    /// When the node began to count; 0 if nothing was heard of it.
    since: u64,
    counts: Counters,
    /// The sums of the node's earlier lives, before it was restarted.
    before: Counters,
    /// Counters that have grown and are not reported yet.
    fresh: Numbers,
    /// The upstream node knows `since`.
    is_since_reported: bool,
}

/// Counters sorted by number. There are few, and reads of all are far more frequent than
/// insertions.
#[derive(Clone, Debug, Default)]
struct Counters(Vec<(u8, u64)>);

/// A set of counter numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers([u64; 4]);

impl Counters {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn iter(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Returns a counter, inserting zero if it is missing.
    fn entry(&mut self, number: u8) -> &mut u64 {
        let found = self.0.binary_search_by_key(&number, |(number, _)| *number);
        let at = found.unwrap_or_else(|at| {
            self.0.insert(at, (number, 0));
            at
        });
        &mut self.0[at].1
    }
}

impl Numbers {
    const fn is_empty(self) -> bool {
        matches!(self.0, [0, 0, 0, 0])
    }

    const fn contains(self, number: u8) -> bool {
        self.0[number as usize / 64] >> (number % 64) & 1 == 1
    }

    const fn insert(&mut self, number: u8) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    const fn remove(&mut self, number: u8) {
        self.0[number as usize / 64] &= !(1 << (number % 64));
    }

    const fn clear(&mut self) {
        self.0 = [0; 4];
    }
}

impl Entries {
    pub(super) fn new(since: u64) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Returns how many counters are stored.
    pub(super) fn len(&self) -> usize {
        self.counts.len() + self.before.len()
    }

    /// Returns whether nothing was ever heard of the node.
    pub(super) const fn is_unknown(&self) -> bool {
        self.since == 0
    }

    /// Returns when the node began to count.
    pub(super) const fn since(&self) -> u64 {
        self.since
    }

    /// Returns whether the node had counted something and was then restarted.
    pub(super) fn was_restarted(&self) -> bool {
        self.before.len() > 0
    }

    /// Returns whether the node has reported all its copies, up to the end of the stream.
    pub(super) fn has_copied_all(&self) -> bool {
        self.by_meaning().any(|(what, ..)| what == What::AllCopied)
    }

    pub(super) const fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Raises a counter to `count`; returns whether it has grown.
    pub(super) fn raise(&mut self, number: u8, count: u64) -> bool {
        if count == 0 {
            return false;
        }
        let known = self.counts.entry(number);
        let has_grown = count > *known;
        if has_grown {
            *known = count;
            self.fresh.insert(number);
        }
        has_grown
    }

    /// Merges a node's statement; one from an earlier life is ignored.
    pub(super) fn merge(&mut self, statement: &Statement) {
        let since = statement.since.unwrap_or(self.since);
        // A statement without `since` continues an earlier one; if none was heard it is ignored.
        if since < self.since || since == 0 {
            return;
        }
        // A new life: the counters of the former one become a constant sum.
        if since > self.since {
            self.since = since;
            self.is_since_reported = false;
            self.fresh.clear();
            for (number, count) in core::mem::take(&mut self.counts).iter() {
                let before = self.before.entry(number);
                *before = before.saturating_add(count);
            }
        }
        for entry in &statement.entries {
            if What::from_number(entry.what).is_some() {
                self.raise(entry.what, entry.count);
            }
        }
    }

    /// Returns all counters of all lives; a number may occur twice.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.counts.iter().chain(self.before.iter())
    }

    /// Returns how many ADUs arrived at the node.
    pub(super) fn arrived(&self) -> Marked {
        let mut arrived = Marked::default();
        for (what, band, count) in self.by_meaning() {
            if let What::Arrived(mark) = what {
                let arrived = &mut arrived[mark.index()][band.index()];
                *arrived = arrived.saturating_add(count);
            }
        }
        arrived
    }

    /// Returns how many ADUs of each band ended at the node.
    pub(super) fn ended(&self) -> [u64; BANDS] {
        let [mut dropped, mut returned, mut delivered] = [[0_u64; BANDS]; 3];
        for (what, band, count) in self.by_meaning() {
            let of = match what {
                What::Dropped(_) => &mut dropped,
                What::Returned => &mut returned,
                What::Delivered => &mut delivered,
                What::Arrived(_) | What::AllCopied => continue,
            };
            of[band.index()] = of[band.index()].saturating_add(count);
        }
        core::array::from_fn(|at| {
            let lost = dropped[at].saturating_sub(returned[at]);
            lost.saturating_add(delivered[at])
        })
    }

    /// Returns how many ADUs of each band the node dropped for a cause that depends on the link's
    /// word and did not take back itself.
    pub(super) fn doubtful(&self) -> [u64; BANDS] {
        let [mut dropped, mut returned] = [[0_u64; BANDS]; 2];
        for (what, band, count) in self.by_meaning() {
            let of = match what {
                What::Dropped(cause) if TAKEN_BACK.contains(&cause) => &mut dropped,
                What::Returned => &mut returned,
                _ => continue,
            };
            of[band.index()] = of[band.index()].saturating_add(count);
        }
        core::array::from_fn(|at| dropped[at].saturating_sub(returned[at]))
    }

    /// Returns all counters by meaning; one that was counted in several lives occurs as often.
    fn by_meaning(&self) -> impl Iterator<Item = (What, Band, u64)> + '_ {
        let named =
            |(number, count)| What::from_number(number).map(|(what, band)| (what, band, count));
        self.all().filter_map(named)
    }

    /// Marks everything as unreported.
    pub(super) fn refresh(&mut self) {
        for (number, _) in self.counts.iter() {
            self.fresh.insert(number);
        }
        self.is_since_reported = false;
    }

    /// Returns a statement without counters: it says only that this node counts.
    pub(super) const fn greeting(&mut self) -> Statement {
        self.is_since_reported = true;
        Statement {
            distance: 0,
            since: Some(self.since),
            entries: Vec::new(),
        }
    }

    /// Returns a statement, from `distance` hops away, of the grown counters that `is_included`
    /// accepts; the others stay fresh.
    pub(super) fn take_fresh(
        &mut self,
        distance: usize,
        is_included: impl Fn(What) -> bool,
    ) -> Option<Statement> {
        let mut entries = Vec::new();
        for (number, count) in self.counts.iter() {
            let what = What::from_number(number).filter(|_| self.fresh.contains(number));
            if what.is_some_and(|(what, _)| is_included(what)) {
                self.fresh.remove(number);
                entries.push(Entry {
                    what: number,
                    count,
                });
            }
        }
        if entries.is_empty() {
            return None;
        }
        let since = (!self.is_since_reported).then_some(self.since);
        self.is_since_reported = true;
        Some(Statement {
            distance: distance as u8,
            since,
            entries,
        })
    }

    /// Marks the rest as reported: no other node needs it.
    pub(super) const fn mark_reported(&mut self) {
        self.fresh.clear();
    }
}
