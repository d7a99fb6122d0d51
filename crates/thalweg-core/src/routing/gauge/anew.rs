//! The round trip of a link whose neighbour was silent, measured from the silence on.
//!
//! *The idea.* The shortest round trip of the last ten seconds is what a queue does not spoil, and for ten seconds after the
//! path has become longer it is that of before. A stream that has left a silent link would come back on it. So after a silence
//! each answer's own round trip counts. The first of them may have been half way when the path changed, or have waited while it
//! stood still: they are no more than a beginning, and the shortest of later ones stands.
//!
//! ```text
//! silence ─── first answer ── 1 s: the newest ──┬── the shortest ─────────► for 60 s: no less than that is believed
//!                                               └─ 3 s: told, if it is outside the band
//! ```
//!
//! *What it does not do.* It finds no fall: for that the shortest of late is soon enough.
//!
//! *Sources.* docs/routing.md §1; RFC 9000 §13.2.1 (how long an acknowledgement may be held back).

use super::Sample;
use crate::time::{Duration, Instant};

/// For so long after the first answer those come that were under way when the path changed.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// How long after the first answer a longer round trip is told, well before a stream may come back.
const DECIDED: Duration = Duration::from_secs(3);

/// How long after the first answer less is not believed: as long as a link at rest takes to find its smoothed round trip.
const BELIEVED: Duration = Duration::from_secs(60);

/// What an answer may have been held back.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// What the answers after a silence say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Anew {
    /// The count of answers when it was looked first.
    heard: Option<u64>,
    /// When the first answer since was seen.
    first: Option<Instant>,
    early: Option<Duration>,
    late: Option<Duration>,
    is_told: bool,
}

impl Anew {
    /// Takes in that there is silence (again): what has come since the one before stands until it was told.
    pub(super) fn handle_silence(&mut self) {
        if self.is_told || self.first.is_none() {
            *self = Self::default();
        }
    }

    /// Takes in a sample; returns whether it is over.
    pub(super) fn handle_sample(&mut self, sample: &Sample, now: Instant) -> bool {
        // What the first sample finds may have come before the silence.
        if self.heard.replace(sample.heard).unwrap_or(sample.heard) != sample.heard {
            let first = *self.first.get_or_insert(now);
            if now.saturating_since(first) < UNDER_WAY {
                self.early = Some(sample.latest);
            } else {
                let late = self.late.unwrap_or(sample.latest);
                self.late = Some(late.min(sample.latest));
            }
        }
        self.first.is_some_and(|first| first + BELIEVED <= now)
    }

    /// Returns what the round trip is at least, as far as is known.
    pub(super) fn least(&self) -> Duration {
        let known = self.late.or(self.early).unwrap_or(Duration::ZERO);
        known.saturating_sub(ACK_DELAY)
    }

    /// Returns when it is to be told.
    pub(super) fn poll_timeout(&self) -> Instant {
        let first = self.first.filter(|_| !self.is_told);
        first.map_or(Instant::NEVER, |first| first + DECIDED)
    }

    /// Returns what is to be told, if it is time.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Duration> {
        if now < self.poll_timeout() {
            return None;
        }
        self.is_told = true;
        Some(self.least())
    }
}
