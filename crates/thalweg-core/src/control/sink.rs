//! The streams that programs on this node want: finding who publishes them, subscribing, staying subscribed.
//!
//! *The idea.* Several nodes may publish a stream of one name: one is in use, the others stand by. A sink stays with the one that
//! it has for as long as there is a way to that and it announces the stream, and then takes the one of the smallest key to which
//! there is a way; so who comes back does not take it away again, and two that come and go do not make it flap. A producer that
//! ends its stream is done: [`sequel`](super::sequel) has what comes then. One that says why it does not
//! serve this node, and has no plan left that ends here, is asked again only after all others, for a time.
//!
//! *Sources.* docs/recast.md §7.

use alloc::string::String;
use alloc::vec::Vec;

use super::continuity::Avoid;
use super::sequel::Probe;
use super::withhold::PATIENCE;
use super::{Controller, Keys, Note, Notice, Output};
use crate::id::{NodeId, StreamId, StreamName};
use crate::session::RENEW;
use crate::time::{Duration, Instant};
use crate::wire::control::Body;

/// How soon a subscription that has not been answered by a plan is repeated.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// For how long another producer is taken rather than one that has refused.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Producers whose refusals are known of one wanted stream; of more the first are forgotten.
const REFUSALS_MAX: usize = 16;

/// How a wanted stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Nobody publishes it; what waits for it has been told so.
    Waiting,
    /// A node publishes it.
    Found {
        /// That node.
        source: NodeId,
        /// The stream, until its publisher starts anew.
        stream: StreamId,
        /// Whether a plan that ends here has been installed.
        is_served: bool,
    },
}

/// A stream that is wanted here.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) subscription: Subscription,
    /// The stream that was found last; it may be found again, when there is a way to its source again.
    pub(super) stream: Option<StreamId>,
    /// When the source is to be asked, again or for the first time.
    pub(super) ask: Instant,
    /// Since when the source is asked, while it has never answered.
    unanswered: Option<Instant>,
    /// The way to the source by which it was heard of last, if it was.
    way: Vec<NodeId>,
    /// When it was to be asked last, there was no way to it.
    is_cut_off: bool,
    /// Nobody published it when that was looked up last.
    waits: bool,
    /// The stream that was found came when it was waited for.
    has_waited: bool,
    /// The streams of this name that have come to their ends here and are announced still: none is taken again.
    pub(super) ended: Vec<StreamId>,
    /// Who is asked whether it goes on after the stream that was found.
    pub(super) probe: Option<Probe>,
    /// Who does not serve us, since somebody last did.
    refusals: Vec<Refusal>,
}

/// A producer that does not serve this node.
#[derive(Debug)]
struct Refusal {
    source: NodeId,
    /// What it said: the same is told once.
    reason: String,
    /// Until then another is taken rather than it.
    until: Instant,
}

