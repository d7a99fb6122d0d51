//! Sinks with lapsed subscriptions: gone, or out of reach.
//!
//! *The idea.* A reachable sink that does not renew its subscription no longer wants the stream. An
//! unreachable one may still want it. If a stream may lose nothing, such a sink stays subscribed
//! for a while, and its ADUs are kept.
//!
//! *What it does not do.* It does not probe sinks: the map and reports of nodes on the path show
//! whether one is reachable.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};

use super::{RENEW, Session, Sink};

impl Session {
    /// Returns the session with sinks that stay subscribed this long beyond their lease while they
    /// are unreachable.
    #[must_use]
    pub fn with_absence(self, absence: Duration) -> Self {
        Self { absence, ..self }
    }

    /// Ends the subscriptions with lapsed leases, except for sinks that may return.
    pub(super) fn handle_lease_timeout(&mut self, now: Instant) {
        let absence = self.absence;
        let lapsed = self.sinks.iter_mut().filter(|(_, sink)| sink.lease < now);
        let gone =
            lapsed.filter_map(|(node, sink)| (!sink.may_return(absence, now)).then_some(*node));
        let gone: Vec<NodeId> = gone.collect();
        for node in gone {
            self.handle_unsubscribe(node, now);
        }
    }
}

impl Sink {
    /// Returns whether a sink with a lapsed lease may still want the stream; its lease is then
    /// extended for a while.
    fn may_return(&mut self, absence: Duration, now: Instant) -> bool {
        if absence == Duration::ZERO || !self.has_begun {
            return false;
        }
        let is_silent = |plan: &super::Deployment| plan.suspect_until > now;
        let is_reached = self.is_healthy() && !self.active.as_ref().is_some_and(is_silent);
        if is_reached {
            // The path may have returned a moment ago; the sink renews within seconds of that.
            self.lease = now + RENEW;
            return self.absent_since.take().is_some();
        }
        let since = *self.absent_since.get_or_insert(now);
        let until = since + absence;
        self.lease = until.min(now + RENEW);
        now < until
    }
}
