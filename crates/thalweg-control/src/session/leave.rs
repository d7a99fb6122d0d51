//! Nodes that leave in good order: their streams are replanned while they still carry.
//!
//! *The idea.* This is a planned move: what is in flight by the old plan arrives, so nothing is resent.
//! Only the old plan stays installed no longer than its ADUs are in flight, because a node waits to leave.

use alloc::collections::BTreeSet;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;

use super::Session;
use super::deployment::Deployment;

impl Session {
    /// Handles a node that is about to leave: requests other plans for the sinks behind it.
    pub fn handle_leave(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        let passes = |plan: &Deployment| {
            let before_last = plan
                .parts
                .split_last()
                .map_or(&[][..], |(_, before)| before);
            before_last.iter().any(|part| part.node == node)
        };
        let mut affected = BTreeSet::new();
        for (sink, state) in &mut self.sinks {
            for plan in state.active.iter_mut().chain(&mut state.pending) {
                if passes(plan) {
                    plan.has_leaver = true;
                    affected.insert(*sink);
                }
            }
        }
        for retiring in &mut self.retiring {
            if passes(&retiring.deployment) {
                retiring.deployment.has_leaver = true;
                retiring.shorten(self.drain_time, now);
            }
        }
        self.request_plans(|sink, _| affected.contains(sink));
    }
}
