//! The one clock of a node.
//!
//! *The idea.* Core's [`Instant`] is nanoseconds since the node started; this is what started it. Everything below the
//! purity line is told the time by someone who holds a [`Clock`].
//!
//! *What it does not do.* It knows no calendar and does not relate two nodes.
//!
//! *Sources.* tokio's clock is used rather than std's, so that a paused run-time pauses this one too.

use thalweg_core::time::Instant;

#[cfg(test)]
mod tests;

/// A monotonic clock whose zero is its creation; copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    /// Starts a clock at zero.
    pub fn start() -> Self {
        Self {
            start: tokio::time::Instant::now(),
        }
    }

    /// Returns the time since the start.
    ///
    /// Fails   no error value; saturates 584 years after the start
    pub fn now(&self) -> Instant {
        let nanos = self.start.elapsed().as_nanos();
        // One below `NEVER`, which is no time of day.
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX - 1))
    }

    /// Returns what this clock showed at a moment of the machine's; zero before its start.
    pub fn at(&self, moment: std::time::Instant) -> Instant {
        let moment = tokio::time::Instant::from_std(moment);
        Instant::ZERO + moment.saturating_duration_since(self.start).into()
    }

    /// Returns when a timer for `instant` is to fire; `None` for [`Instant::NEVER`] and what no timer can reach.
    pub fn timer(&self, instant: Instant) -> Option<tokio::time::Instant> {
        if instant.is_never() {
            return None;
        }
        self.start
            .checked_add(std::time::Duration::from_nanos(instant.as_nanos()))
    }

    /// Waits until `instant`, for ever if it is [`Instant::NEVER`].
    pub async fn sleep_until(&self, instant: Instant) {
        match self.timer(instant) {
            Some(timer) => tokio::time::sleep_until(timer).await,
            None => std::future::pending().await,
        }
    }
}
