//! Streams that local programs want: finding their producers, subscribing, renewing.
//!
//! *The idea.* Several nodes may publish a stream of one name: one is in use, the others stand by. A sink
//! stays with its producer while that is reachable and announces the stream. Otherwise it takes the
//! reachable producer with the smallest key. So a producer that returns does not take a sink back, and two
//! that come and go do not make it flap. A producer that refuses this node, and has no plan left that ends
//! here, is asked last for [`REFUSED_FOR`]. The end of a stream is handled by [`sequel`].
//!
//! *Sources.* docs/concepts/recast.md §7.

mod sequel;

use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Body;

use super::avoid::Avoid;
use super::withhold::PATIENCE;
use super::{Controller, Keys, Note, Notice, Output};
use crate::session::RENEW;
use sequel::Probe;

pub use sequel::{EndCause, Sequel};

/// Interval of subscriptions until a plan is installed.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long other producers are preferred to one that has refused.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(30);

/// How long a silent producer has to serve. A live one does after two round trips. The end of a
/// stream waits as long for what is missing before it.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

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
    unanswered_since: Option<Instant>,
    /// The path on which the source last kept up a plan; empty if none is known.
    path: Vec<NodeId>,
    /// There was no path to the source when a subscription was due.
    is_unreachable: bool,
    /// No node published it at the last lookup.
    is_waiting: bool,
    /// The stream was found while programs waited for it.
    has_waited: bool,
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

