//! Samples of how much had left earlier.
//!
//! *The idea.* A few samples of counters that only grow. An arrival count is compared with what had
//! left long enough before. Between two samples the earlier one is used, so losses are
//! underestimated and never overestimated.
//!
//! *What it does not do.* It does not decide how long is long enough.

use alloc::collections::VecDeque;

use thalweg_base::time::{Duration, Instant};

use super::Marked;

/// Minimum spacing of samples.
const GRID: Duration = Duration::from_millis(20);

/// Samples of how much had left, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct History {
    samples: VecDeque<(Instant, Marked)>,
    /// Number of samples within the reach.
    grain: u64,
}

impl History {
    /// Returns an empty history of `grain` samples.
    pub(super) const fn new(grain: u64) -> Self {
        Self {
            samples: VecDeque::new(),
            grain,
        }
    }

    /// Adds a sample of `left`; nothing older than `reach` will be queried.
    pub(super) fn note(&mut self, now: Instant, left: &Marked, reach: Duration) {
        let apart = GRID.max(Duration::from_nanos(reach.as_nanos() / self.grain));
        let last = self.samples.back();
        if last.is_some_and(|(last, known)| *last + apart > now || known == left) {
            return;
        }
        self.samples.push_back((now, *left));
        // The second oldest sample is old enough for every query.
        while self.samples.len() > 2 && self.samples[1].0 + reach <= now {
            self.samples.pop_front();
        }
    }

    /// Returns what had left by `then`, or somewhat less.
    pub(super) fn by(&self, then: Instant) -> Marked {
        let known = self.samples.iter().rev().find(|(at, _)| *at <= then);
        known.map_or_else(Marked::default, |(_, left)| *left)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }
}
