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

use alloc::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;

use super::Part;

#[cfg(test)]
mod tests;

/// What is doubted of the nodes and links of a stream's plans, and until when.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Nodes reported silent, and until when that counts.
    silent: BTreeMap<NodeId, Instant>,
    /// Until when the path of some plan in force is doubted: so long, no plan replaces a healthy
    /// one. Zero if no link is doubted.
    until: Instant,
}

impl Doubts {
    /// Handles a report, valid until then, that a node does not answer.
    pub(super) fn handle_suspect(&mut self, node: NodeId, until: Instant) {
        self.silent.insert(node, until);
    }

    /// Handles a doubt of some link, valid until then.
    pub(super) fn handle_doubt(&mut self, until: Instant) {
        self.until = self.until.max(until);
    }

    /// Handles a doubt, valid until then, of a node that plans in force pass.
    pub(super) fn handle_doubtful(&mut self, node: NodeId, until: Instant) {
        let silent = self.silent.entry(node).or_default();
        *silent = (*silent).max(until);
    }

    /// Forgets reports that no longer count; returns whether standby plans are to be replaced, as
    /// no link is doubted any more.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        self.silent.retain(|_, until| *until > now);
        let is_over = self.until <= now && self.until != Instant::ZERO;
        if is_over {
            self.until = Instant::ZERO;
        }
        is_over
    }

    /// Returns whether a link is doubted.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.until > now
    }

    /// Returns whether one of these nodes, other than the first, is reported silent.
    pub(super) fn is_silent(&self, parts: &[Part], now: Instant) -> bool {
        let until = |part: &Part| self.silent.get(&part.node);
        let mut until = parts.iter().skip(1).filter_map(until);
        until.any(|until| *until > now)
    }

    /// Returns when standby plans are to be replaced; `None` if no link is doubted.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.until != Instant::ZERO).then_some(self.until)
    }
}
