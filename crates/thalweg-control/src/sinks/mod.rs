//! Streams that local programs want: finding their producers, subscribing, renewing.
//!
//! *The idea.* Several nodes may publish a stream of one name: one is in use, the others stand by. A sink
//! stays with its producer while that is reachable and announces the stream. Otherwise it takes the
//! reachable producer with the smallest key. So a producer that returns does not take a sink back, and two
//! that come and go do not make it flap. A producer that refuses this node, and has no plan left that ends
//! here, is asked last for [`REFUSED_FOR`]. The end of a stream is handled by `sequel`.
//!
//! | file | what it is |
//! |---|---|
//! | `wanted` | one wanted stream |
//! | `sequel`, `probe` | what follows the end of a wanted stream |
//! | `producer` | producers that are silent |
//! | `received` | what has arrived, and receipts |
//!
//! *What it does not do.* It makes no plan: the source does. [`parts`](crate::parts) has this node's part.
//!
//! *Sources.* docs/concepts/recast.md §7.

mod probe;
mod producer;
mod received;
mod sequel;
mod wanted;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Body;

use crate::effect::{Effect, Note, Notice, Output, PlanKey, Turn};
use crate::facts::{Facts, Local};
use crate::health::suspects::SUSPECT_HOLD;
use crate::health::{Health, PATIENCE};
use crate::parts::Parts;
use crate::session::RENEW;
use producer::SilentProducers;
use received::Received;
use wanted::Wanted;

pub use probe::{EndCause, Sequel};
pub(crate) use sequel::Follows;
pub use wanted::Subscription;

/// Interval of subscriptions until a plan is installed.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long other producers are preferred to one that has refused.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(30);

/// How long a silent producer has to serve. A live one does after two round trips. The end of a
/// stream waits as long for what is missing before it.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What a sink reads of other owners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) health: &'a Health,
    pub(crate) parts: &'a Parts,
}

impl View<'_> {
    /// Sends a body along a path that avoids suspected nodes if there is one.
    fn send(&self, turn: &mut Turn<'_>, node: NodeId, body: Body) {
        if let Some(path) = self.health.path_to(self.facts, node, turn.now) {
            turn.route(path, body);
        }
    }
}

/// The owner of the streams that local programs want.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    wanted: BTreeMap<StreamName, Wanted>,
    received: Received,
    /// Producers that do not answer.
    silent: SilentProducers,
}

impl Sinks {
    /// Returns the state of a wanted stream, `None` if it is not wanted.
    pub(crate) fn subscription(&self, name: &StreamName) -> Option<Subscription> {
        self.wanted.get(name).map(|wanted| wanted.subscription)
    }

    /// Returns the names of the wanted streams.
    pub(crate) fn names(&self) -> impl Iterator<Item = &StreamName> {
        self.wanted.keys()
    }

    /// Handles a program that wants a stream, which need not exist yet; returns whether that is
    /// new. It is to be looked up then.
    pub(crate) fn subscribe(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
    ) -> bool {
        if self.wanted.contains_key(name) {
            return false;
        }
        if self.publisher(view.facts, name, turn.now).is_none() {
            turn.output(Output::Notice {
                name: name.clone(),
                notice: Notice::Waiting,
            });
        }
        self.wanted.insert(name.clone(), Wanted::new());
        true
    }

