//! Plans one stream repeatedly on a network with few changes in between.
//!
//! *The idea.* Most of the planning time goes into bounds: on reaching a place, and on the rest
//! from there. After a change most of them still hold. A cost that rises leaves every lower bound
//! valid; one that falls can lower bounds only from where it fell, so they are lowered from there
//! (`reach`, `potential`). Then, in this order:
//!
//! 1. The change is for the worse and off the plan: the plan stays, nothing is computed.
//! 2. Every path over an improved link costs more than the plan: the plan stays.
//! 3. Otherwise the exact search runs (`exact`), with the existing bounds.
//!
//! The answer equals that of [`plan`](super::plan) in every case, since the search finds the same
//! best plan with any valid bounds.
//!
//! *What it does not do.* It plans from scratch when the stream, the set of nodes or the set of
//! links changes, or a node becomes reachable. It keeps some hundred bytes per node and state.
//!
//! *Sources.* docs/concepts/planner.md §11; Koenig, Likhachev, Furcy 2004 (lifelong planning A*).

mod change;

use alloc::vec::Vec;
use core::cell::Cell;

use self::change::Change;
use super::dual::{Guides, SavedBounds};
use super::effort::{Effort, STEPS_BETWEEN, never};
use super::exact;
use super::problem::{Exhausted, Problem, Relaxation, Tables};
use super::product::Plan;
use super::reach::Reach;
use super::shortfall::{self, Shortfall};
use super::watch::Watch;
use super::{cost::Cost, ends_of};
use crate::model::{LinkIndex, Snapshot};
use crate::model::{Planner, Policy};

/// Plans a stream after each change of its network, faster than from scratch.
#[derive(Clone, Debug)]
pub struct Replanner {
    policy: Policy,
    kept: Option<Kept>,
    way: FoundBy,
}

/// How a plan was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoundBy {
    /// By planning again: no earlier result was usable.
    FromScratch,
    /// The former plan stays best: no change could matter.
    Kept,
    /// The former plan stays best: every path over an improved link is dearer.
    Bounded,
    /// By a search with existing bounds.
    Searched,
}

/// The results for the last snapshot.
#[derive(Clone, Debug)]
struct Kept {
    snapshot: Snapshot,
    tables: Tables,
    reach: Reach,
    bounds: SavedBounds,
    watch: Watch,
    plan: Plan,
    /// How often a search may poll `stop`: where the bounds have become loose, it ends after about
    /// twice the labels and settled places of planning from scratch.
    patience: u32,
}

impl Replanner {
    /// Returns a replanner without earlier results.
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            kept: None,
            way: FoundBy::FromScratch,
        }
    }

    /// Returns how the last plan was found.
    pub const fn way(&self) -> FoundBy {
        self.way
    }

    /// Plans as [`plan`](super::plan) would, reusing the results for the last snapshot.
    ///
    /// Where `plan` reaches its label limit, this may find the plan.
    ///
    /// Cost    O(nodes + links) to compare the snapshots, and what the change takes
    pub fn plan(&mut self, snapshot: &Snapshot) -> (Plan, Vec<Shortfall>) {
        if self.policy.planner != Planner::Exact {
            return super::plan(snapshot, &self.policy);
        }
        if let Some(kept) = self.kept.take()
            && let Some(change) = Change::between(&kept.snapshot, snapshot)
            && let Some((kept, way)) = kept.follow(snapshot, &change, self.policy.labels_max)
        {
            self.way = way;
            let plan = kept.plan.clone();
            self.kept = Some(kept);
            return (plan, Vec::new());
        }
        self.way = FoundBy::FromScratch;
        let (plan, shortfalls) = self.plan_from_scratch(snapshot);
        if self.policy.strict && !plan.feasible {
            return (Plan::default(), shortfalls);
        }
        (plan, shortfalls)
    }

    fn plan_from_scratch(&mut self, snapshot: &Snapshot) -> (Plan, Vec<Shortfall>) {
        let labels_max = self.policy.labels_max;
        let ends = match ends_of(snapshot) {
            Ok(ends) => ends,
            Err(violation) => return (Plan::default(), [Shortfall::of_input(violation)].into()),
        };
        let problem = Problem::new(snapshot, ends, Relaxation::default());
        let reach = Reach::of(&problem, problem.source);
        let Some(mut guides) = Guides::new(&problem, &reach, &never) else {
            return shortfall::least_bad(snapshot, ends, labels_max);
        };
        let mut watch = Watch::nothing(&problem);
        match exact::tighten(&problem, &mut guides, &mut watch, Effort::of(labels_max)) {
            Ok(Some(walk)) => {
                let plan = Plan::through(snapshot, &problem.states, &walk.route, true);
                let effort = walk
                    .labels
                    .saturating_mul(4)
                    .saturating_add(guides.settled());
                let bounds = guides.into_kept();
                self.kept = Some(Kept {
                    snapshot: snapshot.clone(),
                    tables: problem.into_tables(),
                    reach,
                    bounds,
                    watch,
                    plan: plan.clone(),
                    patience: 8 + 2 * (effort / STEPS_BETWEEN),
                });
                (plan, Vec::new())
            }
            Ok(None) => shortfall::least_bad(snapshot, ends, labels_max),
            Err(cut) => (Plan::default(), [Exhausted::from(cut).into()].into()),
        }
    }
}

