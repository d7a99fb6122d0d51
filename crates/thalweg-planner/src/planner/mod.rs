//! Plans the path and the adapters of a stream from its needs and the capabilities of links and
//! nodes.
//!
//! *The idea.* A pure function: [`plan`] takes a [`Snapshot`] and a [`Policy`], and returns the
//! cheapest [`Plan`] (path and adapters together). Where no plan satisfies all needs, it also
//! returns [`Shortfall`]s: each names a change that would suffice. It does not fail.
//!
//! | module | what it does |
//! |---|---|
//! | `states` | layers × transforms of one stream, and the steps that adapters make between them |
//! | `problem` | the snapshot as dense arrays: links by node, what a node may see, the cost of a hop |
//! | `reach`, `potential`, `dual` | lower bounds on the cost of the rest of a path, computed on demand |
//! | `search` | best-first search over Pareto labels, on walks |
//! | `watch` | the constraints that a search enforces beyond cost, rates, slots and trust |
//! | `exact` | tightens the walks to simple paths, and the deadline, until the best one is a plan |
//! | `chain` | the other planners: heuristic, exhaustive and incremental, one path at a time |
//! | `many` | many streams on one network, by importance |
//! | `tree` | one stream to several sinks, one copy on each link |
//! | `shortfall` | lifts one constraint after another and reports the least breach of each |
//! | `replan` | plans again after a change, reusing the bounds that still hold |
//! | `until` | the exact planner with a time limit, and the bound that is proven by then |
//! | `effort` | limits of a search |
//! | `change` | the steps from one plan to the next, and whether they pay |
//! | `check` | verifies a plan against its snapshot, independently of the search |
//! | [`report`], `explain` | the plan as JSON and in words |
//!
//! *What it does not do.* It reads no clock; callers measure the planning time themselves.
//!
//! *Sources.* docs/concepts/planner.md.

mod chain;
mod change;
mod check;
mod cost;
mod dual;
mod effort;
mod exact;
mod explain;
mod many;
mod potential;
mod problem;
mod product;
mod reach;
mod replan;
pub mod report;
mod search;
mod shortfall;
mod states;
mod tree;
mod until;
mod watch;

#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::limits::LAYERS_MAX;

use crate::model::{NodeName, Snapshot};

pub use crate::model::{Planner, PlannerUnavailable, Policy};
pub use change::{Step, Switching, Verdict, diff, reconsider, stays_best};
pub use check::{Violation, check};
pub use explain::explain;
pub use many::{Admission, Concession, Shared, SharedLink, check_all, plan_all};
pub use product::{CostParts, LinkUse, Placement, Plan};
pub use replan::{FoundBy, Replanner};
pub use shortfall::{Need, Shortfall};
pub use tree::{Branch, LeftOut, Sink, Tree, check_tree, plan_tree};
pub use until::{Bounded, plan_until};

use problem::{Problem, Relaxation};

/// Plans one stream to its one sink.
///
/// The plan is feasible exactly if there are no shortfalls. Otherwise it is the plan with the least
/// breach that shows no plaintext where it is forbidden, or an empty plan; each shortfall is one
/// way out. Under a strict policy an infeasible plan is always empty.
///
/// Cost    docs/concepts/planner.md §5
/// Source  docs/concepts/planner.md §1 to §4
pub fn plan(snapshot: &Snapshot, policy: &Policy) -> (Plan, Vec<Shortfall>) {
    let (plan, shortfalls) = plan_or_least_bad(snapshot, *policy);
    if policy.strict && !plan.feasible {
        return (Plan::default(), shortfalls);
    }
    (plan, shortfalls)
}

/// Plans; if no plan is feasible, returns the one with the least breach.
fn plan_or_least_bad(snapshot: &Snapshot, policy: Policy) -> (Plan, Vec<Shortfall>) {
    let ends = match ends_of(snapshot) {
        Ok(ends) => ends,
        Err(violation) => return (Plan::default(), vec![Shortfall::of_input(violation)]),
    };
    let problem = Problem::new(snapshot, ends, Relaxation::default());
    if policy.planner != Planner::Exact {
        return plan_on_paths(snapshot, &problem, policy);
    }
    match exact::solve(&problem, policy.labels_max) {
        Ok(Some(route)) => {
            let plan = Plan::through(snapshot, &problem.states, &route, true);
            (plan, Vec::new())
        }
        Ok(None) => shortfall::least_bad(snapshot, ends, policy.labels_max),
        Err(exhausted) => (Plan::default(), vec![exhausted.into()]),
    }
}

/// Plans with one of the planners that work on given paths; the shortfall lists what their best
/// plan breaks.
fn plan_on_paths(
    snapshot: &Snapshot,
    problem: &Problem<'_>,
    policy: Policy,
) -> (Plan, Vec<Shortfall>) {
    match chain::plan(problem, policy.planner, policy.labels_max) {
        Ok(Some(best)) => {
            let plan = Plan::through(snapshot, &problem.states, &best.route, best.feasible);
            if best.feasible {
                return (plan, Vec::new());
            }
            let lacks = check(snapshot, &plan);
            let shortfalls = vec![Shortfall::of_broken(lacks)];
            let plan = if shortfalls[0].shows_plaintext() {
                Plan::default()
            } else {
                plan
            };
            (plan, shortfalls)
        }
        Ok(None) => (Plan::default(), vec![Shortfall::no_path(snapshot)]),
        Err(exhausted) => (Plan::default(), vec![exhausted.into()]),
    }
}

/// Looks up source and sink, and rejects a stream that the path planners cannot plan.
fn ends_of(snapshot: &Snapshot) -> Result<[usize; 2], Violation> {
    let stream = &snapshot.stream;
    let layers = stream.layers.len();
    if layers == 0 || layers > LAYERS_MAX || usize::from(stream.least_layers()) > layers {
        return Err(Violation::Layers {
            has: layers as u32,
            needs: u32::from(stream.least_layers()),
        });
    }
    if let Some(what) = snapshot.catalogue.fault(layers) {
        return Err(Violation::BadAdapters { what });
    }
    let [sink] = &stream.to[..] else {
        return Err(Violation::Sinks {
            count: stream.to.len() as u32,
        });
    };
    let find = |name: &NodeName| {
        let index = snapshot.topology.find(name).map(|index| index.0 as usize);
        index.ok_or_else(|| Violation::UnknownNode { node: name.clone() })
    };
    Ok([find(&stream.from)?, find(sink)?])
}

/// Returns all permutations of a few elements.
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
