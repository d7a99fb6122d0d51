//! Grows a tree: sink by sink, in several orders, then removes and re-attaches each sink.
//!
//! *The idea.* The first sink gets the path that it would have alone. The exact search attaches
//! each further one from every place of the tree at once; a sink without a path is left out. Of all
//! trees, the one that leaves out the fewest sinks is kept, and of those the cheapest. Then each
//! sink is removed and attached again, including those left out, while that improves the tree.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use thalweg_base::needs::Needs;

use super::super::check::{Violation, check};
use super::super::cost::Cost;
use super::super::problem::{Exhausted, Problem, Relaxation, Route};
use super::super::product::{CostParts, Plan};
use super::super::shortfall::{self, Need, Shortfall};
use super::super::states::States;
use super::super::{ends_of, exact, permutations};
use super::trie::{self, Trie};
use super::{LeftOut, Sink, Tree, bound};
use crate::model::Snapshot;

/// Maximum rounds of re-attaching all sinks; each must improve the tree.
const ROUNDS_MAX: usize = 8;

/// Limit on searches after the first order, as their number times nodes and links.
const WORK_MAX: usize = 20_000_000;

/// Limit on the sinks with an analysis of their shortfalls, as their number times nodes and links: each
/// takes a search per constraint.
const DIAGNOSES_MAX: usize = 1_000_000;

/// Each search that reaches its label limit halves the limit of later ones, down to this.
const LABELS_MIN: u32 = 10_000;

/// Routes by sink; `None` for one that is left out.
type Routes = Vec<Option<Route>>;

/// Quality of a tree: sinks left out, then cost.
type Worth = (usize, Cost);

/// A sink with its needs.
struct Goal {
    snapshot: Snapshot,
    /// The sink's node; `None` if the sink cannot be planned.
    node: Option<usize>,
    needs: Needs,
}

/// The sinks, and each one's route alone.
pub(super) struct TreeBuilder<'a> {
    snapshot: &'a Snapshot,
    labels_max: u32,
    /// Remaining number of attachments.
    attaches_left: usize,
    /// Remaining number of shortfall analyses.
    diagnoses_left: usize,
    /// The problem for queries that concern no single sink: any number of layers is enough.
    common: Option<Problem<'a>>,
    goals: Vec<Goal>,
    alone: Routes,
    shortfalls: Vec<Vec<Shortfall>>,
}

impl<'a> TreeBuilder<'a> {
    /// Plans each sink as if it were alone.
    pub(super) fn new(snapshot: &'a Snapshot, sinks: &[Sink], labels_max: u32) -> Self {
        let size = snapshot.topology.nodes().len() + snapshot.topology.links().len();
        let mut growth = Self {
            snapshot,
            labels_max,
            attaches_left: (WORK_MAX / size.max(1)).max(sinks.len()),
            diagnoses_left: (DIAGNOSES_MAX / size.max(1)).max(1),
            common: None,
            goals: Vec::new(),
            alone: Vec::new(),
            shortfalls: Vec::new(),
        };
        // One problem is reused for all sinks, instead of a copy of up to 100,000 links for each.
        let mut scratch: Option<Problem<'a>> = None;
        for sink in sinks {
            let alone = sink.alone(snapshot);
            let needs = alone.stream.needs;
            let (mut node, mut route, mut lacks) = (None, None, Vec::new());
            match ends_of(&alone) {
                Err(lack) => lacks.push(Shortfall::of_input(lack)),
                Ok(ends) => {
                    node = Some(ends[1]);
                    let problem = scratch.get_or_insert_with(|| {
                        Problem::with_needs(snapshot, ends, Relaxation::default(), needs)
                    });
                    problem.retarget(ends[1], needs);
                    match exact::solve(problem, growth.labels_max) {
                        Ok(Some(found)) => route = Some(found),
                        Ok(None) => lacks = growth.lacks_alone(&alone, ends),
                        Err(exhausted) => lacks.push(growth.gave_up(exhausted)),
                    }
                }
            }
            growth.alone.push(route);
            growth.shortfalls.push(lacks);
            growth.goals.push(Goal {
                snapshot: alone,
                node,
                needs,
            });
        }
        growth.common = scratch.map(|mut problem| {
            let least_layers = 1;
            let sink = problem.sink;
            let needs = Needs {
                least_layers,
                ..snapshot.stream.needs
            };
            problem.retarget(sink, needs);
            problem
        });
        growth
    }

    /// Returns the shortfalls of a sink that cannot be reached even alone.
    fn lacks_alone(&mut self, alone: &Snapshot, ends: [usize; 2]) -> Vec<Shortfall> {
        if self.take_diagnosis() {
            return shortfall::least_bad(alone, ends, self.labels_max).1;
        }
        vec![Shortfall::not_looked_into(alone.stream.to[0].clone())]
    }

    /// Returns whether one more sink may be analysed, and counts it.
    fn take_diagnosis(&mut self) -> bool {
        let may = self.diagnoses_left > 0;
        self.diagnoses_left = self.diagnoses_left.saturating_sub(1);
        may
    }

