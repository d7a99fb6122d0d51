//! The difference between two snapshots.

use alloc::vec::Vec;

use super::super::change::stays_best;
use super::super::problem::Problem;
use super::super::product::Plan;
use crate::model::{LinkIndex, NodeIndex, Place, Snapshot};

/// Links and nodes that have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) links: Vec<LinkIndex>,
    pub(super) nodes: Vec<NodeIndex>,
}

impl Change {
    /// Compares two snapshots; `None` if they differ in more than the properties of links and
    /// nodes.
    pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Option<Self> {
        let [old, new] = [before, after].map(|snapshot| &snapshot.topology);
        let is_same_kind = before.stream == after.stream
            && before.weights == after.weights
            && before.catalogue == after.catalogue
            && old.nodes().len() == new.nodes().len()
            && old.links().len() == new.links().len();
        if !is_same_kind {
            return None;
        }
        let mut change = Self::default();
        for (at, (was, is)) in old.nodes().iter().zip(new.nodes()).enumerate() {
            if was == is {
                continue;
            }
            if was.name != is.name {
                return None;
            }
            change.nodes.push(NodeIndex(at as u32));
        }
        for (at, (was, is)) in old.links().iter().zip(new.links()).enumerate() {
            if was == is {
                continue;
            }
            if was.ends != is.ends {
                return None;
            }
            change.links.push(LinkIndex(at as u32));
        }
        let is_end = |place: &Place| {
            place.name == after.stream.from || after.stream.to.contains(&place.name)
        };
        // An end's visibility decides in which states the stream may begin and end.
        let mut ends = change.nodes.iter().map(|node| new.node(*node));
        (!ends.any(is_end)).then_some(change)
    }

    pub(super) const fn is_nothing(&self) -> bool {
        self.links.is_empty() && self.nodes.is_empty()
    }

    /// Returns whether a plan stays best, because nothing is better than before and nothing that
    /// the plan uses is worse.
    pub(super) fn stays_best(&self, before: &Snapshot, after: &Snapshot, plan: &Plan) -> bool {
        let [old, new] = [before, after].map(|snapshot| &snapshot.topology);
        let mut links = self.links.iter();
        self.nodes.is_empty()
            && links.all(|link| stays_best(plan, *link, old.link(*link), new.link(*link)))
    }

    /// Makes the first snapshot equal to the second.
    pub(super) fn apply(&self, before: &mut Snapshot, after: &Snapshot) {
        for link in &self.links {
            before.topology.links_mut()[link.0 as usize] = *after.topology.link(*link);
        }
        if !self.nodes.is_empty() {
            before.topology = after.topology.clone();
        }
    }

    /// Returns the nodes at which costs may have changed.
    pub(super) fn touched(&self, after: &Snapshot, problem: &Problem<'_>) -> Vec<u32> {
        let links = self.links.iter().map(|link| after.topology.link(*link));
        let mut touched: Vec<u32> = links.flat_map(|edge| edge.ends).map(|end| end.0).collect();
        for node in &self.nodes {
            touched.push(node.0);
            touched.extend(problem.arcs_from(node.0).iter().map(|arc| arc.to));
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// Returns whether a plan uses a changed link.
    pub(super) fn is_on(&self, plan: &Plan) -> bool {
        plan.links
            .iter()
            .any(|used| self.links.contains(&used.link))
    }
}
