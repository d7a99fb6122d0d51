//! A latency histogram of fixed size for percentiles.
//!
//! *The idea.* Bucket widths are proportional to their values, so one table covers microseconds and
//! minutes: each doubling has 32 buckets of equal width; below 64 µs each bucket is one
//! microsecond.
//!
//! ```text
//! time    0 1 2 … 63 µs │ 64 66 68 … 126 │ 128 132 … 252 │ … │ 67 s … 134 s │ and more
//! width         1 µs    │      2 µs      │     4 µs      │ … │    2.1 s     │
//! ```
//!
//! Only counts per bucket are kept. So two histograms are merged by adding counts, and an earlier
//! reading is removed by subtracting them. [`Recent`] keeps the counts of each of the last ten
//! seconds.
//!
//! *What it does not do.* It keeps no single value except the maximum. Of values beyond
//! [`TIME_MAX`] it knows only their number and the maximum.
//!
//! *Sources.* The layout is that of `HdrHistogram` (Tene), with five bits of precision; percentiles
//! are by nearest rank.

mod recent;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

pub use recent::{RECENT_SPAN, Recent};

use crate::time::Duration;

/// Largest value with a bucket of its own range.
pub const TIME_MAX: Duration = Duration::from_micros((1 << OCTAVES_END) - 1);

/// Buckets per doubling, as a power of two: half of one bucket is 1/64 of its smallest value.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;

/// End of the table as a power of two of microseconds: 134 s, longer than any blackout that a
/// connection survives.
const OCTAVES_END: u32 = 27;
/// One more bucket holds larger values.
const BUCKETS: usize = STEPS * (OCTAVES_END - STEP_BITS + 1) as usize + 1;

/// Counts of durations.
///
/// Error   a percentile is off by 1/64 of its value at most, by 0.5 µs below 64 µs; the maximum is exact
/// Cost    5.9 kB, allocated with the first value
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Empty before the first value, then of length [`BUCKETS`].
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

/// The usual percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Number of values, at least one.
    pub count: u64,
    /// Half of the values are at most this.
    pub p50: Duration,
    /// 99 of 100 values are at most this.
    pub p99: Duration,
    /// 999 of 1,000 values are at most this.
    pub p999: Duration,
    /// The maximum.
    pub max: Duration,
}

impl Histogram {
    /// Records a duration.
    ///
    /// Cost    O(1)
    pub fn record(&mut self, time: Duration) {
        self.add(bucket(time), 1);
        self.longest = self.longest.max(time);
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket] += count;
        self.total += count;
    }

    /// Returns the number of values.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Returns whether there are no values.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Adds another histogram.
    ///
    /// Cost    O(buckets), 737
    pub fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Subtracts an earlier reading of this same histogram: the values recorded since remain.
    ///
    /// Error   the maximum is as exact as a percentile from then on
    /// Fails   no error value; panics if `before` is no earlier reading (a caller's bug)
    /// Cost    O(buckets), 737
    pub fn subtract(&mut self, before: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&before.counts) {
            *mine = mine.checked_sub(*theirs).expect("counts never shrink");
        }
        self.total -= before.total;
        self.longest = self
            .counts
            .iter()
            .rposition(|count| *count > 0)
            .map_or(Duration::ZERO, |last| self.time(last));
    }

    /// Returns a percentile, given in permille; `None` without values.
    ///
    /// ```text
    /// the ⌈n · p / 1000⌉-th smallest of n values; the smallest for p = 0, the maximum for p = 1000 or more
    /// ```
    ///
    /// Error   1/64 of the value at most, 0.5 µs below 64 µs
    /// Cost    O(buckets), 737
    pub fn percentile(&self, permille: u32) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        if permille >= 1_000 {
            return Some(self.longest);
        }
        // The product of two 64-bit counts needs 128 bits.
        let rank = (u128::from(self.total) * u128::from(permille)).div_ceil(1_000);
        // Nearest rank, counted from one.
        let rank = u64::try_from(rank).expect("at most the total").max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(self.time(index));
            }
        }
        unreachable!("the counts add up to the total");
    }

    /// Returns the usual percentiles; `None` without values.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            count: self.total,
            p50: self.percentile(500)?,
            p99: self.percentile(990)?,
            p999: self.percentile(999)?,
            max: self.longest,
        })
    }

    /// Returns a bucket's representative: its middle, at most the maximum.
    fn time(&self, bucket: usize) -> Duration {
        if bucket == BUCKETS - 1 {
            return self.longest;
        }
        let shift = (bucket / STEPS).saturating_sub(1) as u32;
        let least = (bucket - STEPS * shift as usize) as u64;
        let half_width = Duration::from_nanos(500 << shift);
        (Duration::from_micros(least << shift) + half_width).min(self.longest)
    }
}

/// Returns the bucket of a duration.
fn bucket(time: Duration) -> usize {
    let micros = time.as_micros();
    let shift = micros
        .checked_ilog2()
        .unwrap_or(0)
        .saturating_sub(STEP_BITS);
    let bucket = STEPS * shift as usize + (micros >> shift) as usize;
    bucket.min(BUCKETS - 1)
}

const _: () = assert!(
    TIME_MAX.as_micros() >> (OCTAVES_END - 1 - STEP_BITS) == 2 * STEPS as u64 - 1,
    "the table ends at a doubling"
);
