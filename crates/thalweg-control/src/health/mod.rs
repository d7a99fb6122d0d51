//! Health: silent links and nodes, and what plans avoid, so that streams go on when a path breaks.
//!
//! *The idea.* Each role on a path has its task. The **sink** reports what it has
//! ([`sinks`](crate::sinks)). A **node** with a silent next node sends an advice towards the
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
//! | file | what it is |
//! |---|---|
//! | `avoid` | which links and nodes a planning avoids, and the paths without them |
//! | `suspects` | for how long |
//! | `withhold` | nodes that pass nothing on |
//!
//! *What it does not do.* It stores no ADU (`Keep` of the data path) and does not detect
//! silence ([`Pulse`](thalweg_link::pulse::Pulse)): the driver has both.
//!
//! *Sources.* docs/concepts/continuity.md; docs/reference/protocol.md §4.4, §4.5; spec RA-12, RA-13.

mod avoid;
pub(crate) mod suspects;
mod withhold;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Said;
use thalweg_base::wire::receipt::Advice;

use crate::effect::{Ask, Effect, Note, PlanKey, Turn};
use crate::parts::Parts;
use suspects::{SUSPECT_HOLD, Suspects};
use withhold::Withholders;

pub(crate) use withhold::{PATIENCE, patience};

/// How long a doubt is remembered: as long as silence takes to follow it on links with a round trip
/// below 1.5 s.
pub const DOUBT_HOLD: Duration = Duration::from_secs(2);

/// Minimum time between two doubts of a link that are acted on.
///
/// A needless standby plan is sent to each of its nodes and released again, which costs 0.8 kB on
/// its first link. After each false doubt the time doubles, up to [`DOUBT_EVERY_MAX`], where the
/// cost is a few thousandths of 150 kbit/s.
pub(crate) const DOUBT_EVERY: Duration = Duration::from_secs(5);

/// The maximum of that time.
pub(crate) const DOUBT_EVERY_MAX: Duration = Duration::from_secs(40);

/// Interval at which continuing silence is reported again.
pub const ADVISE_EVERY: Duration = Duration::from_secs(2);

/// Age at which a report of silence counts as over: silence that lasts is reported more often.
const SILENCE_FRESH: Duration = Duration::from_millis(2_500);

const _: () = assert!(
    SILENCE_FRESH.as_nanos() > ADVISE_EVERY.as_nanos(),
    "lasting silence is reported again before its last report counts as over"
);

/// How long a neighbour is silent before that is reported again, and the sinks of its streams are
/// notified: twice as long as it takes to switch to another path.
pub(crate) const SILENCE_REPORT_DELAY: Duration = Duration::from_millis(500);

/// The owner of what is known of silent links and nodes.
#[derive(Debug)]
pub(crate) struct Health {
    /// This node.
    id: NodeId,
    /// Directed links (from, to) on which `to` does not answer.
    suspects: Suspects,
    /// Nodes that some neighbour did not hear from, and until when plans avoid them.
    unheard: BTreeMap<NodeId, Instant>,
    /// Directed links that are doubted.
    doubts: BTreeMap<(NodeId, NodeId), Doubt>,
    /// Nodes that accept traffic and pass none on.
    withholders: Withholders,
    /// Nodes that have reported that they leave, and until when that is remembered.
    leaving: BTreeMap<NodeId, Instant>,
    /// Silent neighbours, and when to report them again.
    silent: BTreeMap<NodeId, Instant>,
}

/// A doubt that was not followed by silence.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// When the next doubt is acted on.
    again: Instant,
    /// The wait that led to that time.
    wait: Duration,
}

