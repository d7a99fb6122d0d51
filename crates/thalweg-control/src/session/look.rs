//! When a change of the map triggers replanning for all sinks.
//!
//! *The idea.* A stream with few sinks replans at each change. One with hundreds would plan
//! hundreds of times for each viewer that joins, so it replans at once only for the sinks that need
//! it, and for all sinks at a limited pace. A path that is merely better may wait: what makes it
//! better was observed for seconds before it was announced.

use alloc::collections::BTreeSet;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};

use super::{Output, Retiring, Session, Sink, mark_broken};

/// A stream with more sinks than this limits the pace of replanning.
pub const SINKS_FEW: usize = 16;

/// Minimum interval between two replannings of all sinks, per sink.
pub const LOOK_PACE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) struct ReplanPace {
    last: Option<Instant>,
    due: Option<Instant>,
}

impl ReplanPace {
    /// Handles a change of the map; returns whether to replan all sinks at once.
    pub(super) fn handle_change(&mut self, sinks: usize, now: Instant) -> bool {
        let pace = Duration::from_nanos(LOOK_PACE.as_nanos() * sinks as u64);
        let last = self.last.filter(|_| sinks > SINKS_FEW);
        self.due = Some(last.map_or(now, |last| now.max(last + pace)));
        self.handle_timeout(now)
    }

    /// Returns whether to replan all sinks now.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = self.due.take_if(|due| *due <= now).is_some();
        if is_due {
            self.last = Some(now);
        }
        is_due
    }

    /// Returns when to replan all sinks.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }
}

impl Session {
    /// Handles a change of the map. Plans with a broken hop are doubted. Sinks that are not healthy
    /// are replanned at once, the others at the pace of [`LOOK_PACE`].
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
                mark_broken(&mut self.sinks, deployment);
            }
        }
        let is_for_all = self.replan.handle_change(self.sinks.len(), now);
        self.request_plans(|_, sink| is_for_all || !sink.is_healthy());
    }

    /// Returns whether a sink has a plan in force and none pending.
    pub fn is_settled(&self, node: NodeId) -> bool {
        let sink = self.sinks.get(&node);
        sink.is_some_and(|sink| sink.active.is_some() && sink.pending.is_none())
    }

    /// Returns whether a sink receives ADUs as far as is known here: its plan is in force, its path
    /// neither broken nor silent.
    pub fn is_served(&self, node: NodeId, now: Instant) -> bool {
        let plan = self.sinks.get(&node).and_then(|sink| sink.active.as_ref());
        plan.is_some_and(|plan| !plan.is_doubted() && plan.suspect_until <= now)
    }

    /// Requests plans for these sinks, unless they are requested already.
    pub(super) fn request_plans(&mut self, of: impl Fn(&NodeId, &Sink) -> bool) {
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
