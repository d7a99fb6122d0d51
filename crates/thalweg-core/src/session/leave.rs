//! Nodes that leave in good order: plans are made around them while they still carry.
//!
//! *The idea.* It is a planned move: what is under way by the old plan arrives, so nothing is sent again. Only that the old
//! plan lies on its nodes no longer than something that was given under it is on its way, for one of them waits to go.

use alloc::collections::BTreeSet;

use super::Session;
use super::deployment::Deployment;
use crate::id::NodeId;
use crate::time::Instant;

impl Session {
    /// Takes in that a node is about to leave: the plans that pass it are asked for anew.
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
                    plan.is_left = true;
                    affected.insert(*sink);
                }
            }
        }
        for retiring in &mut self.retiring {
            if passes(&retiring.deployment) {
                retiring.deployment.is_left = true;
                retiring.hasten(self.linger, now);
            }
        }
        self.want_plans(|sink, _| affected.contains(sink));
    }
}
