//! Streams that go on when a way breaks: what sinks have, who does not answer, what is sent again.
//!
//! *The idea.* Three small machines, one for each place of a path. A **sink** tells what it has (a receipt), now and then,
//! and before it says that a plan is installed. A **node** whose next one falls silent tells the node before (an advice).
//! The **source** remembers for a while between whom there was silence, plans around it if there is another way, and has
//! what was sent by the broken one and is not acknowledged sent again.
//!
//! ```text
//! source ◄── advice ── relay ─ ✂ ─ relay      sink        keep away from that node; if there is no other way, from that
//! source ══ Prepare, Ready with a receipt ══════ sink     link; if there is none, from nothing
//! source ══ what is not acknowledged, again ════ sink
//! ```
//!
//! Before it falls silent it is doubted: that goes the same way, and the source has the plan that it would take made ready.
//!
//! A suspicion holds for [`SUSPECT_HOLD`] from the last word of it. So a way that comes and goes is left once, and comes
//! back into favour only after it has been quiet so long; the move back is a planned one.
//!
//! *What it does not do.* It keeps no ADU ([`Keep`](crate::session::Keep)) and does not find silence
//! ([`Pulse`](crate::routing::pulse::Pulse)): the driver has both.
//!
//! *Sources.* docs/continuity.md; docs/protocol.md §4.4, §4.5; spec RA-12, RA-13.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::producer::{SilentProducers, TELL_AFTER};
use super::source::Life;
use super::withhold::Withholders;
use super::{Controller, Note, Output};
use crate::admission::Rights;
use crate::id::{Epoch, NodeId, StreamId};
use crate::limits::PATH_NODES_MAX;
use crate::mailbox::Held;
use crate::needs::Reliability;
use crate::routing::pulse::Hearing;
use crate::session::Part;
use crate::time::{Duration, Instant};
use crate::wire::control::Said;
use crate::wire::receipt::{Advice, Receipt};

/// How long a way is kept away from after the last word of silence: longer than a dead link takes to leave the map (8 s), so
/// that a stream does not go back to it in between.
pub const SUSPECT_HOLD: Duration = Duration::from_secs(10);

/// How long a doubt is remembered: as long as silence takes to follow it, on links whose round trip is below 1.5 s.
pub const DOUBT_HOLD: Duration = Duration::from_secs(2);

/// How often a link is doubted at most: a plan that stands by for nothing is told to each of its nodes, and taken back, which
/// is 0.8 kB on its first link. So after each doubt that was wrong the next is heeded after twice as long, until that is a few
/// thousandths of 150 kbit/s.
pub(super) const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// The longest of these times.
pub(super) const DOUBT_EVERY_MAX: Duration = Duration::from_secs(40);

/// How often a sink says what has come at most.
const RECEIPT_EVERY: Duration = Duration::from_secs(1);

/// How often silence is told again while it lasts.
pub const ADVISE_EVERY: Duration = Duration::from_secs(2);

/// How long ago a node has said that there is silence at most, if there still is.
const SAID_AGAIN: Duration = Duration::from_millis(2_500);

const _: () = assert!(
    SAID_AGAIN.as_nanos() > ADVISE_EVERY.as_nanos(),
    "it says so again before"
);

/// What a planning keeps away from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Avoid {
    /// Nodes that did not answer.
    Nodes,
    /// The links over which they did not.
    Links,
    /// The links over which they do not now: elsewhere somebody did not for a moment.
    Silent,
    /// Nothing: there is no other way.
    Nothing,
}

/// What is known of silences and of what has come.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    /// Who does not hear from whom, and until when that is remembered.
    suspects: BTreeMap<(NodeId, NodeId), Instant>,
    /// The same by who is not heard from, by anybody.
    unheard: BTreeMap<NodeId, Instant>,
    /// Who was doubted by whom.
    doubts: BTreeMap<(NodeId, NodeId), Doubt>,
    /// Nodes that take what they are given and bring nothing.
    pub(super) withholders: Withholders,
    /// Producers that do not answer.
    pub(super) silent_producers: SilentProducers,
    /// Nodes that have said that they leave, and until when that is remembered.
    leaving: BTreeMap<NodeId, Instant>,
    /// Neighbours that do not answer, and when to say so again.
    silent: BTreeMap<NodeId, Instant>,
    /// Streams that end here.
    receivings: BTreeMap<StreamId, Receiving>,
}

