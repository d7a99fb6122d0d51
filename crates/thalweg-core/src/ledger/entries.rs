//! The counters of one node, by what they count: the larger of two values holds, and what has grown is remembered.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Band, What};
use crate::wire::account::{Entry, Statement};

/// What one node says of one plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    /// When it began to count.
    since: u64,
    counts: BTreeMap<u8, u64>,
    /// What it had counted when it began anew.
    before: BTreeMap<u8, u64>,
    /// What has grown and has not been told.
    fresh: BTreeSet<u8>,
    /// Who is told knows since when it counts.
    is_since_told: bool,
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

    pub(super) fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Takes in a counter; returns whether it has grown.
    pub(super) fn raise(&mut self, number: u8, count: u64) -> bool {
        if count == 0 {
            return false;
        }
        let known = self.counts.entry(number).or_default();
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
            for (number, count) in core::mem::take(&mut self.counts) {
                let before = self.before.entry(number).or_default();
                *before = before.saturating_add(count);
            }
        }
        for entry in &statement.entries {
            if What::from_number(entry.what).is_some() {
                self.raise(entry.what, entry.count);
            }
        }
    }

    /// Returns how many there were in all lives.
    pub(super) fn of(&self, what: What, band: Band) -> u64 {
        let number = what.number(band);
        let count = |counts: &BTreeMap<u8, u64>| counts.get(&number).copied().unwrap_or(0);
        count(&self.counts).saturating_add(count(&self.before))
    }

    /// Returns all counters, of all lives; one may come twice.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        let all = self.counts.iter().chain(&self.before);
        all.map(|(number, count)| (*number, *count))
    }

    /// Has everything told again.
    pub(super) fn refresh(&mut self) {
        self.fresh = self.counts.keys().copied().collect();
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
        let is_told =
            |number: &u8| What::from_number(*number).is_some_and(|(what, _)| is_told(what));
        let fresh = core::mem::take(&mut self.fresh);
        let (told, kept) = fresh.into_iter().partition::<BTreeSet<u8>, _>(is_told);
        self.fresh = kept;
        if told.is_empty() {
            return None;
        }
        let entry = |what| Entry {
            what,
            count: self.counts[&what],
        };
        let since = (!self.is_since_told).then_some(self.since);
        self.is_since_told = true;
        Some(Statement {
            distance: distance as u8,
            since,
            entries: told.into_iter().map(entry).collect(),
        })
    }

    /// Forgets what is fresh: it is for nobody else.
    pub(super) fn settle(&mut self) {
        self.fresh.clear();
    }
}
