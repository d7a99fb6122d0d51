//! Measures how long this node takes to hand on what comes.
//!
//! *The idea.* Whoever has taken an ADU from a link says so, and a task that is behind all that he woke by that says when they
//! had their turns. It is one task for all: what is taken while it waits belongs to its round.
//!
//! *What it does not do.* It drops nothing ([`Forwarder::handle_adu`](super::Forwarder::handle_adu) does), and asks nothing of
//! a node that hands nothing on.
//!
//! *Sources.* [`thalweg_core::hop::lag`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Flags, Header};
use thalweg_core::hop::lag::Lag;
use thalweg_core::time::{Duration, Instant};
use tokio::sync::Notify;

use super::Forwarder;

#[cfg(test)]
mod tests;

/// How far behind a node is.
#[derive(Default)]
pub(super) struct Lagging {
    lag: Mutex<Lag>,
    /// Told when something was taken.
    taken: Notify,
}

impl Lagging {
    /// Takes in that an ADU has come of which so many copies are to be made; returns whether it has time left for that. The end
    /// of a stream always has.
    pub(super) fn admits(&self, header: &Header, copies: usize, now: Instant) -> bool {
        if copies == 0 {
            return true;
        }
        let copies = u32::try_from(copies).unwrap_or(u32::MAX);
        let is_urgent = !header.deadline.is_never() && !header.flags.contains(Flags::END);
        let mut lag = self.lag();
        let is_late = is_urgent
            && header.deadline.saturating_since(now) < lag.needed(now, copies, header.importance);
        lag.handle_taken(now, if is_late { 0 } else { copies });
        !is_late
    }

    /// Has it measured how long it takes until all who have been woken had their turns, if anything was taken.
    pub(super) fn measure(&self) {
        if self.lag().is_under_way() {
            self.taken.notify_one();
        }
    }

    /// Returns how long the last round took.
    pub(super) fn last(&self) -> Duration {
        self.lag().last()
    }

    fn lag(&self) -> MutexGuard<'_, Lag> {
        // No code that can panic runs under this lock.
        self.lag.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures until it is aborted.
pub(crate) async fn measure(forwarder: Arc<Forwarder>) {
    let lagging = &forwarder.lagging;
    loop {
        lagging.taken.notified().await;
        // Whoever is woken last is first; this puts it behind all who were woken before.
        tokio::task::yield_now().await;
        let now = forwarder.clock.now();
        lagging.lag().handle_end(now);
    }
}