impl Health {
    /// Returns the state in which all answer.
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            suspects: Suspects::default(),
            unheard: BTreeMap::new(),
            doubts: BTreeMap::new(),
            withholders: Withholders::default(),
            leaving: BTreeMap::new(),
            silent: BTreeMap::new(),
        }
    }

    /// Handles a neighbour that has not answered for a while: reports it to the sources of all plans
    /// that lead to it. Returns whether the doubt is acted on: the link is not suspected, and was
    /// not doubted recently.
    pub(crate) fn handle_doubt(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &Parts,
        peer: NodeId,
    ) -> bool {
        let is_new = self.is_new_doubt((self.id, peer), turn.now);
        if is_new {
            turn.note(Note::Doubtful { peer });
            self.advise_about(turn, parts, peer, true);
        }
        is_new
    }

    /// Handles a neighbour that does not answer: reports it to the sources of all plans that lead to it.
    pub(crate) fn handle_silence(&mut self, turn: &mut Turn<'_>, parts: &Parts, peer: NodeId) {
        self.doubts.remove(&(self.id, peer));
        self.silent.insert(peer, turn.now + SILENCE_REPORT_DELAY);
        turn.note(Note::Silent { peer });
        self.advise_about(turn, parts, peer, false);
    }

    /// Handles a neighbour that answers again, or whose link is gone.
    pub(crate) fn handle_answer(&mut self, peer: NodeId) {
        self.silent.remove(&peer);
    }

    /// Ends what is over; returns the silent neighbours that are to be reported again.
    pub(crate) fn handle_timeout(&mut self, turn: &mut Turn<'_>) -> Vec<NodeId> {
        let now = turn.now;
        let before = self.leaving.len();
        self.unheard.retain(|_, until| *until > now);
        self.leaving.retain(|_, until| *until > now);
        if self.suspects.expire(now) | (self.leaving.len() != before) {
            turn.push(Effect::Changed);
        }
        let silent = self.silent.iter_mut();
        let due = silent.filter(|(_, again)| **again <= now);
        let due = due.map(|(peer, again)| {
            *again = now + ADVISE_EVERY;
            *peer
        });
        due.collect()
    }

    /// Reports a neighbour that is still silent.
    pub(crate) fn report_again(&mut self, turn: &mut Turn<'_>, parts: &Parts, peer: NodeId) {
        self.advise_about(turn, parts, peer, false);
    }

    /// Returns when something is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let all = self.leaving.values().chain(self.silent.values());
        let first = all.min().copied().unwrap_or(Instant::NEVER);
        first
            .min(self.suspects.poll_timeout())
            .min(self.withholders.poll_timeout())
    }

    /// Handles a node that leaves: plans avoid it until then. Returns whether that is news.
    pub(crate) fn handle_leave(&mut self, node: NodeId, until: Instant) -> bool {
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

    /// Reports a silent or doubtful neighbour to the sources of all plans that lead to it.
    fn advise_about(&mut self, turn: &mut Turn<'_>, parts: &Parts, peer: NodeId, is_doubt: bool) {
        for plan in parts.leading_to(peer) {
            self.advise(turn, parts, plan, is_doubt);
        }
    }

    /// Reports the next node of a new part as silent, if it is.
    pub(crate) fn handle_part(&mut self, turn: &mut Turn<'_>, parts: &Parts, plan: PlanKey) {
        let next = parts.get(plan).and_then(|part| part.next);
        if next.is_some_and(|next| self.silent.contains_key(&next)) {
            self.advise(turn, parts, plan, false);
        }
    }

    /// Sends an advice about the next node of a plan towards the source, or acts on it at the source.
    fn advise(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &Parts,
        (stream, epoch): PlanKey,
        is_doubt: bool,
    ) {
        let Some(part) = parts.get((stream, epoch)) else {
            return;
        };
        match part.next {
            Some(_) if part.source != self.id => {
                let advice = Advice {
                    stream,
                    epoch,
                    distance: 0,
                    is_doubt,
                };
                parts.report(turn, Said::Advice(advice));
            }
            Some(next) if is_doubt => self.prepare_standby(turn, [self.id, next]),
            Some(next) => self.suspect(turn, [self.id, next]),
            None => {}
        }
    }

    /// Handles an advice about a hop of a plan of this node, if there is that hop.
    pub(crate) fn apply_advice(
        &mut self,
        turn: &mut Turn<'_>,
        from: NodeId,
        hop: Option<[NodeId; 2]>,
        is_doubt: bool,
    ) {
        match hop {
            Some(hop) if !is_doubt => self.suspect(turn, hop),
            Some(hop) if self.is_new_doubt(hop.into(), turn.now) => self.prepare_standby(turn, hop),
            Some(_) => {}
            None => turn.note(Note::AdviceAstray { from }),
        }
    }

    /// Makes streams avoid a silent link.
    fn suspect(&mut self, turn: &mut Turn<'_>, hop: [NodeId; 2]) {
        let until = turn.now + SUSPECT_HOLD;
        self.doubts.remove(&hop.into());
        self.suspects.insert(hop.into(), turn.now);
        self.avoid_link(hop, until);
        turn.ask(Ask::Suspect(hop, until));
    }

    /// Has standby plans prepared that avoid a doubtful link.
    fn prepare_standby(&mut self, turn: &mut Turn<'_>, hop: [NodeId; 2]) {
        let until = turn.now + DOUBT_HOLD;
        self.avoid_link(hop, until);
        turn.ask(Ask::Doubt(hop, until));
    }

    /// Makes plans avoid a link and its far node until then, or longer if they already do.
    fn avoid_link(&mut self, hop: [NodeId; 2], until: Instant) {
        self.suspects.avoid_until(hop.into(), until);
        let of_node = self.unheard.entry(hop[1]).or_default();
        *of_node = until.max(*of_node);
    }
}
