//! A host's own clock: ahead of the world's, and faster or slower.
//!
//! *The idea.* No two clocks of a network agree, so none may in a simulation: each host reads
//!
//! ```text
//! local = offset + world · (1 + drift)
//! ```
//!
//! rounded down to a nanosecond, in integers so that every machine reads the same. A timeout on the local clock is
//! brought back to the world's by the inverse, rounded up: an event never comes before its time.
//!
//! *What it does not do.* It does not jump or go backwards; a node does not cope with that and says so.

use thalweg_core::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Parts of a millionth.
const MILLION: i128 = 1_000_000;

/// A clock that is off.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: Duration,
    drift_ppm: i32,
}

impl Clock {
    /// Returns a clock that is ahead by `offset` at the world's start and gains `drift_ppm` millionths.
    pub const fn new(offset: Duration, drift_ppm: i32) -> Self {
        Self { offset, drift_ppm }
    }

    /// Returns what it shows at a moment of the world.
    pub fn local(&self, world: Instant) -> Instant {
        let elapsed =
            i128::from(world.as_nanos()) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        Instant::from_nanos(elapsed as u64) + self.offset
    }

    /// Returns the first moment of the world at which it shows `local` or more; never for never.
    pub fn world(&self, local: Instant) -> Instant {
        if local.is_never() {
            return Instant::NEVER;
        }
        let elapsed = i128::from(local.as_nanos()) - i128::from(self.offset.as_nanos());
        if elapsed <= 0 {
            return Instant::ZERO;
        }
        let rate = MILLION + i128::from(self.drift_ppm);
        let nanos = (elapsed * MILLION + rate - 1) / rate;
        u64::try_from(nanos).map_or(Instant::NEVER, Instant::from_nanos)
    }
}
