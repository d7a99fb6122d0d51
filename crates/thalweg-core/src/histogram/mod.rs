//! How long things took: a histogram of fixed size from which percentiles are read.
//!
//! *The idea.* Buckets are as wide as a fixed share of what they hold, so one table serves microseconds and minutes alike:
//! each doubling of a time has 32 buckets of equal width, and below 64 µs each has one microsecond.
//!
//! ```text
//! time    0 1 2 … 63 µs │ 64 66 68 … 126 │ 128 132 … 252 │ … │ 67 s … 134 s │ and more
//! width         1 µs    │      2 µs      │     4 µs      │ … │    2.1 s     │
//! ```
//!
//! A count in a bucket is all that is kept of a time: so two histograms are added by adding counts, and an earlier reading
//! is taken away by subtracting them. [`Recent`] keeps those of each of the last seconds.
//!
//! *What it does not do.* It keeps no single time but the longest, and it tells nothing of times beyond
//! [`TIME_MAX`] but how many they were and how long the longest.
//!
//! *Sources.* The layout is that of `HdrHistogram` (Tene), with five bits of precision; percentiles are by nearest rank.

mod recent;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

pub use recent::{RECENT_SPAN, Recent};

use crate::time::Duration;

/// Up to here times are told apart.
pub const TIME_MAX: Duration = Duration::from_micros((1 << OCTAVES_END) - 1);

/// Buckets of each doubling, as a power of two: half of one is 1/64 of the least time in it.
const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;

/// The power of two of microseconds at which the table ends: 134 s, longer than any blackout that a connection survives.
const OCTAVES_END: u32 = 27;
/// One more holds what is longer.
const BUCKETS: usize = STEPS * (OCTAVES_END - STEP_BITS + 1) as usize + 1;

/// How often which time was taken.
///
/// Error   a percentile is off by 1/64 of its value at most, by 0.5 µs below 64 µs; the longest is exact
/// Cost    5.9 kB, allocated when the first time is recorded
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// None before the first time is recorded, else [`BUCKETS`].
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

/// The usual percentiles of some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// How many times they are of, one at least.
    pub count: u64,
    /// Half of the times are this or less.
    pub p50: Duration,
    /// Of 100 times, 99 are this or less.
    pub p99: Duration,
    /// Of 1,000 times, 999 are this or less.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

impl Histogram {
    /// Takes in a time.
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

    /// Returns how many times were taken in.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Returns whether none was.
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Takes in what another has.
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

    /// Takes away an earlier reading of this same histogram: what was taken in since is left.
    ///
    /// Error   the longest is as exact as a percentile from then on
    /// Fails   no error value; panics if the other is no earlier reading (a caller's bug)
    /// Cost    O(buckets), 737
    pub fn subtract(&mut self, before: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&before.counts) {
            *mine = mine.checked_sub(*theirs).expect("no count ever shrinks");
        }
        self.total -= before.total;
        self.longest = self
            .counts
            .iter()
            .rposition(|count| *count > 0)
            .map_or(Duration::ZERO, |last| self.time(last));
    }

    /// Returns the time below which this many of a thousand lie, or at it; none if there is none.
    ///
    /// ```text
    /// the ⌈n · p / 1000⌉-th least of n times; the least for p = 0, the longest for p = 1000 or more
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
        // Counts are below 2^64 and this is a product of two of them, so it needs the width.
        let rank = (u128::from(self.total) * u128::from(permille)).div_ceil(1_000);
        let rank = u64::try_from(rank).expect("it is at most the total").max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(self.time(index));
            }
        }
        unreachable!("the counts add up to the total");
    }

    /// Returns the usual percentiles; none if there is no time.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            count: self.total,
            p50: self.percentile(500)?,
            p99: self.percentile(990)?,
            p999: self.percentile(999)?,
            max: self.longest,
        })
    }

    /// Returns the time that stands for a bucket: its middle, and never more than the longest.
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

/// Returns the bucket of a time.
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
    "the table ends where a doubling does"
);
