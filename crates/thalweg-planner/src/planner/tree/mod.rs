//! One stream to several sinks: a tree with one copy on each link.
//!
//! *The idea.* A tree is a set of paths with common beginnings: the hops and adapters that two
//! paths share from the source on are used once. It grows sink by sink (`growth`). The exact search
//! attaches each from every place of the existing tree, so a filter runs where the paths diverge
//! and the stream stays sealed through it. A lower bound comes from the problem without slots,
//! deadlines and the ban on entering a node twice, by dynamic programming over subsets of sinks. A
//! tree that meets the bound is proven optimal. A sink that cannot be served, alone or together
//! with the others, is left out and reported with what it lacks; the others get their tree.
//!
//! *What it does not do.* It does not guarantee the best tree, because that problem contains
//! Steiner's. It guarantees a tree that keeps every rule and costs no more than the sinks'
//! separately planned paths where those form a tree.
//!
//! *Sources.* docs/concepts/planner.md §9; Takahashi and Matsuyama 1980 (attach the nearest), Dreyfus and
//! Wagner 1971.

mod bound;
mod branch;
mod growth;
mod trie;
mod words;

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::time::Duration;

use super::Policy;
use super::check::{Violation, check};
use super::product::{CostParts, LinkUse, Plan};
use super::shortfall::Shortfall;
use crate::model::{NodeName, Snapshot, Stream};

pub use branch::Branch;
use growth::TreeBuilder;

/// A receiver of a stream, with its own needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// The receiving node.
    pub node: NodeName,
    /// An ADU older than this is useless to it.
    pub deadline: Duration,
    /// Minimum number of layers that are worth delivering to it.
    pub least_layers: u8,
}

/// Paths from one source to several sinks with shared beginnings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// Whether every sink's needs are satisfied.
    pub feasible: bool,
    /// Cost of adapters and links, counted once each, plus each sink's missing quality: all of it
    /// if left out.
    pub cost: f64,
    /// The parts of the cost.
    pub cost_parts: CostParts,
    /// Lower bound on the cost of any tree to these sinks.
    pub bound: f64,
    /// Sum of the costs of each sink's best path, planned alone.
    pub apart: f64,
    /// The path to each sink, in sink order; empty for one that is left out. A common beginning of
    /// two paths is used once.
    pub paths: Vec<Plan>,
}

/// A sink that the tree does not reach, and what would have to change.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// The sink's node.
    pub sink: NodeName,
    /// What it lacks alone or, if nothing, beside the others.
    pub shortfalls: Vec<Shortfall>,
}

impl Sink {
    /// Returns the sinks of a stream, each with the stream's needs.
    pub fn all_of(stream: &Stream) -> Vec<Self> {
        let sink = |node: &NodeName| Self {
            node: node.clone(),
            deadline: stream.needs.deadline,
            least_layers: stream.least_layers(),
        };
        stream.to.iter().map(sink).collect()
    }

    /// Returns the snapshot with this sink only.
    fn alone(&self, snapshot: &Snapshot) -> Snapshot {
        let mut alone = snapshot.clone();
        alone.stream.to = vec![self.node.clone()];
        alone.stream.needs.deadline = self.deadline;
        alone.stream.needs.least_layers = self.least_layers;
        alone
    }
}

impl Tree {
    /// Returns whether the tree is proven optimal.
    pub fn is_proven(&self) -> bool {
        self.feasible && self.cost <= self.bound + 1e-9
    }

    /// Returns the stream on each link, each link once.
    pub fn links(&self) -> Vec<&LinkUse> {
        let mut links: Vec<&LinkUse> = self.paths.iter().flat_map(|path| &path.links).collect();
        links.sort_by_key(|link| link.link);
        links.dedup_by_key(|link| link.link);
        links
    }
}

/// Plans one stream to several sinks.
///
/// The tree is feasible exactly if no sink is left out. A strict policy serves all sinks or none:
/// the tree is empty if one is left out.
///
/// Cost    O(sinks²) path searches for each order that is tried; the bound O(3^sinks · places)
///         where that is within the policy's labels
/// Source  docs/concepts/planner.md §9
pub fn plan_tree(snapshot: &Snapshot, sinks: &[Sink], policy: &Policy) -> (Tree, Vec<LeftOut>) {
    let (tree, left_out) = TreeBuilder::new(snapshot, sinks, policy.labels_max).tree();
    if policy.strict && !left_out.is_empty() {
        return (Tree::default(), left_out);
    }
    (tree, left_out)
}

/// Returns everything that a tree breaks: on each path alone, and by sharing. Sinks left out break
/// nothing.
pub fn check_tree(snapshot: &Snapshot, sinks: &[Sink], tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (sink, path) in sinks.iter().zip(&tree.paths) {
        if !path.path.is_empty() {
            violations.extend(check(&sink.alone(snapshot), path));
        }
    }
    trie::check_sharing(snapshot, &tree.paths, &mut violations);
    violations
}
