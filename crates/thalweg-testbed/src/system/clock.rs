//! The machine's monotonic clock, which all processes of a run share.
//!
//! `CLOCK_MONOTONIC` counts from the same moment in every process and every network namespace of a
//! machine, and cannot be set. A time of day could jump.

use rustix::time::{ClockId, clock_gettime};
use thalweg_base::time::Instant;

/// Returns the time since the machine started.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let secs = u64::try_from(time.tv_sec).expect("this clock begins at zero");
    let nanos = u64::try_from(time.tv_nsec).expect("nanoseconds of a second are not negative");
    Instant::from_nanos(secs * 1_000_000_000 + nanos)
}
