//! The one clock of a node.
//!
//! *The idea.* Core's [`Instant`] counts nanoseconds since the node started; a [`Clock`] remembers
//! that start. Code below the purity line reads no clock: its caller, which holds a [`Clock`],
//! passes the time in.
//!
//! *What it does not do.* It knows no calendar and does not relate the clocks of two nodes.
//!
//! *Sources.* It uses tokio's clock rather than std's, so that pausing the run-time in a test
//! pauses this clock too.

use thalweg_base::time::Instant;

#[cfg(test)]
mod tests;

/// A monotonic clock that starts at zero when it is created; copies share that zero.
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
        // One below `NEVER`, which must not be a reading of the clock.
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX - 1))
    }

    /// Converts an instant of the machine's monotonic clock; instants before the start become zero.
    pub fn at(&self, moment: std::time::Instant) -> Instant {
        let moment = tokio::time::Instant::from_std(moment);
        Instant::ZERO + moment.saturating_duration_since(self.start).into()
    }

    /// Returns when a timer for `instant` must fire; `None` for [`Instant::NEVER`] and for times
    /// beyond tokio's range.
    pub fn timer(&self, instant: Instant) -> Option<tokio::time::Instant> {
        if instant.is_never() {
            return None;
        }
        self.start
            .checked_add(std::time::Duration::from_nanos(instant.as_nanos()))
    }

    /// Waits until `instant`; for ever if it is [`Instant::NEVER`].
    pub async fn sleep_until(&self, instant: Instant) {
        match self.timer(instant) {
            Some(timer) => tokio::time::sleep_until(timer).await,
            None => std::future::pending().await,
        }
    }
}
