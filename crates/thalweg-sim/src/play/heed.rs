//! How soon the source of a stream knows of what its line lost.
//!
//! *The idea.* Beside what the ledger says at the end, which must be the truth, stands when it said so. Of each node and band
//! the losses are in the order in which they left, and so is what the source comes to know: the *k*-th that it knows of is
//! taken for the *k*-th that was lost. It is looked at whenever something happens at the source, so the times are exact.
//!
//! *What it does not do.* It looks at datagrams only: of all else a sender is told what became of it.

use std::collections::BTreeMap;

use thalweg_core::event::DropCause;
use thalweg_core::ledger::{Band, Reading};
use thalweg_core::time::{Duration, Instant};

/// Where an ADU was lost, and how much it mattered.
type Key = (usize, Band);

/// What a source comes to know of what was lost on lines, and when.
#[derive(Clone, Debug, Default)]
pub struct Heed {
    lost: BTreeMap<Key, Vec<Instant>>,
    known: BTreeMap<Key, Vec<(Instant, u64)>>,
}

impl Heed {
    /// Takes in what a source knows now; `place` tells where a node is.
    pub(super) fn handle_reading(
        &mut self,
        reading: &Reading,
        place: impl Fn(&thalweg_core::ledger::Loss) -> usize,
        now: Instant,
    ) {
        let mut sums: BTreeMap<Key, u64> = self.known.keys().map(|key| (*key, 0)).collect();
        for loss in &reading.losses {
            if loss.cause == DropCause::PathLost {
                *sums.entry((place(loss), loss.band)).or_default() += loss.adus;
            }
        }
        for (key, sum) in sums {
            let known = self.known.entry(key).or_default();
            if known.last().map_or(0, |(_, last)| *last) != sum {
                known.push((now, sum));
            }
        }
    }

    /// Takes in when a datagram left that did not come, from which node, and how much it mattered.
    pub(super) fn handle_lost(&mut self, left: Instant, key: (usize, Band)) {
        let lost = self.lost.entry(key).or_default();
        lost.push(left);
        lost.sort_unstable();
    }

    /// Returns for each datagram lost how long after it left the source knew, and went on knowing; `None` if it never did.
    pub fn delays(&self) -> Vec<Option<Duration>> {
        let delay = |(key, lost): (&Key, &Vec<Instant>)| {
            let known = self.known.get(key).map_or(&[][..], Vec::as_slice);
            let since = |count: u64| {
                let after = known.iter().rposition(|(_, sum)| *sum < count);
                known.get(after.map_or(0, |at| at + 1)).map(|(at, _)| *at)
            };
            let counted = (1..).zip(lost);
            let delay =
                |(count, left): (u64, &Instant)| Some(since(count)?.saturating_since(*left));
            counted.map(delay).collect::<Vec<_>>()
        };
        self.lost.iter().flat_map(delay).collect()
    }

    /// Returns how many at most the source took for lost at a time that were not, or not yet.
    pub fn alarms(&self) -> u64 {
        let alarm = |(key, known): (&Key, &Vec<(Instant, u64)>)| {
            let lost = self.lost.get(key).map_or(&[][..], Vec::as_slice);
            let true_by = |at: Instant| lost.partition_point(|left| *left <= at) as u64;
            let excess = known
                .iter()
                .map(|(at, sum)| sum.saturating_sub(true_by(*at)));
            excess.max().unwrap_or(0)
        };
        self.known.iter().map(alarm).max().unwrap_or(0)
    }
}