/// A doubt that silence has not followed.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// When the next is heeded.
    again: Instant,
    /// How long after it that is.
    wait: Duration,
}

/// What this node, as a sink, has of a stream.
#[derive(Debug)]
struct Receiving {
    since: u64,
    held: Held,
    /// Whether the end of the stream has come, and all before it or what did in time.
    is_ended: bool,
    told: Option<Instant>,
    due: Instant,
}

impl Avoid {
    /// Returns what to keep away from if that was too much.
    pub(super) const fn less(self) -> Option<Self> {
        match self {
            Self::Nodes => Some(Self::Links),
            Self::Links => Some(Self::Silent),
            Self::Silent => Some(Self::Nothing),
            Self::Nothing => None,
        }
    }
}

impl Continuity {
    /// Keeps plans away from a node until then; returns whether that is news.
    pub(super) fn keep_away(&mut self, node: NodeId, until: Instant) -> bool {
        self.leaving.insert(node, until).is_none()
    }

    /// Takes in a doubt; returns whether there is anything to do: the link is not suspected, and was not doubted of late.
    fn is_new_doubt(&mut self, link: (NodeId, NodeId), now: Instant) -> bool {
        self.doubts
            .retain(|_, doubt| doubt.again + doubt.wait > now);
        let is_suspect = self.suspects.get(&link).is_some_and(|until| *until > now);
        let doubt = self.doubts.entry(link).or_default();
        let is_new = !is_suspect && doubt.again <= now;
        if is_new {
            doubt.wait = (doubt.wait + doubt.wait).clamp(DOUBT_EVERY, DOUBT_EVERY_MAX);
            doubt.again = now + doubt.wait;
        }
        is_new
    }

    /// Has plans lead elsewhere until then, or for as long as they were to before.
    fn go_around(&mut self, link: (NodeId, NodeId), until: Instant) {
        let of_link = self.suspects.entry(link).or_default();
        *of_link = until.max(*of_link);
        let of_node = self.unheard.entry(link.1).or_default();
        *of_node = until.max(*of_node);
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let suspects = self.suspects.values().chain(self.leaving.values());
        let receipts = self.receivings.values().map(|receiving| &receiving.due);
        let all = suspects.chain(self.silent.values()).chain(receipts);
        let first = all.min().copied().unwrap_or(Instant::NEVER);
        first
            .min(self.withholders.poll_timeout())
            .min(self.silent_producers.poll_timeout())
    }
}

impl Controller {
    /// Takes in what a neighbour is taken for from now on.
    pub fn handle_hearing(
        &mut self,
        peer: NodeId,
        hearing: Hearing,
        now: Instant,
        keys: &mut dyn super::Keys,
    ) {
        let is_linked = self.links.contains_key(&peer);
        match hearing {
            Hearing::Doubtful => {
                let link = (self.id(), peer);
                if is_linked && self.continuity.is_new_doubt(link, now) {
                    self.note(Note::Doubtful { peer });
                    self.advise_all(peer, true, now);
                    self.settle(now, keys);
                }
            }
            Hearing::Silent if is_linked => {
                self.continuity.doubts.remove(&(self.id(), peer));
                self.silence_accounts(peer, true, now);
                self.continuity.silent.insert(peer, now + TELL_AFTER);
                self.note(Note::Silent { peer });
                self.advise_all(peer, false, now);
                self.settle(now, keys);
            }
            Hearing::Silent | Hearing::Answering => self.forget_silence(peer, now),
        }
    }

    /// Takes in what has come of a stream that ends here; the driver says this when it says what it has counted, and
    /// before [`Controller::handle_installed`]. The end of a stream is told at once, and what became of its ADUs with it.
    pub fn handle_held(&mut self, stream: StreamId, held: Held, is_ended: bool, now: Instant) {
        if is_ended {
            self.end_accounts(stream, now);
        }
        let receiving = self.receiving(stream, now);
        receiving.is_ended |= is_ended;
        if receiving.held == held {
            return;
        }
        receiving.held = held;
        let earliest = receiving.told.map_or(now, |told| told + RECEIPT_EVERY);
        let due = if is_ended { now } else { earliest.max(now) };
        receiving.due = receiving.due.min(due);
        self.tell_due_receipts(now);
    }

