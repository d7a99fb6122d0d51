//! Which links and nodes a planning avoids, and the paths without them.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;

use super::{Health, SILENCE_FRESH};
use crate::admission::Rights;
use crate::facts::Facts;
use crate::planning::Avoid;

impl Health {
    /// Returns whether a planning of this node for a sink avoids a link.
    ///
    /// Cost    O(log suspects)
    pub(crate) fn is_avoided(
        &self,
        ends: [NodeId; 2],
        (sink, avoid): (NodeId, Avoid),
        now: Instant,
    ) -> bool {
        if avoid == Avoid::Nothing {
            return false;
        }
        let holds = |until: Option<&Instant>| until.is_some_and(|until| *until > now);
        let leaves = |node: &NodeId| *node != sink && holds(self.leaving.get(node));
        let is_silent = |node: &NodeId| {
            let is_end = *node == sink || *node == self.id;
            let does_not_pass_on =
                holds(self.unheard.get(node)) || self.withholders.has(*node, now);
            avoid == Avoid::Nodes && !is_end && does_not_pass_on
        };
        let is_suspect = |near, far| match avoid {
            Avoid::Silent => self.is_silent_now([near, far], now),
            _ => self.suspects.has((near, far), now),
        };
        let [near, far] = ends;
        ends.iter().any(|node| leaves(node) || is_silent(node))
            || is_suspect(near, far)
            || is_suspect(far, near)
    }

    /// Returns whether a suspected link is silent now. This node knows that of its own links; for
    /// others it goes by the age of the last report, which is repeated every
    /// [`ADVISE_EVERY`](super::ADVISE_EVERY).
    fn is_silent_now(&self, [near, far]: [NodeId; 2], now: Instant) -> bool {
        let reported = self.suspects.last_silence((near, far));
        if near == self.id {
            return reported.is_some() && self.silent.contains_key(&far);
        }
        reported.is_some_and(|reported| reported + SILENCE_FRESH > now)
    }

    /// Returns whether a link was silent recently, so that its properties may have changed.
    pub(crate) fn was_silent(&self, [near, far]: [NodeId; 2]) -> bool {
        self.suspects.last_silence((near, far)).is_some()
            || self.suspects.last_silence((far, near)).is_some()
    }

    /// Returns how much a planning for a sink can avoid such that the map still has a path.
    pub(crate) fn strictest_avoid(&self, facts: &Facts<'_>, sink: NodeId, now: Instant) -> Avoid {
        if self.suspects.is_empty() && self.withholders.is_empty() && self.leaving.is_empty() {
            return Avoid::Nothing;
        }
        let levels = [Avoid::Nodes, Avoid::Links, Avoid::Silent].into_iter();
        let is_open = |avoid: &Avoid| self.path_avoiding(facts, (sink, *avoid), now).is_some();
        let mut open = levels.filter(is_open);
        open.next().unwrap_or(Avoid::Nothing)
    }

    /// Returns a path to a sink with the fewest hops.
    pub(crate) fn path_avoiding(
        &self,
        facts: &Facts<'_>,
        (sink, avoid): (NodeId, Avoid),
        now: Instant,
    ) -> Option<Vec<NodeId>> {
        let id = self.id;
        let may_relay = |node| node == id || facts.may(node, Rights::RELAY);
        let is_usable =
            |ends: [NodeId; 2]| may_relay(ends[0]) && !self.is_avoided(ends, (sink, avoid), now);
        facts.directory.path_by(id, sink, is_usable)
    }

    /// Returns a path to a source that avoids suspected nodes if there is one, or else any.
    pub(crate) fn path_to(
        &self,
        facts: &Facts<'_>,
        source: NodeId,
        now: Instant,
    ) -> Option<Vec<NodeId>> {
        let path = self.path_avoiding(facts, (source, Avoid::Nodes), now);
        path.or_else(|| facts.path(source))
    }
}