    /// Lowers the label limit of later searches after one that reached it, so that all of them end.
    fn gave_up(&mut self, exhausted: Exhausted) -> Shortfall {
        self.labels_max = (self.labels_max / 2).max(LABELS_MIN.min(self.labels_max));
        exhausted.into()
    }

    /// Grows trees in several orders; returns the best after improvement, with the sinks left out.
    pub(super) fn tree(mut self) -> (Tree, Vec<LeftOut>) {
        let Some(common) = self.common.take() else {
            let left_out = self.left_out(None, &[]);
            return (self.describe(None, &[]), left_out);
        };
        // A second problem, retargeted to one sink after another.
        let ends = [common.source, common.sink];
        let mut scratch = Problem::new(self.snapshot, ends, Relaxation::default());
        let mut best: Option<(Worth, Routes)> = None;
        let mut offer = |worth: Option<Worth>, routes: Routes| {
            let Some(worth) = worth else { return };
            if best.as_ref().is_none_or(|(held, _)| worth < *held) {
                best = Some((worth, routes));
            }
        };
        // The separate paths may form a tree already.
        let merged = self.alone.clone();
        offer(self.worth_as_tree(&common, &merged), merged);
        for order in self.orders(&common) {
            // A tree that is grown in part would leave out sinks.
            if self.attaches_left < order.len() {
                break;
            }
            let routes = self.grow(&common, &mut scratch, &order);
            offer(self.worth_as_tree(&common, &routes), routes);
        }
        let Some((worth, routes)) = best else {
            let left_out = self.left_out(None, &[]);
            return (self.describe(None, &[]), left_out);
        };
        let routes = self.improve(&common, &mut scratch, worth, routes);
        (
            self.describe(Some(&common), &routes),
            self.left_out(Some(&common), &routes),
        )
    }

    /// Returns the orders of attachment: all permutations of up to four sinks, else some that begin
    /// with the most demanding ones.
    fn orders(&self, common: &Problem<'a>) -> Vec<Vec<usize>> {
        let states = &common.states;
        let route = |sink: &usize| self.alone[*sink].as_ref();
        let moves = |sink: &usize| route(sink).map_or(0, |route| route.moves.len());
        let mut demanding: Vec<usize> = (0..self.alone.len())
            .filter(|sink| route(sink).is_some())
            .collect();
        demanding.sort_by_cached_key(|sink| {
            let end = route(sink).map(|route| trie::end_state(states, route));
            let layers = end.map_or(0, |end| states.layers_of(end));
            (Reverse(layers), Reverse(moves(sink)), *sink)
        });
        let count = demanding.len();
        if count <= 4 {
            return permutations(&demanding);
        }
        let mut orders = vec![demanding.clone()];
        let mut nearest = demanding.clone();
        nearest.sort_by_key(moves);
        orders.push(nearest);
        for first in 1..count.min(3) {
            let mut order = demanding.clone();
            order.rotate_left(first);
            orders.push(order);
        }
        orders
    }

    /// Attaches the sinks in this order; one without a path is left out.
    fn grow(&mut self, common: &Problem<'a>, scratch: &mut Problem<'a>, order: &[usize]) -> Routes {
        let mut routes: Routes = vec![None; self.goals.len()];
        for sink in order {
            routes[*sink] = if routes.iter().all(Option::is_none) {
                self.alone[*sink].clone()
            } else {
                let trie = Trie::of(common, &routes);
                self.attach(scratch, *sink, &trie)
            };
        }
        routes
    }

    /// Returns the best route to a sink from any place of the tree.
    fn attach(&mut self, scratch: &mut Problem<'a>, sink: usize, trie: &Trie) -> Option<Route> {
        self.attaches_left = self.attaches_left.saturating_sub(1);
        let goal = &self.goals[sink];
        scratch.retarget(goal.node?, goal.needs);
        scratch.close_only(trie.nodes());
        match exact::solve_from(scratch, trie.seeds(), self.labels_max) {
            Ok(route) => route,
            Err(exhausted) => {
                self.gave_up(exhausted);
                None
            }
        }
    }

    /// Removes and re-attaches each sink while that improves the tree.
    fn improve(
        &mut self,
        common: &Problem<'a>,
        scratch: &mut Problem<'a>,
        mut worth: Worth,
        mut routes: Routes,
    ) -> Routes {
        for _ in 0..ROUNDS_MAX {
            let before = worth;
            for sink in 0..routes.len() {
                if self.alone[sink].is_none() || self.attaches_left == 0 {
                    continue;
                }
                let mut changed = routes.clone();
                changed[sink] = None;
                if changed.iter().all(Option::is_none) {
                    continue;
                }
                let trie = Trie::of(common, &changed);
                let Some(route) = self.attach(scratch, sink, &trie) else {
                    continue;
                };
                changed[sink] = Some(route);
                if let Some(then) = self.worth_as_tree(common, &changed)
                    && then < worth
                {
                    (worth, routes) = (then, changed);
                }
            }
            if worth >= before {
                break;
            }
        }
        routes
    }

