//! Standby plans: prepared while a link is doubted, so that the switch needs no messages if it
//! proves broken.
//!
//! *The idea.* Between the first doubt of a link and the verdict that it is silent lies about a round trip,
//! as long as it takes to install a plan and get the sink's receipt. So a doubt triggers the same planning
//! as a suspicion does, and the plan waits in the place of a pending plan:
//!
//! ```text
//!  doubt ─► PlanWanted ─► handle_plan: standby ─► Prepare … Ready
//!           ├─ broken: PlanWanted ─► the same plan: in force at once
//!           └─ over:   PlanWanted ─► the plan in force: standby released
//! ```
//!
//! While a link is doubted, every plan that would replace a healthy one stands by: a planned move
//! waits for a moment. A graft on a standby plan is cast at once, as no ADU comes that way yet, and
//! takes over with its base. A graft on a plan that is in force, or about to be, would receive
//! copies, so it is cast only when it is activated.
//!
//! *What it does not do.* It does not detect a false doubt: a doubt just expires.
//!
//! *Sources.* docs/concepts/continuity.md §1; decisions/0027.

use alloc::collections::BTreeSet;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;

use super::deployment::{Deployment, Takeover};
use super::{Graft, Session, Sink};

#[cfg(test)]
mod tests;

impl Session {
    /// Handles a doubt, valid until then, that `to` answers `from`: standby plans are requested for
    /// the sinks with this hop in their plan in force.
    pub fn handle_doubt(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.due = None;
        self.doubt_until = self.doubt_until.max(until);
        let is_affected = |sink: &Sink| {
            let leads = |plan: &Deployment| plan.leads(from, to);
            sink.pending.is_none() && sink.active.as_ref().is_some_and(leads)
        };
        let affected = self.sinks.iter().filter(|(_, sink)| is_affected(sink));
        let affected: BTreeSet<NodeId> = affected.map(|(node, _)| *node).collect();
        if !affected.is_empty() {
            let silent = self.silent.entry(to).or_default();
            *silent = (*silent).max(until);
            self.request_around(to, &affected);
        }
    }

    /// Requests plans for these sinks, that of the silent node last: if it is alive after all, it
    /// is grafted on the new plans of the others.
    pub(super) fn request_around(&mut self, silent: NodeId, affected: &BTreeSet<NodeId>) {
        self.request_plans(|sink, _| affected.contains(sink) && *sink != silent);
        self.request_plans(|sink, _| affected.contains(sink));
    }

    /// Returns whether a new plan for a sink stands by: a link is doubted, and the plan in force is
    /// healthy.
    pub(super) fn must_stand_by(&self, node: NodeId, now: Instant) -> bool {
        let Some(sink) = self.sinks.get(&node).filter(|_| self.doubt_until > now) else {
            return false;
        };
        let is_healthy = |plan: &Deployment| {
            let is_whole = !plan.is_doubted() && plan.suspect_until <= now && !plan.has_leaver;
            let is_lasting = plan.epoch >= self.rekey.first;
            let is_fed = plan
                .graft
                .is_none_or(|graft| self.live().contains(&graft.base));
            is_whole && is_lasting && is_fed
        };
        sink.broken.is_empty() && sink.active.as_ref().is_some_and(is_healthy)
    }

    /// Returns when a plan takes over. A standby plan is cast only if its caster gets no ADUs for
    /// it before it is activated.
    pub(super) fn takeover(&self, is_standby: bool, graft: Option<Graft>) -> Takeover {
        let Some(Graft { base, .. }) = graft.filter(|_| is_standby) else {
            return if is_standby {
                Takeover::Standby
            } else {
                Takeover::WhenReady
            };
        };
        let mut pending = self.sinks.values().filter_map(|sink| sink.pending.as_ref());
        let stands_by = pending.any(|plan| plan.epoch == base && plan.stands_by());
        if stands_by {
            Takeover::Standby
        } else {
            Takeover::Unfed
        }
    }

    /// Activates the standby plans that are grafted on a plan that has come into force.
    pub(super) fn activate_followers(&mut self, base: Epoch, now: Instant) {
        let pending = self
            .sinks
            .values_mut()
            .filter_map(|sink| sink.pending.as_mut());
        for plan in pending.filter(|plan| plan.follows(base)) {
            plan.activate(now);
        }
    }

    /// Returns when the sinks with standby plans are to be replanned.
    pub(super) fn doubt_due(&self) -> Option<Instant> {
        let is_due = self.doubt_until != Instant::ZERO && self.sinks.values().any(stands_by);
        is_due.then_some(self.doubt_until)
    }

    /// Replans the sinks with standby plans once no link is doubted any more.
    pub(super) fn handle_doubt_timeout(&mut self, now: Instant) {
        if self.doubt_until > now || self.doubt_until == Instant::ZERO {
            return;
        }
        self.doubt_until = Instant::ZERO;
        let standing = self.sinks.iter().filter(|(_, sink)| stands_by(sink));
        let standing: BTreeSet<NodeId> = standing.map(|(node, _)| *node).collect();
        self.request_plans(|sink, _| standing.contains(sink));
    }
}

fn stands_by(sink: &Sink) -> bool {
    sink.pending.as_ref().is_some_and(Deployment::stands_by)
}
