//! When a change of the map triggers replanning for all sinks.
//!
//! *The idea.* A stream with few sinks replans at each change. One with hundreds would plan
//! hundreds of times for each viewer that joins, so it replans at once only for the sinks that need
//! it, and for all sinks at a limited pace. A path that is merely better may wait: what makes it
//! better was observed for seconds before it was announced.

use thalweg_base::time::{Duration, Instant};

/// A stream with more sinks than this limits the pace of replanning.
pub const SINKS_FEW: usize = 16;

/// Minimum interval between two replannings of all sinks, per sink.
pub const LOOK_PACE: Duration = Duration::from_millis(2);

/// When all sinks were last replanned, and when they are next.
#[derive(Debug, Default)]
pub(super) struct ReplanPace {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl ReplanPace {
    /// Handles a change of the map; returns whether to replan all sinks at once.
    pub(super) fn handle_change(&mut self, sinks: usize, now: Instant) -> bool {
        let pace = Duration::from_nanos(LOOK_PACE.as_nanos() * sinks as u64);
        let last = self.last.filter(|_| sinks > SINKS_FEW);
        self.due = Some(last.map_or(now, |last| now.max(last + pace)));
        self.handle_timeout(now)
    }

    /// Returns whether to replan all sinks now.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = self.due.take_if(|due| *due <= now).is_some();
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Returns when to replan all sinks.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }
}