    fn receiving(&mut self, stream: StreamId, now: Instant) -> &mut Receiving {
        let since = self.settings.since_1970.as_millis() + now.as_nanos() / 1_000_000;
        let receivings = &mut self.continuity.receivings;
        receivings.entry(stream).or_insert_with(|| Receiving {
            since,
            held: Held::default(),
            is_ended: false,
            told: None,
            due: Instant::NEVER,
        })
    }

    pub(super) fn forget_silence(&mut self, peer: NodeId, now: Instant) {
        self.continuity.silent.remove(&peer);
        self.silence_accounts(peer, false, now);
    }

    /// Does what is due.
    pub(super) fn time_continuity(&mut self, now: Instant) {
        let Continuity {
            suspects,
            unheard,
            leaving,
            ..
        } = &mut self.continuity;
        let before = suspects.len() + leaving.len();
        suspects.retain(|_, until| *until > now);
        unheard.retain(|_, until| *until > now);
        leaving.retain(|_, until| *until > now);
        self.is_changed |= suspects.len() + leaving.len() != before;
        let due = self.continuity.silent.iter_mut();
        let due = due.filter(|(_, again)| **again <= now);
        let due: Vec<NodeId> = due
            .map(|(peer, again)| {
                *again = now + ADVISE_EVERY;
                *peer
            })
            .collect();
        for peer in due {
            self.advise_all(peer, false, now);
            self.tell_source_silent(peer, now);
        }
        self.is_changed |= self.continuity.silent_producers.expire(now);
        self.time_withholders(now);
        self.forget_held();
        self.tell_due_receipts(now);
    }

    /// Says of every plan that leads to a silent or doubtful neighbour that it is.
    fn advise_all(&mut self, peer: NodeId, is_doubt: bool, now: Instant) {
        let parts = self.parts.iter();
        let leading = parts.filter(|(_, part)| part.installation().next == Some(peer));
        let leading: Vec<(StreamId, Epoch)> = leading.map(|(key, _)| *key).collect();
        for plan in leading {
            self.advise(plan, is_doubt, now);
        }
    }

    /// Tells the node before that the one after does not answer, if it does not.
    pub(super) fn advise_if_silent(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let next = part.installation().next;
        if next.is_some_and(|next| self.continuity.silent.contains_key(&next)) {
            self.advise((stream, epoch), false, now);
        }
    }

    /// Tells the node before that the one after does not answer, or is doubted.
    fn advise(&mut self, (stream, epoch): (StreamId, Epoch), is_doubt: bool, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let part = part.installation();
        match part.next {
            Some(_) if part.source != self.id() => {
                let advice = Advice {
                    stream,
                    epoch,
                    distance: 0,
                    is_doubt,
                };
                self.tell_up(Said::Advice(advice));
            }
            Some(next) if is_doubt => self.make_ready(self.id(), next, now),
            Some(next) => self.suspect(self.id(), next, now),
            None => {}
        }
    }

    pub(super) fn handle_advice(&mut self, from: NodeId, advice: Advice, now: Instant) {
        let Some(is_source) = self.comes_right(from, advice.stream, advice.epoch) else {
            return self.note(Note::AdviceAstray { from });
        };
        let distance = advice.distance + 1;
        if is_source {
            return self.take_advice(from, Advice { distance, ..advice }, now);
        }
        if usize::from(distance) < PATH_NODES_MAX - 1 {
            self.tell_up(Said::Advice(Advice { distance, ..advice }));
        }
    }

    /// Takes in an advice of a node so far behind the first that has a part of the plan.
    pub(super) fn take_advice(&mut self, from: NodeId, advice: Advice, now: Instant) {
        let source = self.sources.get(&advice.stream);
        let path = source.and_then(|source| source.paths.get(&advice.epoch));
        let start = source.and_then(|source| source.grafts.get(&advice.epoch));
        let at = start.copied().unwrap_or(0) + usize::from(advice.distance);
        match path.and_then(|path| path.get(at..at + 2)) {
            Some(&[from, to]) if !advice.is_doubt => self.suspect(from, to, now),
            Some(&[from, to]) if self.continuity.is_new_doubt((from, to), now) => {
                self.make_ready(from, to, now);
            }
            Some(_) => {}
            None => self.note(Note::AdviceAstray { from }),
        }
    }

    /// Keeps streams away from where there is silence.
    fn suspect(&mut self, from: NodeId, to: NodeId, now: Instant) {
        let until = now + SUSPECT_HOLD;
        self.continuity.doubts.remove(&(from, to));
        self.continuity.go_around((from, to), until);
        for source in self.sources.values_mut() {
            source.session.handle_suspect(from, to, until);
        }
    }

