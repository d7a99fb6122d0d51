//! Continuity: streams go on when a path breaks. This file tracks silent links and nodes, and what
//! plans avoid.
//!
//! *The idea.* Each role on a path has its task. The **sink** reports what it has
//! ([`receipt`](super::receipt)). A **node** with a silent next node sends an advice towards the
//! source. The **source** remembers the silent link for a while, plans around it if there is
//! another path, and resends what went by the broken one and is not acknowledged.
//!
//! ```text
//! source ◄── advice ── relay ─ ✂ ─ relay         sink    avoid that node; if no path is left, that link;
//! source ══ Prepare, Ready with a receipt ══════ sink    if none is left then, nothing
//! source ══ what is not acknowledged, again ════ sink
//! ```
//!
//! A neighbour is *doubtful* before it is silent. A doubt travels the same way, and the source then
//! prepares the plan that it would switch to.
//!
//! A suspicion holds for a while after the last report of silence ([`Suspects`]). So a stream
//! leaves a flapping link once, and returns only after the link has been quiet for that time, in a
//! planned move. Meanwhile the node that found the silence measures the link's round trip again, so
//! that the move is decided on fresh values.
//!
//! *What it does not do.* It stores no ADU (`Keep` of the data path) and does not detect
//! silence ([`Pulse`](thalweg_link::pulse::Pulse)): the driver has both.
//!
//! *Sources.* docs/concepts/continuity.md; docs/reference/protocol.md §4.4, §4.5; spec RA-12, RA-13.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Said;
use thalweg_base::wire::receipt::Advice;
use thalweg_link::pulse::Hearing;

use super::avoid::Avoid;
use super::producer::{SILENCE_REPORT_DELAY, SilentProducers};
use super::receipt::Receivings;
use super::suspects::{SUSPECT_HOLD, Suspects};
use super::withhold::Withholders;
use super::{Controller, Note};
use crate::admission::Rights;

/// How long a doubt is remembered: as long as silence takes to follow it on links with a round trip
/// below 1.5 s.
pub const DOUBT_HOLD: Duration = Duration::from_secs(2);

/// Minimum time between two doubts of a link that are acted on.
///
/// A needless standby plan is sent to each of its nodes and released again, which costs 0.8 kB on
/// its first link. After each false doubt the time doubles, up to [`DOUBT_EVERY_MAX`], where the
/// cost is a few thousandths of 150 kbit/s.
pub(super) const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// The maximum of that time.
pub(super) const DOUBT_EVERY_MAX: Duration = Duration::from_secs(40);

/// Interval at which continuing silence is reported again.
pub const ADVISE_EVERY: Duration = Duration::from_secs(2);

/// Age at which a report of silence counts as over: silence that lasts is reported more often.
const SILENCE_FRESH: Duration = Duration::from_millis(2_500);

const _: () = assert!(
    SILENCE_FRESH.as_nanos() > ADVISE_EVERY.as_nanos(),
    "lasting silence is reported again before its last report counts as over"
);

/// Silent links and nodes, and what this node has received.
#[derive(Debug, Default)]
pub(super) struct Continuity {
    /// Directed links (from, to) on which `to` does not answer.
    suspects: Suspects,
    /// Nodes that some neighbour did not hear from, and until when plans avoid them.
    unheard: BTreeMap<NodeId, Instant>,
    /// Directed links that are doubted.
    doubts: BTreeMap<(NodeId, NodeId), Doubt>,
    /// Nodes that accept traffic and pass none on.
    pub(super) withholders: Withholders,
    /// Producers that do not answer.
    pub(super) silent_producers: SilentProducers,
    /// Nodes that have reported that they leave, and until when that is remembered.
    leaving: BTreeMap<NodeId, Instant>,
    /// Silent neighbours, and when to report them again.
    silent: BTreeMap<NodeId, Instant>,
    /// Streams that end here.
    pub(super) receivings: Receivings,
}

/// A doubt that was not followed by silence.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// When the next doubt is acted on.
    again: Instant,
    /// The wait that led to that time.
    wait: Duration,
}

impl Continuity {
    /// Makes plans avoid a node until then; returns whether that is news.
    pub(super) fn avoid_until(&mut self, node: NodeId, until: Instant) -> bool {
        self.leaving.insert(node, until).is_none()
    }

    /// Records a doubt; returns whether to act on it: the link is not suspected, and was not
    /// doubted recently.
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

