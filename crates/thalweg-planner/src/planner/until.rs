//! The exact planner with a time limit, and the bound that is proven by then.
//!
//! *The idea.* The path planners are fast and find some plan; it is available from the start, and
//! dearer ones are not searched. The exact search is best-first, so wherever it stops, the next
//! label's bound is a lower bound on the best plan. Plan and bound together say how far the plan
//! may be from the best.
//!
//! *What it does not do.* It reads no clock: the caller's function says when to stop. It is polled
//! every few hundred labels or settled places, but not while the tables are built and the few paths
//! are tried, which takes O(links · log nodes).
//!
//! *Sources.* docs/concepts/planner.md §4, §7.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::chain;
use super::cost::Cost;
use super::effort::{EarlyEnd, Effort, Stop};
use super::problem::{Exhausted, Problem, Relaxation, Route};
use super::product::Plan;
use super::shortfall::{self, Shortfall};
use super::{ends_of, exact};
use crate::model::Snapshot;
use crate::model::{Planner, Policy};

/// A plan and its proven quality.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    /// The best plan so far; empty if none was found yet, or none exists.
    pub plan: Plan,
    /// As from [`plan`](super::plan); only [`Need::Effort`](super::Need::Effort) if the time did
    /// not suffice to find a plan.
    pub shortfalls: Vec<Shortfall>,
    /// Lower bound on the cost of any plan; `None` if it is proven that there is none.
    pub bound: Option<f64>,
    /// Whether the plan is optimal, or it is proven that there is none.
    pub proven: bool,
}

impl Bounded {
    /// Returns the largest relative excess of this plan's cost over the best one's; `None` without
    /// a plan or a bound.
    pub fn gap(&self) -> Option<f64> {
        let bound = self.bound.filter(|bound| *bound > 0.0 || self.proven)?;
        if !self.plan.feasible {
            return None;
        }
        Some(if self.proven {
            0.0
        } else {
            self.plan.cost / bound - 1.0
        })
    }
}

/// Plans as [`plan`](super::plan) with the exact planner, until `stop` returns true.
///
/// Cost    O(links · log nodes) at least, and what `stop` allows
/// Source  docs/concepts/planner.md §4
pub fn plan_until(snapshot: &Snapshot, policy: &Policy, stop: &mut dyn FnMut() -> bool) -> Bounded {
    let ends = match ends_of(snapshot) {
        Ok(ends) => ends,
        Err(violation) => return none(Plan::default(), vec![Shortfall::of_input(violation)]),
    };
    let (asked, is_over) = (RefCell::new(stop), Cell::new(false));
    // Once the caller has stopped the search, it is not polled again.
    let stop = || {
        if !is_over.get() {
            is_over.set(asked.borrow_mut()());
        }
        is_over.get()
    };
    let problem = Problem::new(snapshot, ends, Relaxation::default());
    let first = first_plan(snapshot, &problem, policy.labels_max, &stop);
    let effort = Effort {
        labels_max: policy.labels_max,
        stop: &stop,
        known: first.as_ref().map_or(Cost::MAX, known_cost),
    };
    match exact::solve_within(&problem, effort) {
        Ok(Some(route)) => best(Plan::through(snapshot, &problem.states, &route, true)),
        Ok(None) => {
            if let Some(plan) = first {
                return best(plan);
            }
            let (plan, shortfalls) = shortfall::least_bad_within(snapshot, ends, effort);
            none(
                if policy.strict { Plan::default() } else { plan },
                shortfalls,
            )
        }
        Err(cut) => so_far(snapshot, first, cut),
    }
}

/// Returns the best plan of the path planners, trying the fastest one first.
fn first_plan(
    snapshot: &Snapshot,
    problem: &Problem<'_>,
    labels_max: u32,
    stop: Stop<'_>,
) -> Option<Plan> {
    let mut best: Option<Plan> = None;
    for planner in [Planner::Incremental, Planner::Heuristic] {
        if stop() {
            break;
        }
        let found = chain::plan(problem, planner, labels_max).ok().flatten();
        if let Some(found) = found.filter(|found| found.feasible) {
            keep_cheaper(&mut best, snapshot, &found.route);
        }
    }
    best
}

fn keep_cheaper(best: &mut Option<Plan>, snapshot: &Snapshot, route: &Route) {
    let plan = Plan::of_route(snapshot, route, true);
    if best.as_ref().is_none_or(|held| plan.cost < held.cost) {
        *best = Some(plan);
    }
}

/// Returns a plan's cost, slightly increased so that the same plan does not count as dearer.
fn known_cost(plan: &Plan) -> Cost {
    Cost::from_f64(plan.cost + 1e-9)
}

fn best(plan: Plan) -> Bounded {
    Bounded {
        bound: Some(plan.cost),
        plan,
        shortfalls: Vec::new(),
        proven: true,
    }
}

fn none(plan: Plan, shortfalls: Vec<Shortfall>) -> Bounded {
    Bounded {
        plan,
        shortfalls,
        bound: None,
        proven: true,
    }
}

/// Returns the result of a search that had to stop.
fn so_far(snapshot: &Snapshot, first: Option<Plan>, cut: EarlyEnd) -> Bounded {
    let mut held = first;
    if let Some((_, route)) = &cut.best {
        keep_cheaper(&mut held, snapshot, route);
    }
    let bound = cut.bound.as_f64();
    match held {
        Some(plan) if bound >= plan.cost => best(plan),
        Some(plan) => Bounded {
            plan,
            shortfalls: Vec::new(),
            bound: Some(bound),
            proven: false,
        },
        None => Bounded {
            plan: Plan::default(),
            shortfalls: vec![Exhausted::from(cut).into()],
            bound: Some(bound),
            proven: false,
        },
    }
}
