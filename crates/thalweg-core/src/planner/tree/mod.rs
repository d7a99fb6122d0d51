//! One stream to several sinks: a tree with one copy on each link.
//!
//! *The idea.* A tree is a set of ways that begin alike: what two ways share from the source on, hops and adapters, is
//! done once. It grows sink by sink, each attached by the exact search from every place that the tree has already, so a
//! filter runs where the ways part and the stream stays sealed through it. Several orders are tried, then each sink is
//! taken off and attached again while that helps. Beside it a bound: the best tree if slots, deadlines and the ban on
//! entering a node twice are left out, by dynamic programming over subsets of sinks. A tree that meets its bound is the
//! best there is, and says so.
//!
//! *What it does not do.* It does not promise the best tree, for that problem contains Steiner's: it promises one that
//! keeps every rule and costs no more than the best ways of all sinks, each planned alone, where these merge to a tree.
//!
//! *Sources.* docs/planner.md §9; Takahashi and Matsuyama 1980 (attach the nearest), Dreyfus and Wagner 1971.

mod bound;
mod trie;

use alloc::vec;
use alloc::vec::Vec;

use super::check::{Violation, check};
use super::cost::Cost;
use super::problem::{Exhausted, Problem, Relaxation, Route};
use super::product::{CostParts, LinkUse, Plan};
use super::shortfall::{self, Need, Shortfall};
use super::{Policy, exact};
use crate::model::{NodeName, Snapshot, Stream};
use crate::needs::Needs;
use crate::time::Duration;
use trie::Trie;

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
    /// Adapters and links once each, and the quality that each sink lacks.
    pub cost: f64,
    /// What the cost is made of.
    pub cost_parts: CostParts,
    /// No tree costs less than this.
    pub bound: f64,
    /// What the best ways of all sinks, each planned alone, cost in sum.
    pub apart: f64,
    /// The way to each sink, in their order. What two of them share from the source on is done once.
    pub paths: Vec<Plan>,
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
        let mut links: Vec<&LinkUse> = Vec::new();
        for link in self.paths.iter().flat_map(|path| &path.links) {
            if !links.iter().any(|other| other.link == link.link) {
                links.push(link);
            }
        }
        links
    }
}

/// Plans one stream to several sinks.
///
/// The shortfalls are empty exactly if the tree is feasible.
///
/// Cost    O(sinks²) path searches for each order of the sinks that is tried; the bound O(3^sinks · places) where that
///         is within the policy's labels
/// Source  docs/planner.md §9
pub fn plan_tree(snapshot: &Snapshot, sinks: &[Sink], policy: &Policy) -> (Tree, Vec<Shortfall>) {
    match Growth::new(snapshot, sinks, policy.labels_max) {
        Ok(growth) => growth.tree(),
        Err(shortfalls) => (Tree::default(), shortfalls),
    }
}

/// Returns everything that a tree breaks: on each way alone, and by what ways share.
pub fn check_tree(snapshot: &Snapshot, sinks: &[Sink], tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (sink, path) in sinks.iter().zip(&tree.paths) {
        violations.extend(check(&sink.alone(snapshot), path));
    }
    trie::check_sharing(snapshot, &tree.paths, &mut violations);
    violations
}

/// Looks up source and sink of a stream with one sink.
fn ends_of(alone: &Snapshot) -> Result<[usize; 2], Vec<Shortfall>> {
    super::ends_of(alone).map_err(|lack| vec![Shortfall::of_input(lack)])
}

/// The sinks, and how each would be reached alone.
struct Growth<'a> {
    snapshot: &'a Snapshot,
    labels_max: u32,
    /// For what is asked of no sink in particular: any number of layers will do.
    common: Problem<'a>,
    problems: Vec<Problem<'a>>,
    alone: Vec<Route>,
}

impl<'a> Growth<'a> {
    fn new(
        snapshot: &'a Snapshot,
        sinks: &[Sink],
        labels_max: u32,
    ) -> Result<Self, Vec<Shortfall>> {
        let Some(first) = sinks.first() else {
            return Err(vec![Shortfall::of_input(Violation::Sinks { count: 0 })]);
        };
        let ends = ends_of(&first.alone(snapshot))?;
        let needs = Needs {
            least_layers: 1,
            ..snapshot.stream.needs
        };
        let mut growth = Self {
            snapshot,
            labels_max,
            common: Problem::with_needs(snapshot, ends, Relaxation::default(), needs),
            problems: Vec::new(),
            alone: Vec::new(),
        };
        let mut shortfalls = Vec::new();
        for sink in sinks {
            let alone = sink.alone(snapshot);
            let ends = ends_of(&alone)?;
            let needs = alone.stream.needs;
            let problem = Problem::with_needs(snapshot, ends, Relaxation::default(), needs);
            match exact::solve(&problem, labels_max) {
                Ok(Some(route)) => growth.alone.push(route),
                Ok(None) => shortfalls.extend(shortfall::least_bad(&alone, ends, labels_max).1),
                Err(exhausted) => shortfalls.push(exhausted.into()),
            }
            growth.problems.push(problem);
        }
        if shortfalls.is_empty() {
            Ok(growth)
        } else {
            Err(shortfalls)
        }
    }

