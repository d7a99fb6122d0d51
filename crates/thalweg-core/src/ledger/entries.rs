//! The counters of one node, by what they count: the larger of two values holds, and what has grown is remembered.

use alloc::vec::Vec;

use super::sums::TAKEN_BACK;
use super::{BANDS, Band, Marked, What};
use crate::wire::account::{Entry, Statement};

/// What one node says of one plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    /// When it began to count.
    since: u64,
    counts: Counters,
    /// What it had counted when it began anew.
    before: Counters,
    /// What has grown and has not been told.
    fresh: Numbers,
    /// Who is told knows since when it counts.
    is_since_told: bool,
}

/// Counters by their numbers, in order. There are few, and all are gone through far more often than one is added.
#[derive(Clone, Debug, Default)]
struct Counters(Vec<(u8, u64)>);

/// A set of numbers of counters.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers([u64; 4]);

impl Counters {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn iter(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Returns a counter, which is zero if it was not there.
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

    /// Returns how many counters it keeps.
    pub(super) fn len(&self) -> usize {
        self.counts.len() + self.before.len()
    }

    /// Returns whether nothing was ever heard of it.
    pub(super) const fn is_unknown(&self) -> bool {
        self.since == 0
    }

    /// Returns when it began to count.
    pub(super) const fn since(&self) -> u64 {
        self.since
    }

    /// Returns whether it had counted something and then began anew.
    pub(super) fn has_begun_anew(&self) -> bool {
        self.before.len() > 0
    }

    /// Returns whether it has said all that it copied, to the end of the stream.
    pub(super) fn has_copied_all(&self) -> bool {
        self.named().any(|(what, ..)| what == What::AllCopied)
    }

    pub(super) const fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Takes in a counter; returns whether it has grown.
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

    /// Takes in what a node says; what it said in an earlier life is passed over.
    pub(super) fn merge(&mut self, statement: &Statement) {
        let since = statement.since.unwrap_or(self.since);
        // Whoever does not say since when it counts has said so before, or is passed over.
        if since < self.since || since == 0 {
            return;
        }
        if since > self.since {
            self.since = since;
            self.is_since_told = false;
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

    /// Returns all counters, of all lives; one may come twice.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.counts.iter().chain(self.before.iter())
    }

    /// Returns how many ADUs arrived at the node.
    pub(super) fn arrived(&self) -> Marked {
        let mut arrived = Marked::default();
        for (what, band, count) in self.named() {
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
        for (what, band, count) in self.named() {
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

    /// Returns how many of each band it dropped by what depends on the word of a link, and did not take back itself.
    pub(super) fn doubtful(&self) -> [u64; BANDS] {
        let [mut dropped, mut returned] = [[0_u64; BANDS]; 2];
        for (what, band, count) in self.named() {
            let of = match what {
                What::Dropped(cause) if TAKEN_BACK.contains(&cause) => &mut dropped,
                What::Returned => &mut returned,
                _ => continue,
            };
            of[band.index()] = of[band.index()].saturating_add(count);
        }
        core::array::from_fn(|at| dropped[at].saturating_sub(returned[at]))
    }

    /// Returns all counters by what they count; what was counted in several lives comes as often.
    fn named(&self) -> impl Iterator<Item = (What, Band, u64)> + '_ {
        let named =
            |(number, count)| What::from_number(number).map(|(what, band)| (what, band, count));
        self.all().filter_map(named)
    }

    /// Has everything told again.
    pub(super) fn refresh(&mut self) {
        for (number, _) in self.counts.iter() {
            self.fresh.insert(number);
        }
        self.is_since_told = false;
    }

    /// Says that this node counts.
    pub(super) const fn greeting(&mut self) -> Statement {
        self.is_since_told = true;
        Statement {
            distance: 0,
            since: Some(self.since),
            entries: Vec::new(),
        }
    }

    /// Says what has grown, as a node at this distance; what is not told stays fresh.
    pub(super) fn take_fresh(
        &mut self,
        distance: usize,
        is_told: impl Fn(What) -> bool,
    ) -> Option<Statement> {
        let mut told = Vec::new();
        for (number, count) in self.counts.iter() {
            let what = What::from_number(number).filter(|_| self.fresh.contains(number));
            if what.is_some_and(|(what, _)| is_told(what)) {
                self.fresh.remove(number);
                told.push(Entry {
                    what: number,
                    count,
                });
            }
        }
        if told.is_empty() {
            return None;
        }
        let since = (!self.is_since_told).then_some(self.since);
        self.is_since_told = true;
        Some(Statement {
            distance: distance as u8,
            since,
            entries: told,
        })
    }

    /// Forgets what is fresh: it is for nobody else.
    pub(super) const fn settle(&mut self) {
        self.fresh.clear();
    }
}