impl Controller {
    /// Subscribes to a stream, which need not exist yet, until [`Controller::unsubscribe`].
    /// Repeating it has no effect.
    #[expect(clippy::needless_pass_by_value, reason = "it is kept, under its name")]
    pub fn subscribe(&mut self, name: StreamName, now: Instant, keys: &mut dyn Keys) {
        if self.wanted.contains_key(&name) {
            return;
        }
        if self.publisher(&name, now).is_none() {
            self.outputs.push_back(Output::Notice {
                name: name.clone(),
                notice: Notice::Waiting,
            });
        }
        let wanted = Wanted {
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
        };
        self.wanted.insert(name.clone(), wanted);
        self.resolve_wanted(now, keys);
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.is_waiting = wanted.subscription == Subscription::Waiting;
        }
        self.settle(now, keys);
    }

    /// Ends the subscription to a stream.
    pub fn unsubscribe(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.remove(name) else {
            return;
        };
        if let Some(probe) = &wanted.probe {
            self.cancel_probe(name, probe, now, keys);
        }
        if let Subscription::Found { source, stream, .. } = wanted.subscription {
            self.mark_readers_left(stream, now);
            if let Some(path) = self.directory.path(self.id(), source) {
                self.send_routed(path, Body::Unsubscribe { stream }, keys);
            }
        }
        self.settle(now, keys);
    }

    /// Returns the state of a wanted stream, `None` if it is not wanted.
    pub fn subscription(&self, name: &StreamName) -> Option<Subscription> {
        self.wanted.get(name).map(|wanted| wanted.subscription)
    }

    /// Returns the nodes that announce a stream of a name, with its id.
    pub(super) fn publishers(&self, name: &StreamName) -> impl Iterator<Item = (NodeId, StreamId)> {
        let publishers = self.directory.publishers(name);
        publishers.map(|(node, stream)| (node, stream.id))
    }

    /// Returns the producer to use for a stream. The present one is kept if it still publishes, is
    /// reachable, answers and has not refused, or if no other is better.
    ///
    /// Cost    a path search for each producer, if there are several
    fn publisher(&self, name: &StreamName, now: Instant) -> Option<(NodeId, StreamId)> {
        let wanted = self.wanted.get(name);
        let ended = wanted.map(|wanted| &wanted.ended[..]).unwrap_or_default();
        let refuses = |producer| wanted.is_some_and(|wanted| wanted.is_refused(producer, now));
        let publishers = self.publishers(name);
        let publishers = publishers.filter(|(_, stream)| !ended.contains(stream));
        let before = match self.subscription(name) {
            Some(Subscription::Found { source, stream, .. }) => Some((source, stream)),
            _ => None,
        };
        let all: Vec<(NodeId, StreamId)> = publishers.collect();
        if all.len() < 2 {
            return all.first().copied();
        }
        let rank = |publisher: &(NodeId, StreamId)| {
            (
                !self.is_available(publisher.0),
                refuses(publisher.0),
                Some(*publisher) != before,
                publisher.0,
            )
        };
        all.into_iter().min_by_key(rank)
    }

    /// Returns whether a producer is reachable and answers.
    pub(super) fn is_available(&self, producer: NodeId) -> bool {
        let is_silent = self.continuity.silent_producers.has(producer);
        !is_silent && self.directory.path(self.id(), producer).is_some()
    }

    /// Looks up the producers of wanted streams, and subscribes to those that have become reachable.
    pub(super) fn resolve_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        let names: Vec<StreamName> = self.wanted.keys().cloned().collect();
        for name in names {
            self.resolve(&name, now, keys);
        }
        self.renew_wanted(now, keys);
    }

    /// Looks up the producer of a wanted stream.
    pub(super) fn resolve(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.get(name) else {
            return;
        };
        if wanted.probe.is_some() {
            return self.advance_probe(name, now, keys);
        }
        let before = match wanted.subscription {
            Subscription::Waiting => None,
            Subscription::Found { source, stream, .. } => Some((source, stream)),
        };
        // After the end of a stream, a silent producer is taken only when it serves, or its silence
        // has been forgotten.
        let is_after_end = wanted.stream.is_some_and(|last| self.has_ended(last));
        let is_deferred = |one: &(NodeId, StreamId)| {
            is_after_end && Some(*one) != before && self.continuity.silent_producers.has(one.0)
        };
        let published = self.publisher(name, now).filter(|one| !is_deferred(one));
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        if published == before {
            // A record arrives over the path that it describes, so a stream is known a little
            // before the path to it.
            if wanted.is_unreachable {
                wanted.ask_at = now;
            }
            return;
        }
        let name = name.clone();
        if let Some((source, stream)) = published {
            // A producer that died may have restarted its stream while the end of the former one
            // was in flight.
            let follows = before
                .is_some_and(|(producer, last)| producer == source && wanted.ended.contains(&last));
            let is_new = wanted.stream != Some(stream);
            wanted.has_waited = is_new && (core::mem::take(&mut wanted.is_waiting) || follows);
            let begins = wanted.find(source, stream, now).is_none();
            wanted.unanswered_since = Some(now);
            let mut refusals = wanted.refusals.iter();
            let has_refused = refusals.any(|one| before.is_some_and(|left| left.0 == one.source));
            let is_left = begins && self.start_readers(stream, now);
            self.outputs.push_back(Output::Found { name, stream });
            if is_left && let Some(path) = self.path_to(source, now) {
                // The earlier `Unsubscribe` may have been lost. This one goes before the next
                // `Subscribe`, on the same path.
                self.send_routed(path, Body::Unsubscribe { stream }, keys);
            }
            self.unsubscribe_from(before, has_refused, keys);
        } else {
            wanted.subscription = Subscription::Waiting;
            wanted.is_waiting = true;
            // No producer is left to ask, even if a path comes up again.
            (wanted.ask_at, wanted.is_unreachable) = (Instant::NEVER, false);
            // Each reader that has reached the end of it knows already.
            let is_read = before.is_some_and(|(_, stream)| wanted.ended.contains(&stream));
            if !is_read {
                let notice = Notice::Gone;
                self.outputs.push_back(Output::Notice { name, notice });
            }
        }
    }

    /// Unsubscribes from a producer that was left because it refused, or was silent and may still be alive.
    fn unsubscribe_from(
        &mut self,
        left: Option<(NodeId, StreamId)>,
        has_refused: bool,
        keys: &mut dyn Keys,
    ) {
        let may_serve = |producer| has_refused || self.continuity.silent_producers.has(producer);
        let left = left.filter(|(producer, _)| may_serve(*producer));
        if let Some((producer, stream)) = left
            && let Some(path) = self.directory.path(self.id(), producer)
        {
            self.send_routed(path, Body::Unsubscribe { stream }, keys);
        }
    }

    /// Sends the subscriptions that are due.
    pub(super) fn renew_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        let due = self
            .wanted
            .iter()
            .filter(|(_, wanted)| wanted.ask_at <= now);
        let due = due.map(|(name, wanted)| (name.clone(), !wanted.refusals.is_empty()));
        let due: Vec<(StreamName, bool)> = due.collect();
        for (name, is_refused) in due {
            if is_refused {
                // The time of a refusal may be over.
                self.resolve(&name, now, keys);
            }
            self.ask(&name, now, keys);
        }
    }

    fn ask(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        let Subscription::Found {
            source,
            stream,
            is_served,
        } = wanted.subscription
        else {
            return;
        };
        wanted.ask_at = now + if is_served { RENEW } else { ASK_AGAIN };
        let (unanswered_since, has_waited) = (wanted.unanswered_since, wanted.has_waited);
        let is_unanswered = unanswered_since.is_some_and(|since| since + PATIENCE <= now);
        let known = wanted.path.clone();
        let is_whole = |path: &[NodeId]| {
            let mut hops = path.windows(2);
            path.len() > 1 && hops.all(|hop| self.directory.is_joined(hop[0], hop[1]))
        };
        let path = if is_whole(&known) && !is_unanswered {
            Some(known)
        } else {
            if is_unanswered && let Some(path) = self.path_to(source, now) {
                self.suspect_unanswered(&path, path.get(1..).unwrap_or_default(), now);
            }
            self.path_to(source, now)
        };
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.is_unreachable = path.is_none();
            if is_unanswered || path.is_none() {
                wanted.unanswered_since = unanswered_since.map(|_| now);
            }
        }
        if let Some(path) = path {
            self.send_routed(path, Body::Subscribe { stream, has_waited }, keys);
        }
    }

    /// Returns a path to a source that avoids suspected nodes if there is one, or else any.
    pub(super) fn path_to(&self, source: NodeId, now: Instant) -> Option<Vec<NodeId>> {
        let path = self.path_avoiding(source, Avoid::Nodes, now);
        path.or_else(|| self.directory.path(self.id(), source))
    }

    /// Handles a plan for a wanted stream that was installed here.
    pub(super) fn mark_served(&mut self, served: StreamId, path: &[NodeId]) {
        for (name, wanted) in &mut self.wanted {
            if wanted.stream == Some(served) {
                (wanted.unanswered_since, wanted.path) = (None, path.to_vec());
                wanted.refusals.clear();
            }
            match &mut wanted.subscription {
                Subscription::Found {
                    stream, is_served, ..
                } if *stream == served && !*is_served => {
                    *is_served = true;
                    let stream = name.clone();
                    self.outputs
                        .push_back(Output::Note(Note::Subscribed { stream }));
                }
                _ => {}
            }
        }
    }

    /// Handles the removal of a plan: if it was the last that ends here, a source that has refused
    /// no longer serves.
    pub(super) fn mark_unserved(&mut self, over: StreamId) {
        if self.newest_ending(over).is_some() {
            return;
        }
        for wanted in self.wanted.values_mut() {
            let Subscription::Found {
                source,
                stream,
                is_served,
            } = &mut wanted.subscription
            else {
                continue;
            };
            let mut refusals = wanted.refusals.iter();
            if *stream == over && *is_served && refusals.any(|one| one.source == *source) {
                *is_served = false;
                self.is_changed = true;
            }
        }
    }

    /// Notifies the subscribers of all wanted streams.
    pub(super) fn notify_wanted(&mut self, notice: &Notice) {
        let notices = self.wanted.keys().map(|name| Output::Notice {
            name: name.clone(),
            notice: notice.clone(),
        });
        self.outputs.extend(notices);
    }

    /// Handles the reason of a source that does not serve this node; another producer may.
    pub(super) fn handle_refused(
        &mut self,
        from: NodeId,
        refused: StreamId,
        reason: &str,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let source = self.name_of(from);
        for (name, wanted) in &mut self.wanted {
            let Subscription::Found {
                source: asked,
                stream,
                is_served,
            } = wanted.subscription
            else {
                continue;
            };
            if (asked, stream) != (from, refused) {
                continue;
            }
            wanted.unanswered_since = None;
            // A served stream goes on with the plan in force, or with the next.
            let until = if is_served { now } else { now + REFUSED_FOR };
            if wanted.record_refusal(from, reason, until, now) {
                let notice = Notice::Refused {
                    source: source.clone(),
                    reason: reason.into(),
                    is_served,
                };
                let name = name.clone();
                self.outputs.push_back(Output::Notice { name, notice });
            }
        }
        self.mark_unserved(refused);
        self.resolve_wanted(now, keys);
    }
}

impl Wanted {
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

    pub(super) fn poll_timeout(&self) -> Instant {
        let probe = self.probe.as_ref().map(Probe::poll_timeout);
        self.ask_at.min(probe.unwrap_or(Instant::NEVER))
    }

    /// Returns whether a producer has refused recently; for the present one, until it serves.
    fn is_refused(&self, producer: NodeId, now: Instant) -> bool {
        let is_asked = matches!(
            self.subscription,
            Subscription::Found { source, is_served: false, .. } if source == producer
        );
        let mut refusals = self.refusals.iter();
        refusals.any(|one| one.source == producer && (is_asked || now < one.until))
    }

    /// Records a refusal, keeping an earlier deadline that is not over; returns whether its reason is new.
    fn record_refusal(
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
