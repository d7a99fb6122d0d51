//! Plans that stand by: made ready while a way is doubted, so that nothing has to be asked when it proves broken.
//!
//! *The idea.* Between the first doubt of a link and the end of the patience with it there is about a round trip, which is what
//! it takes to have a plan installed and its sink say what it has. So a doubt has the same plan made as a suspicion has, and
//! it waits, ready, in the place of a plan that is to come into force:
//!
//! ```text
//!  doubt ─► PlanWanted ─► handle_plan: stands by ─► Prepare … Ready ─┬─ broken: PlanWanted ─► the same plan: in force at once
//!                                                                   └─ over:   PlanWanted ─► the plan in force: released
//! ```
//!
//! While a way is doubted all plans that would replace one that is well stand by: a planned move waits for a moment. One that
//! is grafted on another that stands by is cast at once, for nothing comes that way yet, and takes over with that; one that is
//! grafted on a plan in force, or about to be, would be given copies, and is cast when it is taken up.
//!
//! *What it does not do.* It does not find out that a doubt was wrong: that is so when its time is over.
//!
//! *Sources.* docs/continuity.md §1; decisions/0027.

use alloc::collections::BTreeSet;

use super::deployment::{Deployment, Turn};
use super::{Graft, Session, Sink};
use crate::id::{Epoch, NodeId};
use crate::time::Instant;

#[cfg(test)]
mod tests;

impl Session {
    /// Takes in that a node has not heard from the one after it for a while, which is remembered until then: for those whose
    /// plans in force lead that way others are made ready.
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
            self.want_around(to, &affected);
        }
    }

    /// Asks for the plans of these sinks, that of a node that does not answer last: if it is there after all, it is grafted on
    /// what the others have by then.
    pub(super) fn want_around(&mut self, silent: NodeId, affected: &BTreeSet<NodeId>) {
        self.want_plans(|sink, _| affected.contains(sink) && *sink != silent);
        self.want_plans(|sink, _| affected.contains(sink));
    }

    /// Returns whether a plan for a sink is only made ready: a way is doubted, and the plan in force is well.
    pub(super) fn is_put_off(&self, node: NodeId, now: Instant) -> bool {
        let Some(sink) = self.sinks.get(&node).filter(|_| self.doubt_until > now) else {
            return false;
        };
        let is_well = |plan: &Deployment| {
            let is_whole = !plan.is_doubted() && plan.suspect_until <= now && !plan.is_left;
            let is_lasting = plan.epoch >= self.rekey.first;
            let is_fed = plan
                .graft
                .is_none_or(|graft| self.live().contains(&graft.base));
            is_whole && is_lasting && is_fed
        };
        sink.broken.is_empty() && sink.active.as_ref().is_some_and(is_well)
    }

    /// Returns whether a plan takes over once it is ready. One that stands by is cast only if nothing comes to its caster before it
    /// is taken up.
    pub(super) fn turn(&self, is_standby: bool, graft: Option<Graft>) -> Turn {
        let Some(Graft { base, .. }) = graft.filter(|_| is_standby) else {
            return if is_standby { Turn::Standby } else { Turn::Due };
        };
        let mut pending = self.sinks.values().filter_map(|sink| sink.pending.as_ref());
        let stands_by = pending.any(|plan| plan.epoch == base && plan.stands_by());
        if stands_by {
            Turn::Standby
        } else {
            Turn::Uncast
        }
    }

    /// Takes up what stands by on a plan that has come into force: it is given copies from now on.
    pub(super) fn take_along(&mut self, base: Epoch, now: Instant) {
        let pending = self
            .sinks
            .values_mut()
            .filter_map(|sink| sink.pending.as_mut());
        for plan in pending.filter(|plan| plan.follows(base)) {
            plan.take_up(now);
        }
    }

    /// Returns when the sinks whose plans stand by are to be looked at anew.
    pub(super) fn doubt_due(&self) -> Option<Instant> {
        let is_due = self.doubt_until != Instant::ZERO && self.sinks.values().any(stands_by);
        is_due.then_some(self.doubt_until)
    }

    /// Looks anew at the sinks whose plans stand by when no way is doubted any more.
    pub(super) fn time_doubt(&mut self, now: Instant) {
        if self.doubt_until > now || self.doubt_until == Instant::ZERO {
            return;
        }
        self.doubt_until = Instant::ZERO;
        let standing = self.sinks.iter().filter(|(_, sink)| stands_by(sink));
        let standing: BTreeSet<NodeId> = standing.map(|(node, _)| *node).collect();
        self.want_plans(|sink, _| standing.contains(sink));
    }
}

fn stands_by(sink: &Sink) -> bool {
    sink.pending.as_ref().is_some_and(Deployment::stands_by)
}
