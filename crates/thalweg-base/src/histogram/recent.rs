//! A latency histogram of the last ten seconds.
//!
//! *The idea.* Each second has a sparse list of bucket counts in a ring of ten; a new second
//! overwrites the one of ten seconds ago. So old values expire without a timer. A link has dozens
//! of values per second, which lie close together; ten full tables would take half of the memory
//! that a node uses for a link.
//!
//! *What it does not do.* It reads no clock: the caller passes the time.

use alloc::vec::Vec;

use super::{Histogram, Percentiles, bucket};
use crate::time::{Duration, Instant};

/// Span covered: more than nine seconds, up to ten.
pub const RECENT_SPAN: Duration = Duration::from_secs(SLICES as u64);

const SLICES: usize = 10;
const SLICE: Duration = Duration::from_secs(1);

/// The durations recorded in the last ten seconds.
///
/// Error   as of a [`Histogram`]; a bucket of one second saturates at 2³² − 1
/// Cost    8 bytes per non-empty bucket and second, 59 kB at most; some 2 kB at 30 values a second
#[derive(Clone, Debug, Default)]
pub struct Recent {
    slices: [Slice; SLICES],
}

/// The values of one second.
#[derive(Clone, Debug, Default)]
struct Slice {
    /// The second's number since the start.
    second: u64,
    /// Non-empty buckets in rising order, with their counts.
    counts: Vec<(u16, u32)>,
    longest: Duration,
}

impl Recent {
    /// Records a duration that ends now.
    ///
    /// Cost    O(log buckets), and O(buckets) for the first value of a bucket and second
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

    /// Returns the percentiles of the recent values; `None` without any.
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
