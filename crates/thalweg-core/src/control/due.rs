//! When the first of many things is due, without asking all of them each time.
//!
//! *The idea.* A control plane is asked after every input when it has something to do, and of a hub with hundreds of viewers
//! hundreds of things have a time of their own. So a bound is kept, below which nothing is due: whoever gives one of them a time
//! says so, which lowers it, and who has looked at all of them raises it. That something was put off is not told: then one look is
//! for nothing.
//!
//! *What it does not do.* It knows none of the things.

use crate::time::Instant;

/// A time before which nothing is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due(Instant);

impl Default for Due {
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Due {
    /// Returns when to look at the things: never later than the first of them is due.
    pub(super) const fn at(self) -> Instant {
        self.0
    }

    /// Takes in that one of them is due then.
    pub(super) fn handle(&mut self, at: Instant) {
        self.0 = self.0.min(at);
    }

    /// Returns whether none of them is due earlier.
    pub(super) fn holds(self, mut all: impl Iterator<Item = Instant>) -> bool {
        all.all(|at| self.0 <= at)
    }

    /// Takes in when each of them is due.
    pub(super) fn look(&mut self, all: impl Iterator<Item = Instant>) {
        self.0 = all.min().unwrap_or(Instant::NEVER);
    }
}