impl Kept {
    /// Follows a change; `None` if planning from scratch is needed.
    fn follow(
        mut self,
        now: &Snapshot,
        change: &Change,
        labels_max: u32,
    ) -> Option<(Self, FoundBy)> {
        if change.is_nothing() {
            return Some((self, FoundBy::Kept));
        }
        // Compared before the snapshot is overwritten.
        let is_kept = change.stays_best(&self.snapshot, now, &self.plan);
        change.apply(&mut self.snapshot, now);
        let mut problem = if change.nodes.is_empty() {
            Problem::resume(&self.snapshot, self.tables)
        } else {
            let ends = [self.tables.source, self.tables.sink];
            Problem::new(&self.snapshot, ends, Relaxation::default())
        };
        if change.nodes.is_empty() && !change.links.iter().all(|link| problem.set_link(*link)) {
            return None;
        }
        if is_kept {
            self.tables = problem.into_tables();
            return Some((self, FoundBy::Kept));
        }
        let touched = change.touched(&self.snapshot, &problem);
        let before = self.reach.lower(&problem, &touched)?;
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > self.patience
        };
        let (reach, bounds) = (&self.reach, self.bounds);
        let mut guides = Guides::resume(&problem, reach, bounds, &before, &touched, &stop)?;
        let mut way = FoundBy::Bounded;
        // The plan itself is affected, or an improved link may beat it.
        if change.is_on(&self.plan) || !is_dearer(&problem, &mut guides, change, &self.plan) {
            let effort = Effort {
                stop: &stop,
                ..Effort::of(labels_max)
            };
            let walk = exact::tighten(&problem, &mut guides, &mut self.watch, effort).ok()?;
            self.plan = Plan::through(&self.snapshot, &problem.states, &walk?.route, true);
            way = FoundBy::Searched;
        }
        self.bounds = guides.into_kept();
        self.tables = problem.into_tables();
        Some((self, way))
    }
}

/// Returns whether every path over a changed link costs more than a plan that uses none of them.
fn is_dearer(
    problem: &Problem<'_>,
    guides: &mut Guides<'_, '_>,
    change: &Change,
    plan: &Plan,
) -> bool {
    if !change.nodes.is_empty() {
        return false;
    }
    let cost = Cost::from_f64(plan.cost + COST_ERROR);
    guides.raise_to(cost);
    let topology = problem.topology();
    let is_dearer = |link: &LinkIndex| {
        topology.link(*link).ends.iter().all(|end| {
            let mut arcs = problem.arcs_from(end.0).iter();
            arcs.find(|arc| arc.link == link.0)
                .is_none_or(|arc| cost < guides.through(end.0, arc))
        })
    };
    change.links.iter().all(is_dearer)
}

/// Rounding of a plan's cost against the sum of its quanta, and the tolerance for equality.
const COST_ERROR: f64 = 1e-9;