    /// Returns the cost of all sinks' missing quality; a sink that is left out lacks all.
    fn lacks(&self, common: Option<&Problem<'a>>, routes: &[Option<Route>]) -> Cost {
        let nothing = Cost::from_f64(self.snapshot.weights.quality);
        let mut sum = Cost::ZERO;
        for sink in 0..self.goals.len() {
            let route_to = routes.get(sink).and_then(Option::as_ref).zip(common);
            sum += route_to.map_or(nothing, |(route, common)| {
                trie::lacks(&common.states, route)
            });
        }
        sum
    }

    /// Returns the quality of these routes as a tree; `None` if they enter a node twice or exceed
    /// its slots.
    fn worth_as_tree(&self, common: &Problem<'a>, routes: &[Option<Route>]) -> Option<Worth> {
        let trie = Trie::of(common, routes);
        let left_out = routes.iter().filter(|route_to| route_to.is_none()).count();
        let cost = trie.run + trie.links + self.lacks(Some(common), routes);
        trie.is_tree(common).then_some((left_out, cost))
    }

    fn describe(&self, common: Option<&Problem<'a>>, routes: &[Option<Route>]) -> Tree {
        let trie = common.map(|common| Trie::of(common, routes));
        let [run, links] = trie.map_or([Cost::ZERO; 2], |trie| [trie.run, trie.links]);
        let quality = self.lacks(common, routes);
        let plan = |route: &Route| Plan::of_route(self.snapshot, route, true);
        let route_to = |sink: usize| routes.get(sink).and_then(Option::as_ref);
        let nothing = self.snapshot.weights.quality;
        let (mut dearest, mut apart, mut left_out) = (0.0_f64, 0.0, 0u32);
        let mut goals = Vec::new();
        for (sink, goal) in self.goals.iter().enumerate() {
            let alone = self.alone[sink]
                .as_ref()
                .filter(|_| route_to(sink).is_some());
            let Some((node, alone)) = goal.node.zip(alone) else {
                left_out += 1;
                apart += nothing;
                continue;
            };
            let cost = plan(alone).cost;
            dearest = if cost > dearest { cost } else { dearest };
            apart += cost;
            let states = States::new(self.snapshot, goal.needs.least_layers.max(1));
            goals.push((node, states));
        }
        let bound = common.and_then(|common| bound::least(common, &goals, self.labels_max));
        Tree {
            feasible: left_out == 0,
            cost: (run + links + quality).as_f64(),
            cost_parts: CostParts {
                adapters: run.as_f64(),
                links: links.as_f64(),
                quality: quality.as_f64(),
            },
            bound: bound.map_or(dearest, Cost::as_f64) + f64::from(left_out) * nothing,
            apart,
            paths: (0..self.goals.len())
                .map(|sink| route_to(sink).map(plan).unwrap_or_default())
                .collect(),
        }
    }

    /// Returns the sinks left out, and what each lacks.
    fn left_out(&mut self, common: Option<&Problem<'a>>, routes: &[Option<Route>]) -> Vec<LeftOut> {
        let mut left_out = Vec::new();
        for sink in 0..self.goals.len() {
            if routes.get(sink).is_some_and(Option::is_some) {
                continue;
            }
            let node = self.goals[sink].snapshot.stream.to[0].clone();
            let mut shortfalls = self.shortfalls[sink].clone();
            if shortfalls.is_empty() {
                shortfalls = if self.take_diagnosis() {
                    self.lacks_beside(common, routes, &self.goals[sink])
                } else {
                    vec![Shortfall::not_looked_into(node.clone())]
                };
            }
            left_out.push(LeftOut {
                sink: node,
                shortfalls,
            });
        }
        left_out
    }

    /// Returns what attaching a sink to this tree would break, if the sink could be reached alone.
    fn lacks_beside(
        &self,
        common: Option<&Problem<'a>>,
        routes: &[Option<Route>],
        goal: &Goal,
    ) -> Vec<Shortfall> {
        let mut shortfalls = Vec::new();
        if let Some((common, node)) = common.zip(goal.node) {
            let trie = Trie::of(common, routes);
            let plan = |route: &Route| Plan::of_route(self.snapshot, route, true);
            for (need, relaxation) in shortfall::each_alone() {
                let ends = [common.source, node];
                let mut problem = Problem::with_needs(self.snapshot, ends, relaxation, goal.needs);
                problem.close_only(trie.nodes());
                let found = exact::solve_from(&problem, trie.seeds(), self.labels_max);
                let Ok(Some(route)) = found else {
                    continue;
                };
                let mut paths: Vec<Plan> = routes.iter().flatten().map(plan).collect();
                paths.push(Plan::of_route(self.snapshot, &route, false));
                let mut lacks = check(&goal.snapshot, &paths[paths.len() - 1]);
                trie::check_sharing(self.snapshot, &paths, &mut lacks);
                if !lacks.is_empty() {
                    shortfalls.push(Shortfall { need, lacks });
                }
            }
        }
        if shortfalls.is_empty() {
            let sink = goal.snapshot.stream.to[0].clone();
            shortfalls.push(Shortfall {
                need: Need::Several,
                lacks: vec![Violation::NoTree { sink }],
            });
        }
        shortfalls
    }
}
