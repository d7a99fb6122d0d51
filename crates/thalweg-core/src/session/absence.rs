//! Sinks whose subscriptions nobody has renewed: gone, or out of reach.
//!
//! *The idea.* A sink that can be reached and does not renew its subscription wants the stream no more. One that cannot be reached may want
//! it as before. Where a stream may lose nothing, it stays subscribed for a while, and what is given meanwhile is kept for it.
//!
//! *What it does not do.* It does not look whether a sink answers: the map and the word of nodes on its way say so.

use alloc::vec::Vec;

use super::{RENEW, Session, Sink};
use crate::id::NodeId;
use crate::time::{Duration, Instant};

impl Session {
    /// Returns the session with sinks that stay subscribed for so long beyond their lease while they cannot be reached.
    #[must_use]
    pub fn with_absence(self, absence: Duration) -> Self {
        Self { absence, ..self }
    }

    /// Ends the subscriptions that nobody has renewed, but for sinks that may be back.
    pub(super) fn time_leases(&mut self, now: Instant) {
        let absence = self.absence;
        let lapsed = self.sinks.iter_mut().filter(|(_, sink)| sink.lease < now);
        let gone =
            lapsed.filter_map(|(node, sink)| (!sink.may_be_back(absence, now)).then_some(*node));
        let gone: Vec<NodeId> = gone.collect();
        for node in gone {
            self.handle_unsubscribe(node, now);
        }
    }
}

impl Sink {
    /// Returns whether the sink, whose lease has lapsed, may want the stream still; then the lease goes on for a while.
    fn may_be_back(&mut self, absence: Duration, now: Instant) -> bool {
        if absence == Duration::ZERO || !self.has_begun {
            return false;
        }
        let is_silent = |plan: &super::Deployment| plan.suspect_until > now;
        let is_reached = self.is_well() && !self.active.as_ref().is_some_and(is_silent);
        if is_reached {
            // It asks within seconds of its way being back, which may have been a moment ago.
            self.lease = now + RENEW;
            return self.absent_since.take().is_some();
        }
        let since = *self.absent_since.get_or_insert(now);
        let until = since + absence;
        self.lease = until.min(now + RENEW);
        now < until
    }
}
