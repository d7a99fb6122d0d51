//! How often a node may announce its record, so that records stay below a share of the slowest
//! link.
//!
//! *The idea.* Every record of every node crosses every link at most once per direction. If each
//! node repeats its record after the time in which twice the bytes of all known records fit into
//! 0.5 % of 150 kbit/s, all repetitions together stay below that share at any number of nodes. Each
//! node computes the interval from the records that it holds. The other 0.5 % is for measurements:
//! in the long run one announcement per interval, with a burst that depends on the [`Urgency`].
//! Where hundreds of nodes join, all measure their links in the same minute.
//!
//! ```text
//! interval = max(15 s, 2 · bytes of all records / 93 B/s)     3 nodes: 16 s, 100: 13 min, 1,000: 2 h
//! ```
//!
//! A dead node is not detected by its silence here: its neighbours lose their links to it. Links
//! that come and go, and streams, are announced at once.
//!
//! *What it does not do.* It ignores what the links can carry: on a network of fast links the
//! interval is longer than necessary.
//!
//! *Sources.* docs/concepts/routing.md; ITU-T I.371 annex A (the generic cell rate algorithm) for the
//! tokens.

#[cfg(test)]
mod tests;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

/// Shortest interval between repetitions of a record.
pub const REFRESH_MIN: Duration = Duration::from_secs(15);

/// Longest interval between repetitions of a record.
pub const REFRESH_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A link's share for repeated records, and as much again for measurements: each half of 1 % of 150
/// kbit/s.
pub const SHARE: Bitrate = Bitrate::from_bps(150_000 / 100 / 2);

/// What depends on a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing: the node has no other link, and streams only end there, as at a viewer.
    Nobody,
    /// A planner that may use a link which carries no stream now.
    Planner,
    /// A stream that uses the link, or would if the measurement were known.
    Stream,
}

impl Urgency {
    /// Returns how many announcements may be made in a burst.
    const fn burst(self) -> u64 {
        match self {
            Self::Nobody => 0,
            Self::Planner => 1,
            Self::Stream => 4,
        }
    }
}

/// Limits the announcements of measurements (GCRA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cadence {
    /// The theoretical arrival time: when the past announcements would end if evenly spaced.
    arrival: Instant,
}

/// Returns the interval between repetitions of a record, given the bytes of all records.
pub fn interval(records: DataSize) -> Duration {
    let twice = DataSize::from_bytes(records.as_bytes().saturating_mul(2));
    SHARE.time_for(twice).clamp(REFRESH_MIN, REFRESH_MAX)
}

impl Cadence {
    /// Returns when the next announcement is allowed.
    pub fn next(&self, interval: Duration, urgency: Urgency) -> Instant {
        // GCRA: conforming if the theoretical arrival time is at most a burst ahead.
        let ahead = interval.as_nanos().saturating_mul(urgency.burst());
        let next = self.arrival + interval;
        Instant::from_nanos(next.as_nanos().saturating_sub(ahead))
    }

    /// Takes in an announcement made now.
    pub fn handle_told(&mut self, interval: Duration, now: Instant) {
        self.arrival = self.arrival.max(now) + interval;
    }
}
