//! A host's local clock, with a fixed offset and drift against world time.
//!
//! Clocks in a network disagree, so the simulated ones do too. Each host reads
//!
//! ```text
//! local = offset + world · (1 + drift)
//! ```
//!
//! rounded down to a nanosecond, in integer arithmetic so that every machine computes the same value.
//! The inverse rounds up, so a timer never fires early. The clock never jumps or goes backwards.

use thalweg_base::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Parts per million in one.
const MILLION: i128 = 1_000_000;

/// A local clock with an offset and a drift.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset: Duration,
    drift_ppm: i32,
}

impl Clock {
    /// Returns a clock that is ahead by `offset` at world time zero and gains `drift_ppm` parts per million.
    pub const fn new(offset: Duration, drift_ppm: i32) -> Self {
        Self { offset, drift_ppm }
    }

    /// Returns the local time at a moment of world time.
    pub fn local(&self, world: Instant) -> Instant {
        let elapsed =
            i128::from(world.as_nanos()) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        Instant::from_nanos(elapsed as u64) + self.offset
    }

    /// Returns the earliest world time at which the clock shows `local` or more; `NEVER` maps to `NEVER`.
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
