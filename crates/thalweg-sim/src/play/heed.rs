//! How soon the source of a stream knows of what links did not bring.
//!
//! *The idea.* Beside what the ledger says at the end, which must be the truth, stands when it said so. Of each node and band
//! the losses are in the order in which their fate was sealed (the line took them, or they were given up), and so is what the
//! source comes to know: the *k*-th that it knows of is taken for the *k*-th that was lost. It is looked at whenever something
//! happens at the source, so the times are exact.
//!
//! *What it does not do.* It passes over what a node refuses or filters, which is known as soon as what it gives up.

use std::collections::BTreeMap;

use thalweg_core::ledger::{Band, Reading};
use thalweg_core::time::{Duration, Instant};

use crate::oracle::ledger::is_word;

/// Where an ADU was lost, and how much it mattered.
type Key = (usize, Band);

/// How long each took to be known; `None` of what never was.
type Delays = Vec<Option<Duration>>;

/// What a source comes to know of what was lost on lines, and when.
#[derive(Clone, Debug, Default)]
pub struct Heed {
    /// When each was handed to its link, and when its fate was sealed; in the order of the latter.
    lost: BTreeMap<Key, Vec<[Instant; 2]>>,
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
            if is_word(loss.cause) {
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

    /// Takes in when an ADU was handed over that did not come, and when its fate was sealed, from which node, and how much it
    /// mattered.
    pub(super) fn handle_lost(&mut self, at: [Instant; 2], key: (usize, Band)) {
        let lost = self.lost.entry(key).or_default();
        lost.push(at);
        lost.sort_unstable_by_key(|[_, sealed]| *sealed);
    }

    /// Returns for each ADU lost how long after its fate was sealed the source knew, and went on knowing; `None` if it never
    /// did.
    pub fn delays(&self) -> Delays {
        self.delays_since(|[_, sealed]| sealed)
    }

    /// Returns the same from when it was handed to its link: with the time for which it waited there.
    pub fn delays_of_all(&self) -> Delays {
        self.delays_since(|[handed, _]| handed)
    }

    fn delays_since(&self, from: impl Fn([Instant; 2]) -> Instant) -> Delays {
        let delay = |(key, lost): (&Key, &Vec<[Instant; 2]>)| {
            let known = self.known.get(key).map_or(&[][..], Vec::as_slice);
            let since = |count: u64| {
                let after = known.iter().rposition(|(_, sum)| *sum < count);
                known.get(after.map_or(0, |at| at + 1)).map(|(at, _)| *at)
            };
            let counted = (1..).zip(lost);
            let delay =
                |(count, at): (u64, &[_; 2])| Some(since(count)?.saturating_since(from(*at)));
            counted.map(delay).collect::<Vec<_>>()
        };
        self.lost.iter().flat_map(delay).collect()
    }

    /// Returns how many at most the source took for lost at a time that were not, or not yet.
    pub fn alarms(&self) -> u64 {
        let alarm = |(key, known): (&Key, &Vec<(Instant, u64)>)| {
            let lost = self.lost.get(key).map_or(&[][..], Vec::as_slice);
            let true_by = |at: Instant| lost.partition_point(|[_, sealed]| *sealed <= at) as u64;
            let excess = known
                .iter()
                .map(|(at, sum)| sum.saturating_sub(true_by(*at)));
            excess.max().unwrap_or(0)
        };
        self.known.iter().map(alarm).max().unwrap_or(0)
    }
}
