//! The pauses between dials: exponential, with jitter.

use thalweg_base::random::SplitMix;
use tokio::time::Duration;

/// First pause after a failure: a restarted peer is back soon.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(200);

/// Longest pause: about as long as a person waits after plugging in a cable.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Exponential backoff with a jitter of ±25 %.
#[derive(Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    random: SplitMix,
}

impl Backoff {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            wait: BACKOFF_MIN,
            random: SplitMix::new(seed),
        }
    }

    /// Restarts with the first pause.
    pub(crate) const fn reset(&mut self) {
        self.wait = BACKOFF_MIN;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.wait.mul_f64(0.75 + self.random.next_unit() / 2.0);
        self.wait = (self.wait * 2).min(BACKOFF_MAX);
        wait
    }
}