    /// Has plans made ready that keep away from where there may be silence.
    fn make_ready(&mut self, from: NodeId, to: NodeId, now: Instant) {
        let until = now + DOUBT_HOLD;
        self.continuity.go_around((from, to), until);
        for source in self.sources.values_mut() {
            source.session.handle_doubt(from, to, until);
        }
    }

    /// Returns whether this node is the source of a plan, if its next one is the one that speaks.
    pub(super) fn comes_right(&self, from: NodeId, stream: StreamId, epoch: Epoch) -> Option<bool> {
        let part = self.parts.get(&(stream, epoch))?.installation();
        (part.next == Some(from)).then_some(part.source == self.id())
    }

    /// Returns whether a planning for a sink does without a link.
    ///
    /// Cost    O(log suspects)
    pub(super) fn is_avoided(
        &self,
        ends: [NodeId; 2],
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
    ) -> bool {
        if avoid == Avoid::Nothing {
            return false;
        }
        let Continuity {
            suspects,
            unheard,
            withholders,
            leaving,
            ..
        } = &self.continuity;
        let holds = |until: Option<&Instant>| until.is_some_and(|until| *until > now);
        let leaves = |node: &NodeId| *node != sink && holds(leaving.get(node));
        let is_silent = |node: &NodeId| {
            let is_end = *node == sink || *node == self.id();
            let does_not_pass_on = holds(unheard.get(node)) || withholders.has(*node, now);
            avoid == Avoid::Nodes && !is_end && does_not_pass_on
        };
        let is_suspect = |near, far| match suspects.get(&(near, far)) {
            Some(until) if avoid == Avoid::Silent => self.is_silent_now(near, far, *until, now),
            until => holds(until),
        };
        let [near, far] = ends;
        ends.iter().any(|node| leaves(node) || is_silent(node))
            || is_suspect(near, far)
            || is_suspect(far, near)
    }

    /// Returns whether there is silence on a link that is suspected until then: this node knows of its own, of others by how long ago
    /// they said it last, which they do again and again.
    fn is_silent_now(&self, near: NodeId, far: NodeId, until: Instant, now: Instant) -> bool {
        if near == self.id() {
            return self.continuity.silent.contains_key(&far);
        }
        until + SAID_AGAIN > now + SUSPECT_HOLD
    }

    /// Returns what a planning for a sink can keep away from, as far as the map tells.
    pub(super) fn avoid_most(&self, sink: NodeId, now: Instant) -> Avoid {
        let Continuity {
            suspects,
            withholders,
            leaving,
            ..
        } = &self.continuity;
        if suspects.is_empty() && withholders.is_empty() && leaving.is_empty() {
            return Avoid::Nothing;
        }
        let levels = [Avoid::Nodes, Avoid::Links, Avoid::Silent].into_iter();
        let mut open = levels.filter(|avoid| self.way_avoiding(sink, *avoid, now).is_some());
        open.next().unwrap_or(Avoid::Nothing)
    }

    /// Returns a way of the fewest hops to a sink.
    pub(super) fn way_avoiding(
        &self,
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
    ) -> Option<Vec<NodeId>> {
        let may_relay = |node| node == self.id() || self.roll.may(node, Rights::RELAY);
        let is_taken =
            |ends: [NodeId; 2]| may_relay(ends[0]) && !self.is_avoided(ends, sink, avoid, now);
        self.directory.path_by(self.id(), sink, is_taken)
    }

    /// Tells the node before, on the way of a plan that ends here, what has come of its stream.
    pub(super) fn tell_held(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let is_source = part.installation().source == self.id();
        let receiving = self.receiving(stream, now);
        if is_source {
            return;
        }
        receiving.told = Some(now);
        receiving.due = Instant::NEVER;
        let receipt = Receipt {
            stream,
            epoch,
            since: receiving.since,
            held: receiving.held.clone(),
        };
        self.tell_up(Said::Receipt(receipt));
    }

