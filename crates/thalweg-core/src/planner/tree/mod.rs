//! One stream to several sinks: a tree with one copy on each link.
//!
//! *The idea.* A tree is a set of ways that begin alike: what two ways share from the source on, hops and adapters, is
//! done once. It grows sink by sink (`growth`), each attached by the exact search from every place that the tree has
//! already, so a filter runs where the ways part and the stream stays sealed through it. Beside it a bound: the best tree
//! if slots, deadlines and the ban on entering a node twice are left out, by dynamic programming over subsets of sinks. A
//! tree that meets its bound is the best there is, and says so. A sink that cannot be served, or not beside the others, is
//! left out and told with what it lacks; the others get their tree.
//!
//! *What it does not do.* It does not promise the best tree, for that problem contains Steiner's: it promises one that
//! keeps every rule and costs no more than the best ways of all sinks, each planned alone, where these merge to a tree.
//!
//! *Sources.* docs/planner.md §9; Takahashi and Matsuyama 1980 (attach the nearest), Dreyfus and Wagner 1971.

mod bound;
mod branch;
mod growth;
mod trie;
mod words;

use alloc::vec;
use alloc::vec::Vec;

use super::Policy;
use super::check::{Violation, check};
use super::product::{CostParts, LinkUse, Plan};
use super::shortfall::Shortfall;
use crate::model::{NodeName, Snapshot, Stream};
use crate::time::Duration;

pub use branch::Branch;
use growth::Growth;

/// One who receives a stream, with needs of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// Its node.
    pub node: NodeName,
    /// After this long an ADU is of no use to it.
    pub deadline: Duration,
    /// The fewest layers that are worth delivering to it.
    pub least_layers: u8,
}

/// Ways from one source to several sinks that share what they have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    /// Whether every sink's needs are satisfied.
    pub feasible: bool,
    /// Adapters and links once each, and the quality that each sink lacks: all of it for one that is left out.
    pub cost: f64,
    /// What the cost is made of.
    pub cost_parts: CostParts,
    /// No tree to the same sinks costs less than this.
    pub bound: f64,
    /// What the best ways of the same sinks, each planned alone, cost in sum.
    pub apart: f64,
    /// The way to each sink, in their order; empty for one that is left out. What two of them share from the source on
    /// is done once.
    pub paths: Vec<Plan>,
}

/// A sink to which a tree does not lead, and what would have to change.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Its node.
    pub sink: NodeName,
    /// What it lacks: alone, or if it lacks nothing then, beside the others.
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

    /// Returns the snapshot as it is for this sink alone.
    fn alone(&self, snapshot: &Snapshot) -> Snapshot {
        let mut alone = snapshot.clone();
        alone.stream.to = vec![self.node.clone()];
        alone.stream.needs.deadline = self.deadline;
        alone.stream.needs.least_layers = self.least_layers;
        alone
    }
}

impl Tree {
    /// Returns whether no tree costs less.
    pub fn is_proven(&self) -> bool {
        self.feasible && self.cost <= self.bound + 1e-9
    }

    /// Returns what each link carries, each link once.
    pub fn links(&self) -> Vec<&LinkUse> {
        let mut links: Vec<&LinkUse> = self.paths.iter().flat_map(|path| &path.links).collect();
        links.sort_by_key(|link| link.link);
        links.dedup_by_key(|link| link.link);
        links
    }
}

/// Plans one stream to several sinks.
///
/// Nothing is left out exactly if the tree is feasible. A strict policy takes all sinks or none: the tree is empty if one
/// is left out.
///
/// Cost    O(sinks²) path searches for each order of the sinks that is tried; the bound O(3^sinks · places) where that
///         is within the policy's labels
/// Source  docs/planner.md §9
pub fn plan_tree(snapshot: &Snapshot, sinks: &[Sink], policy: &Policy) -> (Tree, Vec<LeftOut>) {
    let (tree, left_out) = Growth::new(snapshot, sinks, policy.labels_max).tree();
    if policy.strict && !left_out.is_empty() {
        return (Tree::default(), left_out);
    }
    (tree, left_out)
}

/// Returns everything that a tree breaks: on each way alone, and by what ways share. Ways that are left out break nothing.
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
