//! When a change of the map has the plans of all sinks asked for anew.
//!
//! *The idea.* A stream of few sinks asks at each change. One of hundreds would plan hundreds of times for each viewer that comes,
//! so it asks for those only who need another plan, and for all at a pace: a way that is only better may wait, for what makes it so
//! has been watched for seconds before it was told.

use alloc::collections::BTreeSet;

use super::{Output, Retiring, Session, Sink, note_broken};
use crate::id::NodeId;
use crate::time::{Duration, Instant};

/// A stream of more sinks than this looks at a pace.
pub const SINKS_FEW: usize = 16;

/// For each of its sinks it waits so long between two looks.
pub const LOOK_PACE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) struct Look {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl Look {
    /// Takes in that the map changed; returns whether all plans are to be asked for at once.
    pub(super) fn handle_change(&mut self, sinks: usize, now: Instant) -> bool {
        let pace = Duration::from_nanos(LOOK_PACE.as_nanos() * sinks as u64);
        let last = self.last.filter(|_| sinks > SINKS_FEW);
        self.due = Some(last.map_or(now, |last| now.max(last + pace)));
        self.handle_timeout(now)
    }

    /// Returns whether all plans are to be asked for now.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = self.due.take_if(|due| *due <= now).is_some();
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Returns when all plans are to be asked for.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }
}

impl Session {
    /// Takes in that the map changed: those plans whose nodes are not joined one to the next are doubted, and each sink's is
    /// asked for anew, if it is not well at once, else at a pace ([`LOOK_PACE`]).
    pub fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool, now: Instant) {
        self.due = None;
        for sink in self.sinks.values_mut() {
            for deployment in sink.plans_mut() {
                deployment.handle_change(&is_joined);
            }
        }
        for Retiring { deployment, .. } in &mut self.retiring {
            deployment.handle_change(&is_joined);
            if deployment.is_doubted() {
                note_broken(&mut self.sinks, deployment);
            }
        }
        let is_for_all = self.look.handle_change(self.sinks.len(), now);
        self.want_plans(|_, sink| is_for_all || !sink.is_well());
    }

    /// Returns whether a sink is served by a plan that no other is to take over from.
    pub fn is_settled(&self, node: NodeId) -> bool {
        let sink = self.sinks.get(&node);
        sink.is_some_and(|sink| sink.active.is_some() && sink.pending.is_none())
    }

    /// Returns whether ADUs reach a sink, as far as it is known here: its plan is in force, and its way neither broken nor silent.
    pub fn is_served(&self, node: NodeId, now: Instant) -> bool {
        let plan = self.sinks.get(&node).and_then(|sink| sink.active.as_ref());
        plan.is_some_and(|plan| !plan.is_doubted() && plan.suspect_until <= now)
    }

    /// Asks for the plans of these sinks, unless that is asked already.
    pub(super) fn want_plans(&mut self, of: impl Fn(&NodeId, &Sink) -> bool) {
        let asked = self.outputs.iter().filter_map(|output| match output {
            Output::PlanWanted { sink } => Some(*sink),
            _ => None,
        });
        let asked: BTreeSet<NodeId> = asked.collect();
        let wanted = self.sinks.iter().filter(|(node, sink)| of(node, sink));
        let wanted = wanted.map(|(node, _)| *node);
        let wanted = wanted.filter(|node| !asked.contains(node));
        let wanted = wanted.map(|sink| Output::PlanWanted { sink });
        self.outputs.extend(wanted);
    }
}
