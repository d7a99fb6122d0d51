//! How long things took lately.
//!
//! *The idea.* One histogram for each second; the one of ten seconds ago is used again for the second that begins. So
//! what is old goes by itself, a second at a time, without anybody who tidies up.
//!
//! *What it does not do.* It reads no clock: whoever asks says when.

use super::{Histogram, Percentiles};
use crate::time::{Duration, Instant};

/// How far back it reaches: over nine seconds, up to ten.
pub const RECENT_SPAN: Duration = Duration::from_secs(SLICES as u64);

const SLICES: usize = 10;
const SLICE: Duration = Duration::from_secs(1);

/// The times of the last ten seconds.
///
/// Cost    65 kB once as many seconds had something to record
#[derive(Clone, Debug, Default)]
pub struct Recent {
    slices: [Slice; SLICES],
}

/// The times of one second.
#[derive(Clone, Debug, Default)]
struct Slice {
    /// Which second since the start.
    second: u64,
    histogram: Histogram,
}

impl Recent {
    /// Takes in a time that ended now.
    ///
    /// Cost    O(1); once a second O(buckets)
    pub fn record(&mut self, now: Instant, time: Duration) {
        let second = second(now);
        let slice = &mut self.slices[(second % SLICES as u64) as usize];
        if slice.second != second {
            slice.second = second;
            slice.histogram.clear();
        }
        slice.histogram.record(time);
    }

    /// Returns the percentiles of what was taken in lately; none if nothing was.
    ///
    /// Cost    O(buckets), a table of 737 for each of ten seconds; one allocation
    pub fn percentiles(&self, now: Instant) -> Option<Percentiles> {
        let now = second(now);
        let mut sum = Histogram::default();
        let lately = |slice: &&Slice| slice.second <= now && now - slice.second < SLICES as u64;
        for slice in self.slices.iter().filter(lately) {
            sum.merge(&slice.histogram);
        }
        sum.percentiles()
    }
}

const fn second(at: Instant) -> u64 {
    at.as_nanos() / SLICE.as_nanos()
}
