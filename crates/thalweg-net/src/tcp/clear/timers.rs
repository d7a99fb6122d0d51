//! One heap of timers for all entries.
//!
//! *The idea.* An entry has one timer that counts: the one at the time that its seat holds. An earlier
//! time adds one, and those at other times are skipped when they come up. A later time adds none: when
//! the timer goes off it is set again, without a look at its entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, u64)>>);

impl Timers {
    /// Adds a timer of an entry.
    pub(super) fn set(&mut self, id: u64, at: Instant) {
        self.0.push(Reverse((at, id)));
    }

    /// Returns the time of the first timer.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first timer if it is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, u64)> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse(timer)| timer)
    }
}
