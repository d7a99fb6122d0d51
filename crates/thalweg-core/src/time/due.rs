//! When the first of many things is due, without asking all of them each time.
//!
//! *The idea.* A control plane is asked after every input when it has something to do, and of a hub with hundreds of viewers
//! hundreds of things have a time of their own. So a bound is kept, below which nothing is due: whoever gives one of them a time
//! says so, which lowers it, and who has looked at all of them raises it. That something was put off is not told: then one look is
//! for nothing.
//!
//! *What it does not do.* It knows none of the things.

use super::Instant;

/// A time before which nothing is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due(Instant);

impl Default for Due {
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Due {
    /// Begins with things of which none is due earlier.
    pub(crate) const fn new(at: Instant) -> Self {
        Self(at)
    }

    /// Returns when to look at the things: never later than the first of them is due.
    pub(crate) const fn at(self) -> Instant {
        self.0
    }

    /// Takes in that one of them is due then.
    pub(crate) fn handle(&mut self, at: Instant) {
        self.0 = self.0.min(at);
    }

    /// Returns whether none of them is due earlier.
    pub(crate) fn holds(self, mut all: impl Iterator<Item = Instant>) -> bool {
        all.all(|at| self.0 <= at)
    }

    /// Takes in when each of them is due.
    pub(crate) fn look(&mut self, all: impl Iterator<Item = Instant>) {
        *self = all.min().map(Self::new).unwrap_or_default();
    }
}
