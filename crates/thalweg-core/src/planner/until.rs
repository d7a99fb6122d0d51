//! The exact planner for as long as its caller lets it, with what is proven by then.
//!
//! *The idea.* The planners of paths are quick and find some plan; it is there from the start, and nothing dearer is
//! looked for. The exact search is best-first, so wherever it has to stop, what it would look at next is a lower bound:
//! plan and bound together say how far the plan may be from the best.
//!
//! *What it does not do.* It reads no clock: the caller's function says when to stop. It is asked every few hundred labels
//! or settled places, and not while the tables are made and the few paths are tried, which takes O(links · log nodes).
//!
//! *Sources.* docs/planner.md §4, §7.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use super::chain;
use super::cost::Cost;
use super::effort::{Cut, Effort, Stop};
use super::policy::{Planner, Policy};
use super::problem::{Exhausted, Problem, Relaxation, Route};
use super::product::Plan;
use super::shortfall::{self, Shortfall};
use super::{ends_of, exact};
use crate::model::Snapshot;

/// A plan, and how good it is known to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    /// The best plan so far; empty if none was found yet, or there is none.
    pub plan: Plan,
    /// As [`plan`](super::plan) has them; the only one is [`Need::Effort`](super::Need::Effort) if there was no time to
    /// find a plan.
    pub shortfalls: Vec<Shortfall>,
    /// No plan costs less; `None` if it is proven that there is none.
    pub bound: Option<f64>,
    /// Whether the plan is best, or it is certain that there is none.
    pub proven: bool,
}

impl Bounded {
    /// Returns by which share of the best plan's cost this one may be dearer, at most; `None` if there is no plan, or
    /// nothing is known.
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

/// Plans as [`plan`](super::plan) with the exact planner does, until it is told to stop.
///
/// Cost    O(links · log nodes) at least, and what `stop` allows
/// Source  docs/planner.md §4
pub fn plan_until(snapshot: &Snapshot, policy: &Policy, stop: &mut dyn FnMut() -> bool) -> Bounded {
    let ends = match ends_of(snapshot) {
        Ok(ends) => ends,
        Err(violation) => return none(Plan::default(), vec![Shortfall::of_input(violation)]),
    };
    let (asked, is_over) = (RefCell::new(stop), Cell::new(false));
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

/// Returns the best plan that the planners of paths find, the quickest of them first.
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

/// Returns a plan's cost, a little above so that the same plan is not taken for a dearer one.
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

/// Returns what is known where the search had to stop.
fn so_far(snapshot: &Snapshot, first: Option<Plan>, cut: Cut) -> Bounded {
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