    /// Handles the first lookup of a wanted stream.
    pub(crate) fn handle_looked_up(&mut self, name: &StreamName) {
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.is_waiting = wanted.subscription == Subscription::Waiting;
        }
    }

    /// Ends the subscription to a stream; returns whether there was one.
    pub(crate) fn unsubscribe(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
    ) -> bool {
        let Some(wanted) = self.wanted.remove(name) else {
            return false;
        };
        if let Some(probe) = &wanted.probe {
            sequel::cancel(turn, view, name, probe);
        }
        if let Some((source, stream)) = wanted.found() {
            self.received
                .handle_left(&view.facts.local, view.parts, stream, turn.now);
            if let Some(path) = view.facts.path(source) {
                turn.route(path, Body::Unsubscribe { stream });
            }
        }
        true
    }

    /// Returns the producer to use for a stream. The present one is kept if it still publishes, is
    /// reachable, answers and has not refused, or if no other is better.
    ///
    /// Cost    a path search for each producer, if there are several
    fn publisher(
        &self,
        facts: &Facts<'_>,
        name: &StreamName,
        now: Instant,
    ) -> Option<(NodeId, StreamId)> {
        let wanted = self.wanted.get(name);
        let ended = wanted.map(|wanted| &wanted.ended[..]).unwrap_or_default();
        let refuses = |producer| wanted.is_some_and(|wanted| wanted.is_refused(producer, now));
        let publishers = publishers(facts, name);
        let publishers = publishers.filter(|(_, stream)| !ended.contains(stream));
        let before = wanted.and_then(Wanted::found);
        let all: Vec<(NodeId, StreamId)> = publishers.collect();
        if all.len() < 2 {
            return all.first().copied();
        }
        let rank = |publisher: &(NodeId, StreamId)| {
            (
                !self.is_available(facts, publisher.0),
                refuses(publisher.0),
                Some(*publisher) != before,
                publisher.0,
            )
        };
        all.into_iter().min_by_key(rank)
    }

    /// Returns whether a producer is reachable and answers.
    fn is_available(&self, facts: &Facts<'_>, producer: NodeId) -> bool {
        !self.silent.has(producer) && facts.path(producer).is_some()
    }

    /// Looks up the producer of a wanted stream.
    pub(crate) fn resolve(&mut self, turn: &mut Turn<'_>, view: &View<'_>, name: &StreamName) {
        let Some(wanted) = self.wanted.get(name) else {
            return;
        };
        if wanted.probe.is_some() {
            return self.advance_probe(turn, view, name);
        }
        let before = wanted.found();
        // After the end of a stream, a silent producer is taken only when it serves, or its silence
        // has been forgotten.
        let is_after_end = wanted
            .stream
            .is_some_and(|last| self.received.has_ended(last));
        let is_deferred = |one: &(NodeId, StreamId)| {
            is_after_end && Some(*one) != before && self.silent.has(one.0)
        };
        let published = self.publisher(view.facts, name, turn.now);
        let published = published.filter(|one| !is_deferred(one));
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        if published == before {
            // A record arrives over the path that it describes, so a stream is known a little
            // before the path to it.
            if wanted.is_unreachable {
                wanted.ask_at = turn.now;
            }
            return;
        }
        if let Some(published) = published {
            return self.take(turn, view, name, before, published);
        }
        wanted.subscription = Subscription::Waiting;
        wanted.is_waiting = true;
        // No producer is left to ask, even if a path comes up again.
        (wanted.ask_at, wanted.is_unreachable) = (Instant::NEVER, false);
        // Each reader that has reached the end of it knows already.
        let is_read = before.is_some_and(|(_, stream)| wanted.ended.contains(&stream));
        if !is_read {
            turn.output(Output::Notice {
                name: name.clone(),
                notice: Notice::Gone,
            });
        }
    }

    /// Switches to a producer of a wanted stream.
    fn take(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
        before: Option<(NodeId, StreamId)>,
        (source, stream): (NodeId, StreamId),
    ) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        // A producer that died may have restarted its stream while the end of the former one
        // was in flight.
        let follows = before
            .is_some_and(|(producer, last)| producer == source && wanted.ended.contains(&last));
        let is_new = wanted.stream != Some(stream);
        wanted.has_waited = is_new && (core::mem::take(&mut wanted.is_waiting) || follows);
        let begins = wanted.find(source, stream, turn.now).is_none();
        wanted.unanswered_since = Some(turn.now);
        let has_refused = before.is_some_and(|left| wanted.has_refused(left.0));
        let is_left = begins && self.received.start(turn, stream);
        let name = name.clone();
        turn.output(Output::Found { name, stream });
        if is_left {
            // The earlier `Unsubscribe` may have been lost. This one goes before the next
            // `Subscribe`, on the same path.
            view.send(turn, source, Body::Unsubscribe { stream });
        }
        // A producer that was left because it refused, or was silent, may still be alive.
        let may_serve = |producer| has_refused || self.silent.has(producer);
        let left = before.filter(|(producer, _)| may_serve(*producer));
        if let Some((producer, stream)) = left
            && let Some(path) = view.facts.path(producer)
        {
            turn.route(path, Body::Unsubscribe { stream });
        }
    }

    /// Returns the streams whose subscriptions are due, each with whether to look it up first: the
    /// time of a refusal may be over.
    pub(crate) fn due(&self, now: Instant) -> Vec<(StreamName, bool)> {
        let wanted = self.wanted.iter();
        let due = wanted.filter(|(_, wanted)| wanted.ask_at <= now);
        due.map(|(name, wanted)| (name.clone(), wanted.has_refusals()))
            .collect()
    }

    /// Returns the source of a stream that has not answered for a while.
    pub(crate) fn unanswered(&self, name: &StreamName, now: Instant) -> Option<NodeId> {
        let wanted = self.wanted.get(name)?;
        let (source, _) = wanted.found()?;
        let since = wanted.unanswered_since?;
        (since + PATIENCE <= now).then_some(source)
    }

    /// Sends the subscription to a stream.
    pub(crate) fn ask(&mut self, turn: &mut Turn<'_>, view: &View<'_>, name: &StreamName) {
        let is_unanswered = self.unanswered(name, turn.now).is_some();
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
        wanted.ask_at = turn.now + if is_served { RENEW } else { ASK_AGAIN };
        let is_whole = |path: &[NodeId]| {
            let mut hops = path.windows(2);
            let directory = view.facts.directory;
            path.len() > 1 && hops.all(|hop| directory.is_joined(hop[0], hop[1]))
        };
        let path = if is_whole(&wanted.path) && !is_unanswered {
            Some(wanted.path.clone())
        } else {
            view.health.path_to(view.facts, source, turn.now)
        };
        wanted.is_unreachable = path.is_none();
        if is_unanswered || path.is_none() {
            wanted.unanswered_since = wanted.unanswered_since.map(|_| turn.now);
        }
        let has_waited = wanted.has_waited;
        if let Some(path) = path {
            turn.route(path, Body::Subscribe { stream, has_waited });
        }
    }

    /// Handles the sign that the source keeps up a plan that ends here, by the reverse of this route.
    pub(crate) fn handle_kept_up(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        plan: PlanKey,
        route_back: &[NodeId],
    ) {
        let Some(source) = view.parts.get(plan).map(|part| part.source) else {
            return;
        };
        self.adopt_asked(turn, view, source, plan);
        for (name, wanted) in &mut self.wanted {
            if wanted.handle_kept_up(plan.0, route_back) {
                let stream = name.clone();
                turn.note(Note::Subscribed { stream });
            }
        }
        self.received
            .send(turn, &view.facts.local, view.parts, plan);
    }

    /// Handles the removal of a plan: if it was the last that ends here, a source that has refused
    /// no longer serves.
    pub(crate) fn handle_unserved(&mut self, turn: &mut Turn<'_>, parts: &Parts, over: StreamId) {
        if parts.newest_ending(over).is_some() {
            return;
        }
        for wanted in self.wanted.values_mut() {
            if wanted.handle_unserved(over) {
                turn.push(Effect::Changed);
            }
        }
    }

    /// Handles the expulsion of this node.
    pub(crate) fn handle_expelled(&self, turn: &mut Turn<'_>) {
        for name in self.wanted.keys() {
            turn.output(Output::Notice {
                name: name.clone(),
                notice: Notice::Expelled,
            });
        }
    }

    /// Handles the reason of a source that does not serve this node; another producer may.
    pub(crate) fn handle_refused(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        (from, refused): (NodeId, StreamId),
        reason: &str,
    ) {
        let source: String = view.facts.name_of(from);
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
            let hold = if is_served {
                Duration::ZERO
            } else {
                REFUSED_FOR
            };
            if wanted.record_refusal(from, reason, turn.now + hold, turn.now) {
                let notice = Notice::Refused {
                    source: source.clone(),
                    reason: reason.into(),
                    is_served,
                };
                let name = name.clone();
                turn.output(Output::Notice { name, notice });
            }
        }
        self.handle_unserved(turn, view.parts, refused);
        turn.push(Effect::ResolveWanted);
    }

    /// Handles a silent producer of a stream that ends here: another takes over, if there is one.
    pub(crate) fn handle_silent_producer(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        stream: StreamId,
        producer: NodeId,
    ) {
        let is_it = |wanted: &Wanted| wanted.found().is_some_and(|(_, of)| of == stream);
        let mut wanted = self.wanted.iter();
        let Some((name, _)) = wanted.find(|(_, wanted)| is_it(wanted)) else {
            return;
        };
        let mut producers = publishers(facts, name);
        if !producers.any(|(other, _)| other != producer) {
            return;
        }
        if self.silent.insert(producer, turn.now + SUSPECT_HOLD) {
            turn.push(Effect::Changed);
            let stream = name.clone();
            turn.note(Note::ProducerSilent { stream, producer });
        }
    }

    /// Handles what has arrived of a stream that ends here.
    pub(crate) fn handle_held(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
        stream: StreamId,
        arrived: (Held, News),
    ) {
        if self.received.handle_held(local, stream, arrived, turn.now) {
            self.received.send_due(turn, local, parts);
        }
    }

    /// Handles a renewal of a plan by its source.
    pub(crate) fn handle_renewed(&mut self, turn: &mut Turn<'_>, parts: &Parts, plan: PlanKey) {
        self.received.reclaim(turn, parts, plan);
    }

    /// Forgets silences that are over.
    pub(crate) fn expire_silences(&mut self, turn: &mut Turn<'_>) {
        if self.silent.expire(turn.now) {
            turn.push(Effect::Changed);
        }
    }

    /// Forgets what arrived of streams that are over here, and sends the due receipts.
    pub(crate) fn handle_receipts(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
    ) {
        let wanted = &self.wanted;
        let is_wanted = |stream| wanted.values().any(|one| one.stream == Some(stream));
        self.received.forget(turn, parts, is_wanted);
        self.received.send_due(turn, local, parts);
    }

    /// Returns when something is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let asks = self.wanted.values().map(Wanted::poll_timeout);
        let first = asks.min().unwrap_or(Instant::NEVER);
        first
            .min(self.received.poll_timeout())
            .min(self.silent.poll_timeout())
    }
}

/// Returns the nodes that announce a stream of a name, with its id.
fn publishers(facts: &Facts<'_>, name: &StreamName) -> impl Iterator<Item = (NodeId, StreamId)> {
    let publishers = facts.directory.publishers(name);
    publishers.map(|(node, stream)| (node, stream.id))
}
