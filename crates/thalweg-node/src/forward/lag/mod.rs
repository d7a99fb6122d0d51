//! Measures how long this node takes to hand on what it receives.
//!
//! *The idea.* A task that has received an ADU notifies the meter. The meter's task queues itself
//! behind all tasks that were woken by then; when it runs again, they have had their turn, and the
//! time between is one round. One meter serves all tasks: what is received while it waits belongs
//! to its round.
//!
//! *What it does not do.* It drops nothing (the machine in a stream's lane
//! does), and costs nothing on a node that forwards nothing.
//!
//! *Sources.* [`thalweg_dataplane::relay::lag`], which decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::time::Duration;
use thalweg_dataplane::relay::lag::Lag;
use tokio::sync::Notify;

use super::Forwarder;

#[cfg(test)]
mod tests;

/// The meter of the node's lag.
#[derive(Default)]
pub(super) struct LagMeter {
    lag: Mutex<Lag>,
    /// Notified when an ADU was received.
    taken: Notify,
}

impl LagMeter {
    /// Starts a measurement until all woken tasks have had their turn, if anything was received.
    pub(super) fn measure(&self) {
        if self.lag().is_under_way() {
            self.taken.notify_one();
        }
    }

    /// Returns how long the last round took.
    pub(super) fn last(&self) -> Duration {
        self.lag().last()
    }

    /// Returns the lag, for the machine that admits an ADU.
    pub(super) fn lag(&self) -> MutexGuard<'_, Lag> {
        // No code that can panic runs under this lock.
        self.lag.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the meter until the task is aborted.
pub(crate) async fn measure(forwarder: Arc<Forwarder>) {
    let lag_meter = &forwarder.ways.lag;
    loop {
        lag_meter.taken.notified().await;
        // Tokio runs the task woken last first; yielding puts this one behind all woken before.
        tokio::task::yield_now().await;
        let now = forwarder.clock.now();
        lag_meter.lag().handle_end(now);
    }
}
