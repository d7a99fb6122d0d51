//! How often a node may speak of itself, so that records stay under a share of the slowest link.
//!
//! *The idea.* Every record of every node crosses every link, once each way at most. So if all nodes repeat their records
//! after the time in which the records that are known, twice, fit into half a hundredth of 150 kbit/s, all repetitions
//! together take no more than that, however many nodes there are; and what nobody else can know, each node reckons from the
//! records that it has. The other half is for what was measured: a node may tell that four times at once, and once in that
//! time in the long run. Of links that no stream takes it tells once at once, and where nobody can want to know, as a viewer
//! with one link, not at once at all: where hundreds of nodes join, all find out in the same minute what their links are like.
//!
//! ```text
//! interval = max(15 s, 2 · bytes of all records / 93 B/s)       3 nodes: 16 s   100 nodes: 13 min   1,000 nodes: 2 h
//! ```
//!
//! That a node is gone is not told by silence: its neighbours lose their links to it. Links that come and go, and streams,
//! are told at once.
//!
//! *What it does not do.* It knows nothing of what links can carry: on a network of fast links this is more careful than need be.
//!
//! *Sources.* docs/routing.md; ITU-T I.371 annex A (the generic cell rate algorithm) for the tokens.

#[cfg(test)]
mod tests;

use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// How often a node repeats its record at the most.
pub const REFRESH_MIN: Duration = Duration::from_secs(15);

/// How often a node repeats its record at the least.
pub const REFRESH_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What repeated records may take of a link, and the same again what was measured: half of 1 % of 150 kbit/s each.
pub const SHARE: Bitrate = Bitrate::from_bps(150_000 / 100 / 2);

/// Who waits for what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nobody: the node has no other link, and streams only end there.
    Nobody,
    /// Whoever may plan a stream over a link that none takes now.
    Planner,
    /// A stream that takes the link, or would if it knew.
    Stream,
}

impl Urgency {
    /// Returns how often it may be told at once.
    const fn burst(self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Planner => 1,
            Self::Stream => 4,
        }
    }
}

/// When a node may tell again what it has measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cadence {
    /// When all that was told would have been told, had it been told evenly.
    even: Instant,
}

/// Returns how often a node repeats its record where the records of all, together, are so large.
pub fn interval(records: DataSize) -> Duration {
    let twice = DataSize::from_bytes(records.as_bytes().saturating_mul(2));
    SHARE.time_for(twice).clamp(REFRESH_MIN, REFRESH_MAX)
}

impl Cadence {
    /// Returns from when on it may be told.
    pub fn next(&self, interval: Duration, urgency: Urgency) -> Instant {
        let ahead = interval.as_nanos().saturating_mul(urgency.burst());
        let next = self.even + interval;
        Instant::from_nanos(next.as_nanos().saturating_sub(ahead))
    }

    /// Takes in that it is told now.
    pub fn handle_told(&mut self, interval: Duration, now: Instant) {
        self.even = self.even.max(now) + interval;
    }
}
