//! What had left a while ago.
//!
//! *The idea.* A few samples of counters that only grow: what is missing at the next node is held against what had left long
//! enough before. Between two samples the earlier one counts, so too little is taken to be missing, never too much.
//!
//! *What it does not do.* It does not say how long is long enough.

use alloc::collections::VecDeque;

use super::Marked;
use crate::time::{Duration, Instant};

/// How far apart samples are at least.
const GRID: Duration = Duration::from_millis(20);

/// Samples of what had left, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Past {
    samples: VecDeque<(Instant, Marked)>,
    /// How many lie within the reach.
    grain: u64,
}

impl Past {
    /// Returns a past that is kept in so many steps.
    pub(super) const fn new(grain: u64) -> Self {
        Self {
            samples: VecDeque::new(),
            grain,
        }
    }

    /// Takes in what has left by now; nobody asks for what is older than `reach`.
    pub(super) fn note(&mut self, now: Instant, left: &Marked, reach: Duration) {
        let apart = GRID.max(Duration::from_nanos(reach.as_nanos() / self.grain));
        let last = self.samples.back();
        if last.is_some_and(|(last, known)| *last + apart > now || known == left) {
            return;
        }
        self.samples.push_back((now, *left));
        // The oldest but one is old enough for whatever is asked.
        while self.samples.len() > 2 && self.samples[1].0 + reach <= now {
            self.samples.pop_front();
        }
    }

    /// Returns what had surely left by then.
    pub(super) fn by(&self, then: Instant) -> Marked {
        let known = self.samples.iter().rev().find(|(at, _)| *at <= then);
        known.map_or_else(Marked::default, |(_, left)| *left)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }
}
