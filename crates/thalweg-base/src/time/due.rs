//! The earliest due time of many items, without scanning all of them each time.
//!
//! *The idea.* A control plane is asked after every input when it has something to do, and a hub
//! with hundreds of viewers has hundreds of timers. So a lower bound of their due times is kept:
//! setting a timer lowers it, and a scan of all of them raises it. A postponed timer leaves the
//! bound too low, which costs one needless scan.
//!
//! *What it does not do.* It does not store the items.

use super::Instant;

/// A time before which nothing is due.
#[derive(Clone, Copy, Debug)]
pub struct Due(Instant);

impl Default for Due {
    fn default() -> Self {
        Self(Instant::NEVER)
    }
}

impl Due {
    /// Starts with items of which none is due before `at`.
    pub const fn new(at: Instant) -> Self {
        Self(at)
    }

    /// Returns when to scan the items: at or before the earliest due time.
    pub const fn at(self) -> Instant {
        self.0
    }

    /// Takes in that an item is due at `at`.
    pub fn handle(&mut self, at: Instant) {
        self.0 = self.0.min(at);
    }

    /// Returns whether no item is due earlier than the bound.
    pub fn holds(self, mut all: impl Iterator<Item = Instant>) -> bool {
        all.all(|at| self.0 <= at)
    }

    /// Sets the bound to the earliest of all due times.
    pub fn look(&mut self, all: impl Iterator<Item = Instant>) {
        *self = all.min().map(Self::new).unwrap_or_default();
    }
}
