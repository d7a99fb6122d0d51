//! The path of a plan with what runs on its nodes, and how sound it is by now.
//!
//! *The idea.* Three things make a path unsound: the map shows a hop broken, a node on it is
//! reported silent, or a node on it is about to leave. Each is kept apart, as each has its own end:
//! a broken hop stays broken, a suspicion expires, and a leaver still carries.
//!
//! *What it does not do.* It knows no epoch and no answers of nodes: a deployment does.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;

use super::Part;

/// The path of a plan, source first and sink last.
#[derive(Clone, Debug)]
pub(super) struct Path {
    parts: Vec<Part>,
    /// How many hops from the source the map has shown intact ever since all nodes had their parts.
    /// A node behind them may have restarted.
    whole_hops: usize,
    /// Until when some node on it is suspected to be silent.
    suspect_until: Instant,
    /// A node on it waits to leave.
    has_leaver: bool,
}

impl Path {
    pub(super) fn new(parts: Vec<Part>) -> Self {
        Self {
            parts,
            whole_hops: usize::MAX,
            suspect_until: Instant::ZERO,
            has_leaver: false,
        }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns its last node, the sink.
    pub(super) fn end(&self) -> Option<NodeId> {
        self.parts.last().map(|part| part.node)
    }

    /// Returns the nodes from the source up to a position.
    pub(super) fn route_to(&self, position: usize) -> Vec<NodeId> {
        let nodes = self.parts[..=position].iter();
        nodes.map(|part| part.node).collect()
    }

    /// Returns whether it contains this hop.
    pub(super) fn leads(&self, from: NodeId, to: NodeId) -> bool {
        let is_it = |pair: &[Part]| (pair[0].node, pair[1].node) == (from, to);
        self.parts.windows(2).any(is_it)
    }

    /// Handles a change of the links.
    pub(super) fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool) {
        let mut hops = self.parts.windows(2);
        let broken = hops.position(|pair| !is_joined(pair[0].node, pair[1].node));
        self.whole_hops = self.whole_hops.min(broken.unwrap_or(usize::MAX));
    }

    /// Handles a report, valid until then, that `to` does not answer `from`; returns whether it has
    /// this hop.
    pub(super) fn handle_suspect(&mut self, from: NodeId, to: NodeId, until: Instant) -> bool {
        let leads = self.leads(from, to);
        if leads {
            self.suspect_until = until;
        }
        leads
    }

    /// Handles a node that is about to leave; returns whether the path leads on from it.
    pub(super) fn handle_leave(&mut self, node: NodeId) -> bool {
        let before_last = self.parts.split_last();
        let before_last = before_last.map_or(&[][..], |(_, before)| before);
        let passes = before_last.iter().any(|part| part.node == node);
        self.has_leaver |= passes;
        passes
    }

    /// Doubts all of it, as what it is fed from is refused.
    pub(super) fn doubt(&mut self) {
        self.whole_hops = 0;
    }

    /// Ends all doubt by the map, as all nodes are sent their parts again.
    pub(super) fn renew(&mut self) {
        self.whole_hops = usize::MAX;
    }

    /// Returns whether the map has shown it broken since all its nodes had their parts.
    pub(super) fn is_doubted(&self) -> bool {
        self.whole_hops < self.parts.len()
    }

    /// Returns whether the map has shown it intact up to a position.
    pub(super) fn is_whole_to(&self, position: usize) -> bool {
        position <= self.whole_hops
    }

    /// Returns whether some node on it is suspected to be silent.
    pub(super) fn is_suspect(&self, now: Instant) -> bool {
        self.suspect_until > now
    }

    pub(super) fn has_leaver(&self) -> bool {
        self.has_leaver
    }
}
