//! How long things took lately.
//!
//! *The idea.* The buckets of each second into which a time fell; the place of ten seconds ago is used again for the second
//! that begins. So what is old goes by itself, a second at a time, without anybody who tidies up. A link has dozens of times a
//! second, which lie close together: ten whole tables would be half of what a node keeps for it.
//!
//! *What it does not do.* It reads no clock: whoever asks says when.

use alloc::vec::Vec;

use super::{Histogram, Percentiles, bucket};
use crate::time::{Duration, Instant};

/// How far back it reaches: over nine seconds, up to ten.
pub const RECENT_SPAN: Duration = Duration::from_secs(SLICES as u64);

const SLICES: usize = 10;
const SLICE: Duration = Duration::from_secs(1);

/// The times of the last ten seconds.
///
/// Error   as of a [`Histogram`]; of more than 2³² − 1 times of a second in one bucket so many are counted
/// Cost    8 bytes for each bucket that a second has, 59 kB at most; some 2 kB at 30 times a second
#[derive(Clone, Debug, Default)]
pub struct Recent {
    slices: [Slice; SLICES],
}

/// The times of one second.
#[derive(Clone, Debug, Default)]
struct Slice {
    /// Which second since the start.
    second: u64,
    /// How many fell into a bucket, for each that has any, by rising bucket.
    counts: Vec<(u16, u32)>,
    longest: Duration,
}

impl Recent {
    /// Takes in a time that ended now.
    ///
    /// Cost    O(log buckets), and O(buckets) for the first of a second in its bucket
    pub fn record(&mut self, now: Instant, time: Duration) {
        let second = second(now);
        let slice = &mut self.slices[(second % SLICES as u64) as usize];
        if slice.second != second {
            slice.second = second;
            slice.counts.clear();
            slice.longest = Duration::ZERO;
        }
        slice.record(time);
    }

    /// Returns the percentiles of what was taken in lately; none if nothing was.
    ///
    /// Cost    O(buckets), a table of 737 for each of ten seconds; one allocation
    pub fn percentiles(&self, now: Instant) -> Option<Percentiles> {
        let now = second(now);
        let mut sum = Histogram::default();
        let lately = |slice: &&Slice| slice.second <= now && now - slice.second < SLICES as u64;
        for slice in self.slices.iter().filter(lately) {
            slice.add_to(&mut sum);
        }
        sum.percentiles()
    }
}

impl Slice {
    fn record(&mut self, time: Duration) {
        let bucket = u16::try_from(bucket(time)).expect("there are 737");
        match self.counts.binary_search_by_key(&bucket, |(of, _)| *of) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(1),
            Err(at) => self.counts.insert(at, (bucket, 1)),
        }
        self.longest = self.longest.max(time);
    }

    fn add_to(&self, sum: &mut Histogram) {
        for (bucket, count) in &self.counts {
            sum.add((*bucket).into(), (*count).into());
        }
        sum.longest = sum.longest.max(self.longest);
    }
}

const fn second(at: Instant) -> u64 {
    at.as_nanos() / SLICE.as_nanos()
}