    /// Grows trees in several orders and returns the best, improved.
    fn tree(mut self) -> (Tree, Vec<Shortfall>) {
        let mut best: Option<(Cost, Vec<Route>)> = None;
        let mut offer = |cost: Option<Cost>, routes: Vec<Route>| {
            let Some(cost) = cost else { return };
            if best.as_ref().is_none_or(|(held, _)| cost < *held) {
                best = Some((cost, routes));
            }
        };
        let merged = self.alone.clone();
        offer(self.cost_if_tree(&merged), merged);
        for order in self.orders() {
            if let Ok(Some(routes)) = self.grow(&order) {
                offer(self.cost_if_tree(&routes), routes);
            }
        }
        let Some((cost, routes)) = best else {
            let node = &self.snapshot.topology.nodes()[self.problems[0].sink].name;
            let lack = Violation::NoTree { sink: node.clone() };
            return (
                Tree::default(),
                vec![Shortfall {
                    need: Need::Several,
                    lacks: vec![lack],
                }],
            );
        };
        let (_, routes) = self.improve(cost, routes);
        (self.describe(&routes), Vec::new())
    }

    /// Returns the orders in which sinks are attached: all of them if they are few, else those that begin with the
    /// most demanding ones.
    fn orders(&self) -> Vec<Vec<usize>> {
        let count = self.alone.len();
        let states = &self.common.states;
        let mut demanding: Vec<usize> = (0..count).collect();
        demanding.sort_by_cached_key(|sink| {
            let route = &self.alone[*sink];
            let layers = states.layers_of(trie::end_state(states, route));
            (
                core::cmp::Reverse(layers),
                core::cmp::Reverse(route.moves.len()),
                *sink,
            )
        });
        if count <= 4 {
            return permutations(&demanding);
        }
        let mut orders = vec![demanding.clone()];
        let mut nearest = demanding.clone();
        nearest.sort_by_key(|sink| self.alone[*sink].moves.len());
        orders.push(nearest);
        for first in 1..count.min(3) {
            let mut order = demanding.clone();
            order.rotate_left(first);
            orders.push(order);
        }
        orders
    }

    /// Attaches the sinks in this order; `None` if one finds no way.
    fn grow(&mut self, order: &[usize]) -> Result<Option<Vec<Route>>, Exhausted> {
        let mut routes: Vec<Option<Route>> = vec![None; order.len()];
        for (at, sink) in order.iter().enumerate() {
            let route = if at == 0 {
                Some(self.alone[*sink].clone())
            } else {
                let others: Vec<&Route> = routes.iter().flatten().collect();
                let trie = Trie::of(&self.common, &others);
                self.attach(*sink, &trie)?
            };
            match route {
                Some(route) => routes[*sink] = Some(route),
                None => return Ok(None),
            }
        }
        Ok(routes.into_iter().collect())
    }

    /// Returns the best way to a sink that begins on the tree.
    fn attach(&mut self, sink: usize, trie: &Trie) -> Result<Option<Route>, Exhausted> {
        let problem = &mut self.problems[sink];
        problem.close_only(trie.nodes());
        let seeds = trie.seeds();
        exact::solve_from(problem, &seeds, self.labels_max)
    }

    /// Takes each sink off and attaches it again, while that lowers the cost.
    fn improve(&mut self, mut cost: Cost, mut routes: Vec<Route>) -> (Cost, Vec<Route>) {
        loop {
            let before = cost;
            for sink in 0..routes.len() {
                let others = routes.iter().enumerate().filter(|(at, _)| *at != sink);
                let others: Vec<&Route> = others.map(|(_, route)| route).collect();
                if others.is_empty() {
                    break;
                }
                let trie = Trie::of(&self.common, &others);
                let Ok(Some(route)) = self.attach(sink, &trie) else {
                    continue;
                };
                let mut changed = routes.clone();
                changed[sink] = route;
                if let Some(then) = self.cost_if_tree(&changed)
                    && then < cost
                {
                    (cost, routes) = (then, changed);
                }
            }
            if cost >= before {
                return (cost, routes);
            }
        }
    }

    /// Returns what routes cost together, `None` if they enter a node twice or want more slots than there are.
    fn cost_if_tree(&self, routes: &[Route]) -> Option<Cost> {
        let all: Vec<&Route> = routes.iter().collect();
        let trie = Trie::of(&self.common, &all);
        let quality = routes
            .iter()
            .map(|route| trie::lacks(&self.common.states, route));
        let quality = quality.fold(Cost::ZERO, |sum, lack| sum + lack);
        trie.is_tree(&self.common)
            .then(|| trie.run + trie.links + quality)
    }

    fn describe(&self, routes: &[Route]) -> Tree {
        let all: Vec<&Route> = routes.iter().collect();
        let states = &self.common.states;
        let trie = Trie::of(&self.common, &all);
        let lacks = routes.iter().map(|route| trie::lacks(states, route));
        let quality = lacks.fold(Cost::ZERO, |sum, lack| sum + lack);
        let plan = |route: &Route| Plan::of_route(self.snapshot, route, true);
        let alone: Vec<Plan> = self.alone.iter().map(plan).collect();
        let dearest = alone.iter().map(|plan| plan.cost).fold(0.0, f64::max);
        let bound = bound::least(&self.common, &self.problems, self.labels_max);
        Tree {
            feasible: true,
            cost: (trie.run + trie.links + quality).as_f64(),
            cost_parts: CostParts {
                adapters: trie.run.as_f64(),
                links: trie.links.as_f64(),
                quality: quality.as_f64(),
            },
            bound: bound.map_or(dearest, Cost::as_f64),
            apart: alone.iter().map(|plan| plan.cost).sum(),
            paths: routes.iter().map(plan).collect(),
        }
    }
}

/// Returns all orders of a few things.
fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..of.len() {
        let mut rest = of.to_vec();
        let first = rest.remove(at);
        for mut order in permutations(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}
