//! Streams that go on when a way breaks: who does not answer, what is sent again.
//!
//! *The idea.* Three small machines, one for each place of a path. A **sink** tells what it has ([`receipt`](super::receipt)). A **node** whose next one falls silent tells the node before (an advice).
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
//! A suspicion holds for a while from the last word of it ([`Suspects`]). So a way that comes and goes is left once, and comes
//! back into favour only after it has been quiet so long; the move back is a planned one. Meanwhile the node that found the
//! silence measures the link's round trip anew, so that the move is decided on what the link is like since.
//!
//! *What it does not do.* It keeps no ADU ([`Keep`](crate::session::Keep)) and does not find silence
//! ([`Pulse`](crate::routing::pulse::Pulse)): the driver has both.
//!
//! *Sources.* docs/continuity.md; docs/protocol.md §4.4, §4.5; spec RA-12, RA-13.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::producer::{SilentProducers, TELL_AFTER};
use super::receipt::Receivings;
use super::suspects::{SUSPECT_HOLD, Suspects};
use super::withhold::Withholders;
use super::{Controller, Note};
use crate::admission::Rights;
use crate::id::{Epoch, NodeId, StreamId};
use crate::limits::PATH_NODES_MAX;
use crate::routing::pulse::Hearing;
use crate::session::Part;
use crate::time::{Duration, Instant};
use crate::wire::control::Said;
use crate::wire::receipt::Advice;

/// How long a doubt is remembered: as long as silence takes to follow it, on links whose round trip is below 1.5 s.
pub const DOUBT_HOLD: Duration = Duration::from_secs(2);

/// How often a link is doubted at most: a plan that stands by for nothing is told to each of its nodes, and taken back, which
/// is 0.8 kB on its first link. So after each doubt that was wrong the next is heeded after twice as long, until that is a few
/// thousandths of 150 kbit/s.
pub(super) const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// The longest of these times.
pub(super) const DOUBT_EVERY_MAX: Duration = Duration::from_secs(40);

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
    /// Who does not hear from whom.
    suspects: Suspects,
    /// Who was not heard from, by anybody, and until when plans keep away from it.
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
    pub(super) receivings: Receivings,
}

/// A doubt that silence has not followed.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// When the next is heeded.
    again: Instant,
    /// How long after it that is.
    wait: Duration,
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

    /// Returns whether it keeps away also from what may be well.
    pub(super) const fn is_cautious(self) -> bool {
        matches!(self, Self::Nodes | Self::Links)
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
        let is_suspect = self.suspects.has(link, now);
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
        self.suspects.keep_away(link, until);
        let of_node = self.unheard.entry(link.1).or_default();
        *of_node = until.max(*of_node);
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let all = self.leaving.values().chain(self.silent.values());
        let first = all.min().copied().unwrap_or(Instant::NEVER);
        first
            .min(self.suspects.poll_timeout())
            .min(self.receivings.poll_timeout())
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
                if let Some(gauge) = self.links.get_mut(&peer) {
                    gauge.handle_silence();
                }
                self.silence_accounts(peer, true, now);
                self.continuity.silent.insert(peer, now + TELL_AFTER);
                self.note(Note::Silent { peer });
                self.advise_all(peer, false, now);
                self.settle(now, keys);
            }
            Hearing::Silent | Hearing::Answering => self.forget_silence(peer, now),
        }
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
        let before = leaving.len();
        unheard.retain(|_, until| *until > now);
        leaving.retain(|_, until| *until > now);
        self.is_changed |= suspects.expire(now) | (leaving.len() != before);
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
        self.continuity.suspects.insert((from, to), now);
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
        let is_suspect = |near, far| match avoid {
            Avoid::Silent => self.is_silent_now(near, far, now),
            _ => suspects.has((near, far), now),
        };
        let [near, far] = ends;
        ends.iter().any(|node| leaves(node) || is_silent(node))
            || is_suspect(near, far)
            || is_suspect(far, near)
    }

    /// Returns whether there is silence on a link that is suspected: this node knows of its own, of others by how long ago they said
    /// it last, which they do again and again.
    fn is_silent_now(&self, near: NodeId, far: NodeId, now: Instant) -> bool {
        let said = self.continuity.suspects.said((near, far));
        if near == self.id() {
            return said.is_some() && self.continuity.silent.contains_key(&far);
        }
        said.is_some_and(|said| said + SAID_AGAIN > now)
    }

    /// Returns whether there was silence on a link of late, and it may be another since.
    pub(super) fn was_silent(&self, [near, far]: [NodeId; 2]) -> bool {
        let suspects = &self.continuity.suspects;
        suspects.said((near, far)).is_some() || suspects.said((far, near)).is_some()
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
}

/// Returns how many layers pass all adapters of a plan.
pub(super) fn layers(parts: &[Part]) -> u8 {
    let kept = |word: &String| word.strip_prefix("keep:")?.parse().ok();
    let words = parts.iter().flat_map(|part| &part.adapters);
    words.filter_map(kept).min().unwrap_or(u8::MAX)
}
