//! One wanted stream: its producer, when to subscribe, and which producers refuse.

use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;

use super::probe::Probe;

/// Maximum number of refusals remembered per wanted stream; the oldest are forgotten.
const REFUSALS_MAX: usize = 16;

/// The state of a wanted stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// No node publishes it; its subscribers have been notified.
    Waiting,
    /// A node publishes it.
    Found {
        /// That node.
        source: NodeId,
        /// The stream, until its publisher restarts.
        stream: StreamId,
        /// Whether a plan that ends here has been installed.
        is_served: bool,
    },
}

/// A stream that local programs want.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) subscription: Subscription,
    /// The last stream found; it may be found again when its source is reachable again.
    pub(super) stream: Option<StreamId>,
    /// When to subscribe, again or for the first time.
    pub(super) ask_at: Instant,
    /// Since when subscriptions go unanswered, if none was ever answered.
    pub(super) unanswered_since: Option<Instant>,
    /// The path on which the source last kept up a plan; empty if none is known.
    pub(super) path: Vec<NodeId>,
    /// There was no path to the source when a subscription was due.
    pub(super) is_unreachable: bool,
    /// No node published it at the last lookup.
    pub(super) is_waiting: bool,
    /// The stream was found while programs waited for it.
    pub(super) has_waited: bool,
    /// Streams of this name that have ended here and are still announced: none is taken again.
    pub(super) ended: Vec<StreamId>,
    /// The producers asked for a successor of the stream that has ended.
    pub(super) probe: Option<Probe>,
    /// Producers that refused, since one last served.
    refusals: Vec<Refusal>,
}

/// A producer that does not serve this node.
#[derive(Debug)]
struct Refusal {
    source: NodeId,
    /// The reason it gave; programs are notified of the same reason once.
    reason: String,
    /// Until then, other producers are preferred.
    until: Instant,
}

impl Wanted {
    /// Returns a wanted stream of which nothing is known.
    pub(super) const fn new() -> Self {
        Self {
            subscription: Subscription::Waiting,
            stream: None,
            ask_at: Instant::NEVER,
            unanswered_since: None,
            path: Vec::new(),
            is_unreachable: false,
            is_waiting: false,
            has_waited: false,
            ended: Vec::new(),
            probe: None,
            refusals: Vec::new(),
        }
    }

    /// Returns the producer and its stream, if one is found.
    pub(super) const fn found(&self) -> Option<(NodeId, StreamId)> {
        match self.subscription {
            Subscription::Waiting => None,
            Subscription::Found { source, stream, .. } => Some((source, stream)),
        }
    }

    /// Switches to a producer and schedules its subscription; returns the stream that was found before.
    pub(super) fn find(
        &mut self,
        source: NodeId,
        stream: StreamId,
        ask_at: Instant,
    ) -> Option<StreamId> {
        self.subscription = Subscription::Found {
            source,
            stream,
            is_served: false,
        };
        self.ask_at = ask_at;
        (self.unanswered_since, self.path) = (None, Vec::new());
        self.stream.replace(stream)
    }

    /// Returns when to ask.
    pub(super) fn poll_timeout(&self) -> Instant {
        let probe = self.probe.as_ref().map(Probe::poll_timeout);
        self.ask_at.min(probe.unwrap_or(Instant::NEVER))
    }

    /// Handles a plan that ends here, installed or renewed by the reverse of this route; returns
    /// whether the stream is served from now on.
    pub(super) fn handle_kept_up(&mut self, kept: StreamId, path: &[NodeId]) -> bool {
        if self.stream == Some(kept) {
            (self.unanswered_since, self.path) = (None, path.to_vec());
            self.refusals.clear();
        }
        match &mut self.subscription {
            Subscription::Found {
                stream, is_served, ..
            } if *stream == kept => !core::mem::replace(is_served, true),
            _ => false,
        }
    }

    /// Handles the removal of the last plan of a stream that ends here; returns whether its source,
    /// which has refused, no longer serves.
    pub(super) fn handle_unserved(&mut self, over: StreamId) -> bool {
        let Subscription::Found {
            source,
            stream,
            is_served,
        } = &mut self.subscription
        else {
            return false;
        };
        let mut refusals = self.refusals.iter();
        let ends = *stream == over && *is_served && refusals.any(|one| one.source == *source);
        if ends {
            *is_served = false;
        }
        ends
    }

    /// Returns whether any producer refuses.
    pub(super) const fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// Returns whether a producer has refused since one last served.
    pub(super) fn has_refused(&self, producer: NodeId) -> bool {
        self.refusals.iter().any(|one| one.source == producer)
    }

    /// Returns whether a producer has refused recently; for the present one, until it serves.
    pub(super) fn is_refused(&self, producer: NodeId, now: Instant) -> bool {
        let is_asked = matches!(
            self.subscription,
            Subscription::Found { source, is_served: false, .. } if source == producer
        );
        let mut refusals = self.refusals.iter();
        refusals.any(|one| one.source == producer && (is_asked || now < one.until))
    }

    /// Records a refusal, keeping an earlier deadline that is not over; returns whether its reason is new.
    pub(super) fn record_refusal(
        &mut self,
        source: NodeId,
        reason: &str,
        until: Instant,
        now: Instant,
    ) -> bool {
        let known = self.refusals.iter().position(|one| one.source == source);
        let before = known.map(|place| self.refusals.remove(place));
        if self.refusals.len() >= REFUSALS_MAX {
            self.refusals.remove(0);
        }
        let is_new = before.as_ref().is_none_or(|one| one.reason != reason);
        let last = before.map(|one| one.until).filter(|last| now < *last);
        self.refusals.push(Refusal {
            source,
            reason: reason.into(),
            until: last.unwrap_or(until),
        });
        is_new
    }
}
