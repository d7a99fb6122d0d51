//! The round-trip time of a link after its neighbour was silent, measured from the silence on.
//!
//! *The idea.* The minimum RTT of the last ten seconds is unaffected by queues, but for ten seconds
//! after the path has become longer it is still the old one, and a stream that left the silent link
//! would return on it. So after a silence each answer's own RTT counts. The first answers may have
//! been in flight when the path changed, or have waited while it was down: they are only a
//! beginning, and the minimum of the later ones counts.
//!
//! ```text
//! silence ─── first answer ── 1 s: the newest ──┬── the minimum ────────────► for 60 s: the lower bound
//!                                               └─ 3 s: announced, if it is outside the band
//! ```
//!
//! *What it does not do.* It detects no fall of the RTT: for that the ten-second minimum is fast
//! enough.
//!
//! *Sources.* docs/concepts/routing.md §1; RFC 9000 §13.2.1 (how long an acknowledgement may be held back).

use thalweg_base::time::{Duration, Instant};

use super::Sample;

/// How long after the first answer there are answers that were in flight when the path changed.
const IN_FLIGHT: Duration = Duration::from_secs(1);

/// How long after the first answer a longer RTT is announced: well before a stream may return.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(3);

/// How long the lower bound applies after the first answer: as long as an idle link's smoothed RTT
/// takes to converge.
const BOUND_FOR: Duration = Duration::from_secs(60);

/// Longest time that an answer may have been held back.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// RTT measurement after a silence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttAfterSilence {
    /// The answer counter at the first sample.
    heard: Option<u64>,
    /// When the first answer after that was seen.
    first: Option<Instant>,
    early: Option<Duration>,
    late: Option<Duration>,
    is_announced: bool,
}

impl RttAfterSilence {
    /// Starts again after a (further) silence, unless a result is still to be announced.
    pub(super) fn handle_silence(&mut self) {
        if self.is_announced || self.first.is_none() {
            *self = Self::default();
        }
    }

    /// Takes in a sample; returns whether the measurement is over.
    pub(super) fn handle_sample(&mut self, sample: &Sample, now: Instant) -> bool {
        // Answers found by the first sample may be from before the silence.
        if self.heard.replace(sample.heard).unwrap_or(sample.heard) != sample.heard {
            let first = *self.first.get_or_insert(now);
            if now.saturating_since(first) < IN_FLIGHT {
                self.early = Some(sample.latest);
            } else {
                let late = self.late.unwrap_or(sample.latest);
                self.late = Some(late.min(sample.latest));
            }
        }
        self.first.is_some_and(|first| first + BOUND_FOR <= now)
    }

    /// Returns the lower bound of the round-trip time, as far as is known.
    pub(super) fn least(&self) -> Duration {
        let known = self.late.or(self.early).unwrap_or(Duration::ZERO);
        known.saturating_sub(ACK_DELAY)
    }

    /// Returns when the result is to be announced.
    pub(super) fn poll_timeout(&self) -> Instant {
        let first = self.first.filter(|_| !self.is_announced);
        first.map_or(Instant::NEVER, |first| first + ANNOUNCE_AFTER)
    }

    /// Returns the result if it is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Option<Duration> {
        if now < self.poll_timeout() {
            return None;
        }
        self.is_announced = true;
        Some(self.least())
    }
}