impl Controller {
    /// Wants a stream, which need not exist yet, until [`Controller::unsubscribe`]; wanting it twice is wanting it.
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
            ask: Instant::NEVER,
            unanswered: None,
            way: Vec::new(),
            is_cut_off: false,
            waits: false,
            has_waited: false,
            ended: Vec::new(),
            probe: None,
            refusals: Vec::new(),
        };
        self.wanted.insert(name.clone(), wanted);
        self.resolve_wanted(now, keys);
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.waits = wanted.subscription == Subscription::Waiting;
        }
        self.settle(now, keys);
    }

    /// Does not want a stream any more.
    pub fn unsubscribe(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.remove(name) else {
            return;
        };
        if let Some(probe) = &wanted.probe {
            self.drop_probe(name, probe, now, keys);
        }
        if let Subscription::Found { source, stream, .. } = wanted.subscription {
            self.leave_received(stream, now);
            if let Some(way) = self.directory.path(self.id(), source) {
                self.send_routed(way, Body::Unsubscribe { stream }, keys);
            }
        }
        self.settle(now, keys);
    }

    /// Returns how a wanted stream is, `None` if it is not wanted.
    pub fn subscription(&self, name: &StreamName) -> Option<Subscription> {
        self.wanted.get(name).map(|wanted| wanted.subscription)
    }

    /// Returns who announces a stream of a name, and which that is.
    pub(super) fn publishers(&self, name: &StreamName) -> impl Iterator<Item = (NodeId, StreamId)> {
        let publishers = self.directory.publishers(name);
        publishers.map(|(node, stream)| (node, stream.id))
    }

    /// Returns who publishes a stream for this node: whoever did before, if that still does, can be reached, answers and has
    /// not refused, or nobody else does.
    ///
    /// Cost    of several that publish it, a way to each
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
                !self.is_there(publisher.0),
                refuses(publisher.0),
                Some(*publisher) != before,
                publisher.0,
            )
        };
        all.into_iter().min_by_key(rank)
    }

    /// Returns whether there is a way to a producer, and it answers.
    pub(super) fn is_there(&self, producer: NodeId) -> bool {
        let is_silent = self.continuity.silent_producers.has(producer);
        !is_silent && self.directory.path(self.id(), producer).is_some()
    }

    /// Looks up the publishers of wanted streams, and asks those that there was no way to.
    pub(super) fn resolve_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        let names: Vec<StreamName> = self.wanted.keys().cloned().collect();
        for name in names {
            self.resolve(&name, now, keys);
        }
        self.renew_wanted(now, keys);
    }

    /// Looks up the publisher of a wanted stream.
    pub(super) fn resolve(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.get(name) else {
            return;
        };
        if wanted.probe.is_some() {
            return self.look_at_probe(name, now, keys);
        }
        let before = match wanted.subscription {
            Subscription::Waiting => None,
            Subscription::Found { source, stream, .. } => Some((source, stream)),
        };
        // After the end of a stream who was silent is found when it serves, or has been quiet for long enough.
        let is_after_end = wanted.stream.is_some_and(|last| self.has_ended(last));
        let is_put_off = |one: &(NodeId, StreamId)| {
            is_after_end && Some(*one) != before && self.continuity.silent_producers.has(one.0)
        };
        let published = self.publisher(name, now).filter(|one| !is_put_off(one));
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        if published == before {
            // A record comes by the way that it describes, so a stream is known a little before the way to it.
            if wanted.is_cut_off {
                wanted.ask = now;
            }
            return;
        }
        let name = name.clone();
        if let Some((source, stream)) = published {
            // The next stream of a producer that died has begun while the end of the one before was on its way.
            let follows = before
                .is_some_and(|(producer, last)| producer == source && wanted.ended.contains(&last));
            let is_new = wanted.stream != Some(stream);
            wanted.has_waited = is_new && (core::mem::take(&mut wanted.waits) || follows);
            let begins = wanted.find(source, stream, now).is_none();
            wanted.unanswered = Some(now);
            let mut refusals = wanted.refusals.iter();
            let has_refused = refusals.any(|one| before.is_some_and(|left| left.0 == one.source));
            let is_left = begins && self.begin_anew(stream, now);
            self.outputs.push_back(Output::Found { name, stream });
            if is_left && let Some(way) = self.way_to(source, now) {
                // The word of those before may have been lost. It goes before the next, by the same way.
                self.send_routed(way, Body::Unsubscribe { stream }, keys);
            }
            self.leave_producer(before, has_refused, keys);
        } else {
            wanted.subscription = Subscription::Waiting;
            wanted.waits = true;
            // There is nobody to be asked, also when a way comes up again.
            (wanted.ask, wanted.is_cut_off) = (Instant::NEVER, false);
            // Each reader that has come to the end of it knows.
            let is_read = before.is_some_and(|(_, stream)| wanted.ended.contains(&stream));
            if !is_read {
                let notice = Notice::Gone;
                self.outputs.push_back(Output::Notice { name, notice });
            }
        }
    }

    /// Says to a producer that was left because it has refused, or did not answer and may be there, that it has been.
    fn leave_producer(
        &mut self,
        left: Option<(NodeId, StreamId)>,
        has_refused: bool,
        keys: &mut dyn Keys,
    ) {
        let may_serve = |producer| has_refused || self.continuity.silent_producers.has(producer);
        let left = left.filter(|(producer, _)| may_serve(*producer));
        if let Some((producer, stream)) = left
            && let Some(way) = self.directory.path(self.id(), producer)
        {
            self.send_routed(way, Body::Unsubscribe { stream }, keys);
        }
    }

    /// Subscribes where it is due.
    pub(super) fn renew_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        let due = self.wanted.iter().filter(|(_, wanted)| wanted.ask <= now);
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
        wanted.ask = now + if is_served { RENEW } else { ASK_AGAIN };
        let (unanswered, has_waited) = (wanted.unanswered, wanted.has_waited);
        let is_unheard = unanswered.is_some_and(|since| since + PATIENCE <= now);
        let known = wanted.way.clone();
        let is_whole = |way: &[NodeId]| {
            let mut hops = way.windows(2);
            way.len() > 1 && hops.all(|hop| self.directory.is_joined(hop[0], hop[1]))
        };
        let way = if is_whole(&known) && !is_unheard {
            Some(known)
        } else {
            if is_unheard && let Some(way) = self.way_to(source, now) {
                self.doubt_unanswered(&way, way.get(1..).unwrap_or_default(), now);
            }
            self.way_to(source, now)
        };
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.is_cut_off = way.is_none();
            if is_unheard || way.is_none() {
                wanted.unanswered = unanswered.map(|_| now);
            }
        }
        if let Some(way) = way {
            self.send_routed(way, Body::Subscribe { stream, has_waited }, keys);
        }
    }

    /// Returns a way to a source by nodes that pass on what they are given, if there is one, or by any.
    pub(super) fn way_to(&self, source: NodeId, now: Instant) -> Option<Vec<NodeId>> {
        let way = self.way_avoiding(source, Avoid::Nodes, now);
        way.or_else(|| self.directory.path(self.id(), source))
    }

    /// A plan for a wanted stream has been installed here.
    pub(super) fn note_served(&mut self, served: StreamId, way: &[NodeId]) {
        for (name, wanted) in &mut self.wanted {
            if wanted.stream == Some(served) {
                (wanted.unanswered, wanted.way) = (None, way.to_vec());
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

    /// A plan for a stream is over here: if it was the last that ends here, a source that has refused does not serve any more.
    pub(super) fn note_unserved(&mut self, over: StreamId) {
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

    /// Tells all who want a stream the same.
    pub(super) fn tell_wanted(&mut self, notice: &Notice) {
        let told = self.wanted.keys().map(|name| Output::Notice {
            name: name.clone(),
            notice: notice.clone(),
        });
        self.outputs.extend(told);
    }

    /// The source says why it does not serve us now: perhaps another does.
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
            wanted.unanswered = None;
            // What was served goes on being so by the plan in force, or is again when there is another.
            let until = if is_served { now } else { now + REFUSED_FOR };
            if wanted.note_refusal(from, reason, until, now) {
                let notice = Notice::Refused {
                    source: source.clone(),
                    reason: reason.into(),
                    is_served,
                };
                let name = name.clone();
                self.outputs.push_back(Output::Notice { name, notice });
            }
        }
        self.note_unserved(refused);
        self.resolve_wanted(now, keys);
    }
}

impl Wanted {
    /// Takes a producer, who is to be asked then; returns the stream that was found before.
    pub(super) fn find(
        &mut self,
        source: NodeId,
        stream: StreamId,
        ask: Instant,
    ) -> Option<StreamId> {
        self.subscription = Subscription::Found {
            source,
            stream,
            is_served: false,
        };
        self.ask = ask;
        (self.unanswered, self.way) = (None, Vec::new());
        self.stream.replace(stream)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let probe = self.probe.as_ref().map(Probe::poll_timeout);
        self.ask.min(probe.unwrap_or(Instant::NEVER))
    }

    /// Returns whether a producer has refused of late; the one that is asked now has until it serves.
    fn is_refused(&self, producer: NodeId, now: Instant) -> bool {
        let is_asked = matches!(
            self.subscription,
            Subscription::Found { source, is_served: false, .. } if source == producer
        );
        let mut refusals = self.refusals.iter();
        refusals.any(|one| one.source == producer && (is_asked || now < one.until))
    }

    /// Remembers who refuses and why, and until when as first said if that is not over; returns whether it is new.
    fn note_refusal(&mut self, source: NodeId, reason: &str, until: Instant, now: Instant) -> bool {
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
