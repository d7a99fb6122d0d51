//! Measures how soon a stream's source learns of losses on links.
//!
//! Per node and band, losses are listed by the time at which their fate was sealed (the line lost them,
//! or the sender dropped them), and the source's knowledge by the time at which its ledger shows it.
//! The *k*-th loss known is treated as the *k*-th loss. The ledger is read whenever something happens at
//! the source, so the times are exact. What a node refuses or filters is left out; the source learns of
//! that as soon as of its drops.

use std::collections::BTreeMap;

use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::{Band, Reading};

use crate::oracle::ledger::is_link_cause;

/// The node at which an ADU was lost, and its band.
type Key = (usize, Band);

/// How long the source took to learn of each loss; `None` if it never did.
type Delays = Vec<Option<Duration>>;

/// What a source learns of losses on lines, and when.
#[derive(Clone, Debug, Default)]
pub struct LossDelays {
    /// When each ADU was handed to its link, and when its fate was sealed; sorted by the latter.
    lost: BTreeMap<Key, Vec<[Instant; 2]>>,
    known: BTreeMap<Key, Vec<(Instant, u64)>>,
}

impl LossDelays {
    /// Records a ledger reading of the source; `place` maps a loss to its node's index.
    pub(super) fn handle_reading(
        &mut self,
        reading: &Reading,
        place: impl Fn(&thalweg_control::ledger::Loss) -> usize,
        now: Instant,
    ) {
        let mut sums: BTreeMap<Key, u64> = self.known.keys().map(|key| (*key, 0)).collect();
        for loss in &reading.losses {
            if is_link_cause(loss.cause) {
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

    /// Records a loss: when the ADU was handed over and when its fate was sealed, the sending node, and
    /// the band.
    pub(super) fn handle_lost(&mut self, at: [Instant; 2], key: (usize, Band)) {
        let lost = self.lost.entry(key).or_default();
        lost.push(at);
        lost.sort_unstable_by_key(|[_, sealed]| *sealed);
    }

    /// Returns, for each loss, how long after its fate was sealed the source learned of it for good;
    /// `None` if it never did.
    pub fn delays(&self) -> Delays {
        self.delays_since(|[_, sealed]| sealed)
    }

    /// Returns the same since the ADU was handed to its link, including its time in the queue.
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

    /// Returns the maximum number of losses that the source believed in at one time before they were true.
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