    /// Makes plans avoid a link and its far node until then, or longer if they already do.
    fn avoid_link(&mut self, link: (NodeId, NodeId), until: Instant) {
        self.suspects.avoid_until(link, until);
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
    /// Handles a change of what a neighbour's replies show ([`Hearing`]).
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
                    self.advise_about(peer, true, now);
                    self.settle(now, keys);
                }
            }
            Hearing::Silent if is_linked => {
                self.continuity.doubts.remove(&(self.id(), peer));
                if let Some(gauge) = self.links.get_mut(&peer) {
                    gauge.handle_silence();
                }
                self.silence_accounts(peer, true, now);
                self.continuity
                    .silent
                    .insert(peer, now + SILENCE_REPORT_DELAY);
                self.note(Note::Silent { peer });
                self.advise_about(peer, false, now);
                self.settle(now, keys);
            }
            Hearing::Silent | Hearing::Answering => self.forget_silence(peer, now),
        }
    }

    pub(super) fn forget_silence(&mut self, peer: NodeId, now: Instant) {
        self.continuity.silent.remove(&peer);
        self.silence_accounts(peer, false, now);
    }

    /// Handles what is due.
    pub(super) fn handle_continuity_timeout(&mut self, now: Instant) {
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
            self.advise_about(peer, false, now);
            self.report_source_silent(peer, now);
        }
        self.is_changed |= self.continuity.silent_producers.expire(now);
        self.handle_withholder_timeout(now);
        self.forget_received();
        self.send_due_receipts(now);
    }

    /// Reports a silent or doubtful neighbour to the sources of all plans that lead to it.
    fn advise_about(&mut self, peer: NodeId, is_doubt: bool, now: Instant) {
        let parts = self.parts.iter();
        let leading = parts.filter(|(_, part)| part.installation().next == Some(peer));
        let leading: Vec<(StreamId, Epoch)> = leading.map(|(key, _)| *key).collect();
        for plan in leading {
            self.advise(plan, is_doubt, now);
        }
    }

    /// Reports the next node of a plan as silent, if it is.
    pub(super) fn advise_if_silent(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let next = part.installation().next;
        if next.is_some_and(|next| self.continuity.silent.contains_key(&next)) {
            self.advise((stream, epoch), false, now);
        }
    }

    /// Sends an advice about the next node of a plan towards the source, or acts on it at the source.
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
                self.send_upstream(Said::Advice(advice));
            }
            Some(next) if is_doubt => self.prepare_standby(self.id(), next, now),
            Some(next) => self.suspect(self.id(), next, now),
            None => {}
        }
    }

    pub(super) fn handle_advice(&mut self, from: NodeId, advice: Advice, now: Instant) {
        let Some(is_source) = self.check_next(from, advice.stream, advice.epoch) else {
            return self.note(Note::AdviceAstray { from });
        };
        let distance = advice.distance + 1;
        if is_source {
            return self.apply_advice(from, Advice { distance, ..advice }, now);
        }
        if usize::from(distance) < PATH_NODES_MAX - 1 {
            self.send_upstream(Said::Advice(Advice { distance, ..advice }));
        }
    }

    /// Handles an advice of a node at a distance (hops) from the first node with a part of the plan.
    pub(super) fn apply_advice(&mut self, from: NodeId, advice: Advice, now: Instant) {
        let source = self.sources.get(&advice.stream);
        let path = source.and_then(|source| source.paths.get(&advice.epoch));
        let start = source.and_then(|source| source.grafts.get(&advice.epoch));
        let at = start.copied().unwrap_or(0) + usize::from(advice.distance);
        match path.and_then(|path| path.get(at..at + 2)) {
            Some(&[from, to]) if !advice.is_doubt => self.suspect(from, to, now),
            Some(&[from, to]) if self.continuity.is_new_doubt((from, to), now) => {
                self.prepare_standby(from, to, now);
            }
            Some(_) => {}
            None => self.note(Note::AdviceAstray { from }),
        }
    }

    /// Makes streams avoid a silent link.
    fn suspect(&mut self, from: NodeId, to: NodeId, now: Instant) {
        let until = now + SUSPECT_HOLD;
        self.continuity.doubts.remove(&(from, to));
        self.continuity.suspects.insert((from, to), now);
        self.continuity.avoid_link((from, to), until);
        for source in self.sources.values_mut() {
            source.session.handle_suspect(from, to, until);
        }
    }

    /// Has standby plans prepared that avoid a doubtful link.
    fn prepare_standby(&mut self, from: NodeId, to: NodeId, now: Instant) {
        let until = now + DOUBT_HOLD;
        self.continuity.avoid_link((from, to), until);
        for source in self.sources.values_mut() {
            source.session.handle_doubt(from, to, until);
        }
    }

    /// Returns whether this node is the source of a plan, provided that the sender is the plan's next node.
    pub(super) fn check_next(&self, from: NodeId, stream: StreamId, epoch: Epoch) -> Option<bool> {
        let part = self.parts.get(&(stream, epoch))?.installation();
        (part.next == Some(from)).then_some(part.source == self.id())
    }

    /// Returns whether a planning for a sink avoids a link.
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

    /// Returns whether a suspected link is silent now. This node knows that of its own links; for
    /// others it goes by the age of the last report, which is repeated every [`ADVISE_EVERY`].
    fn is_silent_now(&self, near: NodeId, far: NodeId, now: Instant) -> bool {
        let reported = self.continuity.suspects.last_silence((near, far));
        if near == self.id() {
            return reported.is_some() && self.continuity.silent.contains_key(&far);
        }
        reported.is_some_and(|reported| reported + SILENCE_FRESH > now)
    }

    /// Returns whether a link was silent recently, so that its properties may have changed.
    pub(super) fn was_silent(&self, [near, far]: [NodeId; 2]) -> bool {
        let suspects = &self.continuity.suspects;
        suspects.last_silence((near, far)).is_some() || suspects.last_silence((far, near)).is_some()
    }

    /// Returns how much a planning for a sink can avoid such that the map still has a path.
    pub(super) fn strictest_avoid(&self, sink: NodeId, now: Instant) -> Avoid {
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
        let mut open = levels.filter(|avoid| self.path_avoiding(sink, *avoid, now).is_some());
        open.next().unwrap_or(Avoid::Nothing)
    }

    /// Returns a path to a sink with the fewest hops.
    pub(super) fn path_avoiding(
        &self,
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
    ) -> Option<Vec<NodeId>> {
        let may_relay = |node| node == self.id() || self.roll.may(node, Rights::RELAY);
        let is_usable =
            |ends: [NodeId; 2]| may_relay(ends[0]) && !self.is_avoided(ends, sink, avoid, now);
        self.directory.path_by(self.id(), sink, is_usable)
    }
}