    /// Sends the receipts that are due, each by the way of the newest plan.
    fn tell_due_receipts(&mut self, now: Instant) {
        let receivings = self.continuity.receivings.iter_mut();
        let due = receivings.filter(|(_, receiving)| receiving.due <= now);
        let due: Vec<StreamId> = due
            .map(|(stream, receiving)| {
                receiving.due = Instant::NEVER;
                *stream
            })
            .collect();
        for stream in due {
            let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
            let ending = self.parts.range(of_stream).rev();
            let mut reached = ending.filter(|(_, part)| {
                let part = part.installation();
                let before = self.way_up(stream, part.epoch);
                part.next.is_none() && before.is_some_and(|peer| self.links.contains_key(&peer))
            });
            if let Some((_, epoch)) = reached.next().map(|(key, _)| *key) {
                self.tell_held(stream, epoch, now);
            }
        }
    }

    /// Forgets what came of streams that no plan brings here any more and nobody here wants: who waits for a way to come back
    /// remembers what has come, however long that takes.
    fn forget_held(&mut self) {
        let (parts, wanted) = (&self.parts, &self.wanted);
        let receivings = &mut self.continuity.receivings;
        let forgotten = receivings.extract_if(.., |stream, _| {
            let of_stream = (*stream, Epoch(0))..=(*stream, Epoch(u32::MAX));
            let is_wanted = wanted.values().any(|wanted| wanted.stream == Some(*stream));
            parts.range(of_stream).next().is_none() && !is_wanted
        });
        let outputs = forgotten.map(|(stream, _)| Output::Forgotten { stream });
        self.outputs.extend(outputs);
    }

    /// Forgets what came of a stream for programs that want it no more: who wants it now is given it from its newest group on.
    /// Of a stream that has come to its end here that would be the last group once more, for who waits for the next to begin.
    pub(super) fn forget_received(&mut self, stream: StreamId) {
        let receivings = &mut self.continuity.receivings;
        if receivings.get(&stream).is_some_and(|of| !of.is_ended) {
            receivings.remove(&stream);
            self.outputs.push_back(Output::Forgotten { stream });
        }
    }

    pub(super) fn handle_receipt(&mut self, from: NodeId, receipt: Receipt) {
        match self.comes_right(from, receipt.stream, receipt.epoch) {
            None => self.note(Note::ReceiptAstray { from }),
            Some(true) => self.take_receipt(receipt),
            Some(false) => self.tell_up(Said::Receipt(receipt)),
        }
    }

    /// Takes in what the sink of a plan of this node's has.
    pub(super) fn take_receipt(&mut self, receipt: Receipt) {
        let Receipt {
            stream,
            epoch,
            since,
            held,
        } = receipt;
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let sink = source.paths.get(&epoch).and_then(|path| path.last());
        let Some(sink) = sink.copied() else {
            return;
        };
        let plan = source.sinks.get_mut(&sink);
        let life = plan.map_or(Life::Same, |plan| plan.handle_since(since, epoch));
        if life == Life::Former {
            return;
        }
        if life == Life::Next {
            source.session.handle_restarted(sink);
        }
        // What a restarted sink had is gone with it, and it begins anew: with what is held for it, if that is.
        if life == Life::Next && !source.publication.needs.is_held() {
            self.acknowledge_all(stream, sink);
        } else {
            self.acknowledge(stream, sink, held);
        }
    }

    /// What a sink has need not be kept for it.
    fn acknowledge(&mut self, stream: StreamId, sink: NodeId, held: Held) {
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let paths = source.paths.iter();
        let of_sink = paths.filter(|(_, path)| path.last() == Some(&sink));
        let epochs: Vec<Epoch> = of_sink.map(|(epoch, _)| *epoch).collect();
        let is_whole = source.publication.needs.reliability == Reliability::Full;
        let mut active = source.session.active();
        let in_force = active.find(|(served, _)| is_whole && *served == sink);
        let in_order = in_force.map(|(_, epoch)| epoch);
        self.outputs.push_back(Output::Acknowledged {
            stream,
            sink,
            epochs,
            in_order,
            held,
        });
    }

    /// Nothing needs to be kept for a sink.
    pub(super) fn acknowledge_all(&mut self, stream: StreamId, sink: NodeId) {
        self.acknowledge(stream, sink, Held::everything());
    }
}

/// Returns how many layers pass all adapters of a plan.
pub(super) fn layers(parts: &[Part]) -> u8 {
    let kept = |word: &String| word.strip_prefix("keep:")?.parse().ok();
    let words = parts.iter().flat_map(|part| &part.adapters);
    words.filter_map(kept).min().unwrap_or(u8::MAX)
}
