//! The streams' current routes, and how streams make way for each other.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::check::Violation;
use super::super::cost::Cost;
use super::super::problem::{Exhausted, Problem, Relaxation, Route};
use super::super::product::Plan;
use super::super::shortfall::{self, Need, Shortfall};
use super::super::states::{RATE_TOLERANCE, States};
use super::super::{ends_of, exact, permutations};
use super::loads::{Loads, Use};
use super::{Admission, Concession, Shared};
use crate::model::{LinkIndex, Snapshot};

/// Maximum rounds of improvement; each must improve the division.
const ROUNDS_MAX: usize = 8;

/// Up to this many streams are admitted in every possible order.
const ORDERS_OF_MAX: usize = 4;

/// Maximum number of blocking streams that are moved one at a time for one stream, the least
/// important first, or all at once. More seldom helps, and the work would grow with the square of
/// the streams.
const MOVED_MAX: usize = 16;

/// Maximum number of rate limits tried for a stream to leave room for others.
const RATE_LIMITS_MAX: usize = 6;

/// Maximum number of plans for improvement, on a small network.
const PLANS_MAX: usize = 20_000;

/// Limit on plans for improvement on a large network, as their number times nodes and links.
const WORK_MAX: usize = 20_000_000;

/// Each search that reaches its label limit halves the limit of later ones, down to this.
const LABELS_MIN: u32 = 10_000;

/// Quality of a division: by class of importance, streams refused and quality lost; then total
/// cost.
type Worth = (Vec<(u32, Cost)>, Cost);

/// A stream's route with its load and cost.
struct Placed {
    plan: Plan,
    uses: Vec<Use>,
    cost: Cost,
    lacks: Cost,
}

/// A stream's route; `None` without one.
type Allocation = Option<Rc<Placed>>;

/// The streams and their current routes.
pub(super) struct Division<'a> {
    snapshots: &'a [Snapshot],
    labels_max: u32,
    plans_left: usize,
    /// Stream indices, most important first.
    order: Vec<usize>,
    ends: Vec<Option<[usize; 2]>>,
    alone: Vec<Allocation>,
    allocations: Vec<Allocation>,
    loads: Loads,
    /// By stream: the search for it that reached its label limit.
    gave_up: Vec<Option<Exhausted>>,
}

impl<'a> Division<'a> {
    /// Plans each stream as if it were alone.
    pub(super) fn new(snapshots: &'a [Snapshot], labels_max: u32) -> Self {
        let mut order: Vec<usize> = (0..snapshots.len()).collect();
        order.sort_by_key(|at| Reverse(snapshots[*at].stream.importance));
        let ends = snapshots.iter().map(|snapshot| ends_of(snapshot).ok());
        let size = snapshots.first().map_or(1, |snapshot| {
            let topology = &snapshot.topology;
            topology.nodes().len() + topology.links().len()
        });
        let mut division = Self {
            snapshots,
            labels_max,
            plans_left: (WORK_MAX / size.max(1)).min(PLANS_MAX),
            order,
            ends: ends.collect(),
            alone: Vec::new(),
            allocations: vec![None; snapshots.len()],
            loads: Loads::default(),
            gave_up: vec![None; snapshots.len()],
        };
        division.alone = (0..snapshots.len()).map(|at| division.search(at)).collect();
        division
    }

    /// Admits by importance, lets streams make way, and returns the results.
    pub(super) fn divide(mut self) -> Shared {
        for at in self.order.clone() {
            self.admit(at);
        }
        let first = self.allocations.clone();
        let (_, by_importance) = self.worth();
        // A trial that reached its limit says nothing about the division that stays.
        let gave_up = self.gave_up.clone();
        self.try_orders();
        self.improve();
        self.gave_up = gave_up;
        let (_, cost) = self.worth();
        let admissions = (0..self.snapshots.len()).map(|at| self.admission(at, &first[at]));
        Shared {
            admissions: admissions.collect(),
            cost: cost.as_f64(),
            cost_by_importance: by_importance.as_f64(),
            concessions: self.concessions(&first),
            links: Vec::new(),
        }
    }

