//! Round trip times, and how much of them is queueing.
//!
//! *The idea.* Three round trips. The *base* is the minimum ever seen: the path without a queue.
//! The *standing* one is the minimum over the last half to whole of a round trip, which bursts,
//! late acknowledgements and jitter do not raise. The *smooth* one is an average. The queueing
//! delay is standing less base.
//!
//! Where packets are few and jitter is wide, the standing round trip is of a packet or two and
//! shows the jitter. A queue that no flow fills still empties, and some packet then sees it empty.
//! For that the minimum of each of the last rounds is kept ([`Delay::queueing_least`]).
//!
//! The base never rises by itself. A sliding minimum would take a queue that other flows keep
//! filled for the path. Only a drain, which measured the path without a queue of its own, raises it
//! ([`Delay::rebase`]).
//!
//! Where packets overtake each other, a part of the standing round trip is certainly jitter
//! (`order`), and is subtracted:
//!
//! ```text
//! slack = late · min(2, 12 / samples)
//! ```
//!
//! Late is how late packets arrived. Acknowledgements are late too without showing it, so it counts
//! twice. The minimum of many samples contains less of it: of a delay that is the sum of two
//! uniform jitters, 1.2 / √samples at the median.
//!
//! *What it does not do.* It decides nothing.
//!
//! *Sources.* Copa §2 (standing round trip), RFC 6298 (smooth).

use thalweg_base::time::{Duration, Instant};

/// Shortest span for the standing round trip.
const SPAN_MIN: Duration = Duration::from_millis(1);

/// Minimum of a round trip sample, so that a path without delay has a rate.
const RTT_MIN: Duration = Duration::from_micros(1);

/// Maximum of a round trip sample: a longer one is an outage.
const RTT_MAX: Duration = Duration::from_secs(60);

/// Rounds for which minimum round trips are kept. Copa empties its own queue once in five rounds; if
/// one sample in five shows an empty queue, this many show none once in thirty-five times.
pub(super) const ROUNDS: usize = 16;

/// Share of the lateness that counts as jitter: this multiple at most, or [`SLACK_SAMPLES`] over
/// the samples.
const SLACK: u64 = 2;
const SLACK_SAMPLES: u64 = 12;

/// The round trips of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    base: Duration,
    smooth: Duration,
    /// Minimum of this span, and of the one before.
    least: Duration,
    least_before: Duration,
    span_began: Instant,
    /// Samples in this span, and in the one before.
    samples: u32,
    samples_before: u32,
    /// The part of the standing round trip that is jitter.
    slack: Duration,
    /// Minimum of each of the last rounds, the present one first.
    rounds: [Duration; ROUNDS],
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            base: Duration::NEVER,
            smooth: Duration::NEVER,
            least: Duration::NEVER,
            least_before: Duration::NEVER,
            span_began: Instant::ZERO,
            samples: 0,
            samples_before: 0,
            slack: Duration::ZERO,
            rounds: [Duration::NEVER; ROUNDS],
        }
    }
}

impl Delay {
    /// Handles a round trip sample and its upper bound. The base is of the bounds: it never rises,
    /// so it must not be too short.
    pub(super) fn handle_sample(&mut self, now: Instant, rtt: Duration, most: Duration) {
        let rtt = rtt.clamp(RTT_MIN, RTT_MAX);
        self.base = self.base.min(most.clamp(RTT_MIN, RTT_MAX));
        self.smooth = if self.smooth.is_never() {
            rtt
        } else {
            Duration::from_nanos(self.smooth.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)
        };
        // The standing round trip is the minimum of two spans of half a round trip each.
        let span = Duration::from_nanos(self.smooth.as_nanos() / 2).max(SPAN_MIN);
        let passed = now.saturating_since(self.span_began);
        if passed >= span {
            // A span without samples says nothing of the present.
            let is_stale = passed.as_nanos() / 4 >= span.as_nanos();
            self.least_before = if is_stale { rtt } else { self.least };
            self.samples_before = if is_stale { 0 } else { self.samples };
            self.least = rtt;
            self.samples = 0;
            self.span_began = now;
        }
        self.least = self.least.min(rtt);
        self.samples = self.samples.saturating_add(1);
        // For `queueing_least`: one packet that sees the queue empty suffices.
        self.rounds[0] = self.rounds[0].min(rtt);
    }

    /// Handles how late packets arrived for reasons other than a queue.
    pub(super) fn handle_late(&mut self, late: Duration) {
        let samples = u64::from(self.samples) + u64::from(self.samples_before);
        let nanos = late.as_nanos();
        let part = nanos.saturating_mul(SLACK_SAMPLES) / samples.max(1);
        self.slack = Duration::from_nanos(part.min(nanos.saturating_mul(SLACK)));
    }

    /// Handles the end of a round trip.
    pub(super) fn handle_round(&mut self) {
        self.rounds.rotate_right(1);
        self.rounds[0] = Duration::NEVER;
    }

    /// Returns whether there was a sample.
    pub(super) fn is_known(&self) -> bool {
        !self.base.is_never()
    }

    /// Returns the base round trip; a tenth of a second before the first sample.
    pub(super) fn base(&self) -> Duration {
        self.or_guess(self.base)
    }

    pub(super) fn smooth(&self) -> Duration {
        self.or_guess(self.smooth)
    }

    pub(super) fn standing(&self) -> Duration {
        self.or_guess(self.least.min(self.least_before))
    }

    /// Returns the standing queueing delay.
    pub(super) fn queueing(&self) -> Duration {
        self.standing().saturating_sub(self.base() + self.slack)
    }

    /// Returns the part of the standing round trip that is jitter.
    pub(super) fn slack(&self) -> Duration {
        self.slack
    }

    /// Returns the least queueing delay of the last rounds.
    pub(super) fn queueing_least(&self) -> Duration {
        let least = self.rounds.iter().copied().min();
        self.or_guess(least.unwrap_or(self.base))
            .saturating_sub(self.base() + self.slack)
    }

    /// Sets the base to what was measured without a queue of our own.
    pub(super) fn rebase(&mut self, base: Duration) {
        self.base = base.clamp(RTT_MIN, RTT_MAX);
    }

    fn or_guess(&self, rtt: Duration) -> Duration {
        if self.is_known() {
            rtt
        } else {
            Duration::from_millis(100)
        }
    }
}
