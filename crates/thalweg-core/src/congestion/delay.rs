//! How long packets take, and how much of that they wait in a queue.
//!
//! *The idea.* Three round trips: the *base*, the least ever seen, which is the path without a queue; the *standing* one,
//! the least within the last half to whole of a round trip, which bursts, late acknowledgements and jitter do not raise; and the
//! *smooth* one. Standing less base is what waits in the queue all the time: the queueing delay.
//!
//! Where packets are few and jitter is wide, the standing one is of a packet or two and tells the jitter. A queue that
//! nobody fills empties all the same, and is then seen empty by one packet or another: for that the least of each of the
//! last rounds is kept ([`Delay::queueing_least`]).
//!
//! The base never rises by itself. A window that forgets would take a queue that others keep filled for the path; whoever
//! has looked at the path without a queue of its own says so ([`Delay::rebase`]).
//!
//! Where packets overtake each other, a part of the standing one is jitter for certain (`order`), and does not count:
//!
//! ```text
//! slack = late · min(2, 12 / samples)
//! ```
//!
//! Late is what packets came late; acknowledgements do so too, and do not show it, so it counts twice. The least of many
//! samples has less of it: of a delay that is the sum of two jitters, evenly distributed each, 1.2 / √samples at the median.
//!
//! *What it does not do.* It decides nothing.
//!
//! *Sources.* Copa §2 (standing round trip), RFC 6298 (smooth).

use crate::time::{Duration, Instant};

/// The shortest time over which the standing round trip is the least.
const SPAN_MIN: Duration = Duration::from_millis(1);

/// The least round trip that is reckoned with, so that a path without delay has a rate.
const RTT_MIN: Duration = Duration::from_micros(1);

/// The longest round trip that is reckoned with: what takes longer is an outage.
const RTT_MAX: Duration = Duration::from_secs(60);

/// Rounds whose least round trips are kept. Copa empties its own queue once in five; of samples of which one in five
/// shows an empty queue, so many show none once in thirty-five times.
pub(super) const ROUNDS: usize = 16;

/// How much of what packets came late counts as jitter: so many times it, at most, or as many as this over the samples.
const SLACK: u64 = 2;
const SLACK_SAMPLES: u64 = 12;

/// The round trips of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    base: Duration,
    smooth: Duration,
    /// The least of this span, and that of the one before.
    least: Duration,
    least_before: Duration,
    turned: Instant,
    /// Samples of this span, and of the one before.
    samples: u32,
    samples_before: u32,
    /// How much of the standing round trip is jitter.
    slack: Duration,
    /// The least of each of the last rounds; the present one's is the first.
    rounds: [Duration; ROUNDS],
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            base: Duration::NEVER,
            smooth: Duration::NEVER,
            least: Duration::NEVER,
            least_before: Duration::NEVER,
            turned: Instant::ZERO,
            samples: 0,
            samples_before: 0,
            slack: Duration::ZERO,
            rounds: [Duration::NEVER; ROUNDS],
        }
    }
}

impl Delay {
    /// Takes in a round trip, and what it is at most: the base, which never rises, is of those.
    pub(super) fn handle_sample(&mut self, now: Instant, rtt: Duration, most: Duration) {
        let rtt = rtt.clamp(RTT_MIN, RTT_MAX);
        self.base = self.base.min(most.clamp(RTT_MIN, RTT_MAX));
        self.smooth = if self.smooth.is_never() {
            rtt
        } else {
            Duration::from_nanos(self.smooth.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)
        };
        let span = Duration::from_nanos(self.smooth.as_nanos() / 2).max(SPAN_MIN);
        let passed = now.saturating_since(self.turned);
        if passed >= span {
            // A span without samples says nothing of the present.
            let is_stale = passed.as_nanos() / 4 >= span.as_nanos();
            self.least_before = if is_stale { rtt } else { self.least };
            self.samples_before = if is_stale { 0 } else { self.samples };
            self.least = rtt;
            self.samples = 0;
            self.turned = now;
        }
        self.least = self.least.min(rtt);
        self.samples = self.samples.saturating_add(1);
        self.rounds[0] = self.rounds[0].min(rtt);
    }

    /// Takes in by how much packets have come late for which no queue accounts.
    pub(super) fn handle_late(&mut self, late: Duration) {
        let samples = u64::from(self.samples) + u64::from(self.samples_before);
        let nanos = late.as_nanos();
        let part = nanos.saturating_mul(SLACK_SAMPLES) / samples.max(1);
        self.slack = Duration::from_nanos(part.min(nanos.saturating_mul(SLACK)));
    }

    /// Takes in that a round trip has ended.
    pub(super) fn handle_round(&mut self) {
        self.rounds.rotate_right(1);
        self.rounds[0] = Duration::NEVER;
    }

    /// Returns whether a round trip was ever measured.
    pub(super) fn is_known(&self) -> bool {
        !self.base.is_never()
    }

    /// Returns the round trip without a queue; a tenth of a second before one is known.
    pub(super) fn base(&self) -> Duration {
        self.or_guess(self.base)
    }

    pub(super) fn smooth(&self) -> Duration {
        self.or_guess(self.smooth)
    }

    pub(super) fn standing(&self) -> Duration {
        self.or_guess(self.least.min(self.least_before))
    }

    /// Returns what packets wait in the queue at least.
    pub(super) fn queueing(&self) -> Duration {
        self.standing().saturating_sub(self.base() + self.slack)
    }

    /// Returns how much of the standing round trip is jitter.
    pub(super) fn slack(&self) -> Duration {
        self.slack
    }

    /// Returns what packets waited in the queue when they waited least in the last rounds.
    pub(super) fn queueing_least(&self) -> Duration {
        let least = self.rounds.iter().copied().min();
        self.or_guess(least.unwrap_or(self.base))
            .saturating_sub(self.base() + self.slack)
    }

    /// Sets the base to what was measured with no queue of one's own.
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