    /// Returns the best route on what the others leave; the stream itself must have none.
    fn search(&mut self, at: usize) -> Allocation {
        self.search_within(at, f64::INFINITY)
    }

    /// Returns the best route with at most `most_bps` on any link.
    fn search_within(&mut self, at: usize, most_bps: f64) -> Allocation {
        let mut problem = self.problem(at, self.ends[at]?);
        if most_bps.is_finite() {
            problem.limit(most_bps);
        }
        let problem = problem;
        match exact::solve(&problem, self.labels_max) {
            Ok(route) => Some(self.held(at, &route?)),
            Err(exhausted) => {
                self.gave_up[at] = Some(exhausted);
                self.labels_max = (self.labels_max / 2).max(LABELS_MIN.min(self.labels_max));
                None
            }
        }
    }

    fn held(&self, at: usize, route: &Route) -> Rc<Placed> {
        let plan = Plan::of_route(&self.snapshots[at], route, true);
        Rc::new(Placed {
            uses: Use::all_of(route, &plan),
            cost: Cost::from_f64(plan.cost),
            lacks: Cost::from_f64(plan.cost_parts.quality),
            plan,
        })
    }

    /// Returns the stream's problem on what the others leave.
    fn problem(&self, at: usize, ends: [usize; 2]) -> Problem<'a> {
        let mut problem = Problem::new(&self.snapshots[at], ends, Relaxation::default());
        self.loads.reserve(&mut problem);
        problem
    }

    /// Gives a stream the best route on what the others leave.
    fn admit(&mut self, at: usize) {
        self.remove(at);
        let topology = &self.snapshots[at].topology;
        let most_bps =
            |link: LinkIndex| topology.link(link).rate.as_bps() as f64 * (1.0 + RATE_TOLERANCE);
        // The best route on the whole network is also best on the remaining capacity, if it fits.
        let allocation = match &self.alone[at] {
            None => None,
            Some(alone) if self.loads.have_room(&alone.uses, most_bps) => Some(Rc::clone(alone)),
            Some(_) => {
                self.plans_left = self.plans_left.saturating_sub(1);
                self.search(at)
            }
        };
        if let Some(held) = &allocation {
            self.loads.put(&held.uses);
        }
        self.allocations[at] = allocation;
    }

    fn remove(&mut self, at: usize) {
        if let Some(held) = self.allocations[at].take() {
            self.loads.take(&held.uses);
        }
    }

    /// Returns the cost of a stream's missing quality; all of it without a route.
    fn lacks(&self, at: usize, allocation: &Allocation) -> Cost {
        let nothing = || Cost::from_f64(self.snapshots[at].weights.quality);
        allocation.as_ref().map_or_else(nothing, |held| held.lacks)
    }

    /// Returns a stream's cost; without a route, as if nothing were delivered.
    fn price(&self, at: usize, allocation: &Allocation) -> Cost {
        allocation
            .as_ref()
            .map_or_else(|| self.lacks(at, allocation), |held| held.cost)
    }

    fn worth(&self) -> Worth {
        let mut classes: Vec<(u8, u32, Cost)> = Vec::new();
        let mut cost = Cost::ZERO;
        for at in &self.order {
            let allocation = &self.allocations[*at];
            let lacks = self.lacks(*at, allocation);
            cost += self.price(*at, allocation);
            let importance = self.snapshots[*at].stream.importance;
            let refused = u32::from(allocation.is_none());
            match classes.last_mut().filter(|class| class.0 == importance) {
                Some(class) => (class.1, class.2) = (class.1 + refused, class.2 + lacks),
                None => classes.push((importance, refused, lacks)),
            }
        }
        let classes = classes
            .into_iter()
            .map(|(_, refused, lacks)| (refused, lacks));
        (classes.collect(), cost)
    }

    /// Admits a few streams in every possible order.
    fn try_orders(&mut self) {
        if self.order.len() > ORDERS_OF_MAX {
            return;
        }
        let mut best = (self.worth(), self.allocations.clone(), self.loads.clone());
        for order in permutations(&self.order) {
            (0..order.len()).for_each(|at| self.remove(at));
            for at in order {
                self.admit(at);
            }
            let worth = self.worth();
            if worth < best.0 {
                best = (worth, self.allocations.clone(), self.loads.clone());
            }
        }
        (self.allocations, self.loads) = (best.1, best.2);
    }

    /// Lets blocking streams make way for blocked ones while that is better.
    fn improve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = self.worth();
            for at in self.order.clone() {
                let dearer =
                    self.price(at, &self.allocations[at]) > self.price(at, &self.alone[at]);
                if self.alone[at].is_some() && dearer {
                    self.yield_to(at);
                }
            }
            if self.worth() >= before || self.plans_left == 0 {
                return;
            }
        }
    }

    /// Gives a stream the best route with at most `most_bps` on any link, which leaves room for
    /// others.
    fn admit_within(&mut self, at: usize, most_bps: f64) {
        self.remove(at);
        self.plans_left = self.plans_left.saturating_sub(1);
        let allocation = self.search_within(at, most_bps);
        if let Some(held) = &allocation {
            self.loads.put(&held.uses);
        }
        self.allocations[at] = allocation;
    }

    /// Returns a few of the rates that a stream can have with enough layers.
    fn rate_limits(&self, at: usize) -> Vec<f64> {
        let snapshot = &self.snapshots[at];
        let states = States::new(snapshot, snapshot.stream.least_layers());
        let worth = (0..states.count() as u16)
            .filter(|state| states.layers_of(*state) >= states.least_layers());
        let mut rates: Vec<f64> = worth.map(|state| states.rate_bps(state)).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.dedup();
        // The highest is the unlimited rate.
        rates.pop();
        let step = rates.len().div_ceil(RATE_LIMITS_MAX).max(1);
        let few = rates.iter().step_by(step);
        few.map(|bps| bps * (1.0 + RATE_TOLERANCE)).collect()
    }

    /// Tries to move each blocking stream, and all of them together. In further trials the blocked
    /// stream is rate-limited first, so that all find room, and then takes what is left.
    fn yield_to(&mut self, at: usize) {
        let blocking = self.blocking(at);
        // Sorted by importance: the least important are at the end.
        let few = blocking.len().saturating_sub(MOVED_MAX);
        let mut sets: Vec<Vec<usize>> = blocking[few..].iter().map(|other| vec![*other]).collect();
        if (2..=MOVED_MAX).contains(&blocking.len()) {
            sets.push(blocking);
        }
        let limits = self.rate_limits(at);
        let mut trials: Vec<(Vec<usize>, Option<f64>)> = Vec::new();
        for away in sets {
            trials.extend(limits.iter().map(|bps| (away.clone(), Some(*bps))));
            trials.push((away, None));
        }
        let held = (self.allocations.clone(), self.loads.clone());
        let mut best = (self.worth(), None);
        for away in trials {
            if self.plans_left == 0 {
                break;
            }
            let (away, limit_bps) = away;
            for other in &away {
                self.remove(*other);
            }
            match limit_bps {
                None => self.admit(at),
                Some(bps) => self.admit_within(at, bps),
            }
            for other in away {
                self.admit(other);
            }
            // The others have their routes: now take what is left.
            if limit_bps.is_some() {
                self.admit(at);
            }
            let worth = self.worth();
            if worth < best.0 {
                best = (worth, Some((self.allocations.clone(), self.loads.clone())));
            }
            // Undo the trial.
            (self.allocations, self.loads) = held.clone();
        }
        if let Some((allocations, loads)) = best.1 {
            (self.allocations, self.loads) = (allocations, loads);
        }
    }

    /// Returns the streams that pay more than at first, and for which: those that pay less now and
    /// use a link that the former had at first.
    fn concessions(&self, first: &[Allocation]) -> Vec<Concession> {
        let costs = |at: usize| {
            [first, &self.allocations].map(|allocations| self.price(at, &allocations[at]).as_f64())
        };
        let changed = |at: &usize, up: bool| {
            let [before, after] = costs(*at);
            let by = if up { after - before } else { before - after };
            by > 1e-9
        };
        let all = 0..first.len();
        let served: Vec<usize> = all.clone().filter(|at| changed(at, false)).collect();
        let mut concessions = Vec::new();
        for by in all.filter(|at| changed(at, true)) {
            let takes = |to: &&usize| {
                let (had, has) = (first[by].as_ref(), self.allocations[**to].as_ref());
                had.zip(has)
                    .is_some_and(|(had, has)| Loads::meet(&has.uses, &had.uses))
            };
            // In a chain of concessions the last stream shares no link with one that gained.
            let mut for_whom: Vec<usize> = served.iter().filter(takes).copied().collect();
            if for_whom.is_empty() {
                for_whom.clone_from(&served);
            }
            concessions.extend(for_whom.into_iter().map(|to| Concession {
                by,
                to,
                by_cost: costs(by),
                to_cost: costs(to),
            }));
        }
        concessions
    }

    /// Returns the streams on links that this stream would use alone, most important first.
    fn blocking(&self, at: usize) -> Vec<usize> {
        let Some(alone) = &self.alone[at] else {
            return Vec::new();
        };
        let blocks = |other: &usize| {
            let allocation = self.allocations[*other].as_ref();
            *other != at && allocation.is_some_and(|held| Loads::meet(&held.uses, &alone.uses))
        };
        self.order.iter().copied().filter(blocks).collect()
    }

    fn admission(&self, at: usize, first: &Allocation) -> Admission {
        let plan = |allocation: &Allocation| allocation.as_ref().map(|held| held.plan.clone());
        let allocation = &self.allocations[at];
        let shortfalls = match (allocation, self.ends[at], self.gave_up[at]) {
            (Some(_), ..) => Vec::new(),
            (None, None, _) => ends_of(&self.snapshots[at])
                .err()
                .map(Shortfall::of_input)
                .into_iter()
                .collect(),
            (None, Some(_), Some(exhausted)) => vec![exhausted.into()],
            (None, Some(ends), None) => match &self.alone[at] {
                None => shortfall::least_bad(&self.snapshots[at], ends, self.labels_max).1,
                Some(alone) => vec![self.lacking_beside(at, ends, alone)],
            },
        };
        Admission {
            plan: plan(allocation).unwrap_or_default(),
            alone: plan(&self.alone[at]).unwrap_or_default(),
            by_importance: plan(first).unwrap_or_default(),
            shortfalls,
        }
    }

    /// Returns the links of the stream's route alone on which the others left too little.
    fn lacking_beside(&self, at: usize, ends: [usize; 2], alone: &Placed) -> Shortfall {
        let problem = self.problem(at, ends);
        let topology = &self.snapshots[at].topology;
        let lacking = alone.plan.links.iter().filter_map(|link| {
            let from = topology.find(&link.from)?;
            let mut arcs = problem.arcs_from(from.0).iter();
            let arc = arcs.find(|arc| arc.link == link.link.0)?;
            let has_bps = (arc.most_bps - arc.rate_bps * RATE_TOLERANCE).max(0.0);
            (link.rate_bps > has_bps).then(|| Violation::SlowLink {
                from: link.from.clone(),
                to: link.to.clone(),
                needs_bps: link.rate_bps,
                has_bps,
            })
        });
        Shortfall {
            need: Need::Rate,
            lacks: lacking.collect(),
        }
    }
}
