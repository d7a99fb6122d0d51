//! Streams and the routes they have so far, and how they make way for each other.

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

/// How often the streams that got less are looked at; each time something must have become better.
const ROUNDS_MAX: usize = 8;

/// So few streams are admitted in every order that there is.
const ORDERS_OF_MAX: usize = 4;

/// How many streams in the way are moved one at a time for the sake of one, those that matter least first, and how many
/// at once: beyond this a change seldom helps, and the work would grow with the square of the streams.
const AWAY_MAX: usize = 16;

/// How many rates a stream tries that is modest so that others find room.
const MODEST_MAX: usize = 6;

/// How many plans improvement may make, on a small network.
const PLANS_MAX: usize = 20_000;

/// On a large one: as many as have this many nodes and links in sum.
const WORK_MAX: usize = 20_000_000;

/// A search that comes after one that gave up may keep half as many labels, but not fewer than these.
const LABELS_MIN: u32 = 10_000;

/// How good a division is: by class of importance, streams refused and quality lost; then cost in all.
type Worth = (Vec<(u32, Cost)>, Cost);

/// A way that a stream takes.
struct Held {
    plan: Plan,
    uses: Vec<Use>,
    cost: Cost,
    lacks: Cost,
}

/// What a stream has: a way, or none.
type Lot = Option<Rc<Held>>;

/// Streams and the ways they have so far.
pub(super) struct Division<'a> {
    snapshots: &'a [Snapshot],
    labels_max: u32,
    plans_left: usize,
    /// Most important first.
    order: Vec<usize>,
    ends: Vec<Option<[usize; 2]>>,
    alone: Vec<Lot>,
    lots: Vec<Lot>,
    loads: Loads,
    /// By stream: whether a search for it gave up.
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
            lots: vec![None; snapshots.len()],
            loads: Loads::default(),
            gave_up: vec![None; snapshots.len()],
        };
        division.alone = (0..snapshots.len()).map(|at| division.search(at)).collect();
        division
    }

    /// Admits by importance, lets streams make way, and tells what became of each.
    pub(super) fn divide(mut self) -> Shared {
        for at in self.order.clone() {
            self.admit(at);
        }
        let first = self.lots.clone();
        let (_, by_importance) = self.worth();
        // A trial that gave up says nothing of the division that stays.
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

    /// Returns the best way on what the others leave; the stream itself must have none.
    fn search(&mut self, at: usize) -> Lot {
        self.search_within(at, f64::INFINITY)
    }

    /// Returns the best way that sends no more than this on any link.
    fn search_within(&mut self, at: usize, most_bps: f64) -> Lot {
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

    fn held(&self, at: usize, route: &Route) -> Rc<Held> {
        let plan = Plan::of_route(&self.snapshots[at], route, true);
        Rc::new(Held {
            uses: Use::all_of(route, &plan),
            cost: Cost::from_f64(plan.cost),
            lacks: Cost::from_f64(plan.cost_parts.quality),
            plan,
        })
    }

    /// Returns the stream's problem on what is left.
    fn problem(&self, at: usize, ends: [usize; 2]) -> Problem<'a> {
        let mut problem = Problem::new(&self.snapshots[at], ends, Relaxation::default());
        self.loads.burden(&mut problem);
        problem
    }

    /// Gives a stream the best way on what the others leave.
    fn admit(&mut self, at: usize) {
        self.remove(at);
        let topology = &self.snapshots[at].topology;
        let most_bps =
            |link: LinkIndex| topology.link(link).rate.as_bps() as f64 * (1.0 + RATE_TOLERANCE);
        // What is best on all of a network is best on a part of it that has it.
        let lot = match &self.alone[at] {
            None => None,
            Some(alone) if self.loads.have_room(&alone.uses, most_bps) => Some(Rc::clone(alone)),
            Some(_) => {
                self.plans_left = self.plans_left.saturating_sub(1);
                self.search(at)
            }
        };
        if let Some(held) = &lot {
            self.loads.put(&held.uses);
        }
        self.lots[at] = lot;
    }

    fn remove(&mut self, at: usize) {
        if let Some(held) = self.lots[at].take() {
            self.loads.take(&held.uses);
        }
    }

    /// Returns what a stream with this lot lacks in quality; all of it if it has no way.
    fn lacks(&self, at: usize, lot: &Lot) -> Cost {
        let nothing = || Cost::from_f64(self.snapshots[at].weights.quality);
        lot.as_ref().map_or_else(nothing, |held| held.lacks)
    }

    /// Returns what a stream with this lot costs; without a way, as much as if nothing were delivered.
    fn price(&self, at: usize, lot: &Lot) -> Cost {
        lot.as_ref()
            .map_or_else(|| self.lacks(at, lot), |held| held.cost)
    }

    fn worth(&self) -> Worth {
        let mut classes: Vec<(u8, u32, Cost)> = Vec::new();
        let mut cost = Cost::ZERO;
        for at in &self.order {
            let lot = &self.lots[*at];
            let lacks = self.lacks(*at, lot);
            cost += self.price(*at, lot);
            let importance = self.snapshots[*at].stream.importance;
            let refused = u32::from(lot.is_none());
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

    /// Admits a few streams in every order.
    fn try_orders(&mut self) {
        if self.order.len() > ORDERS_OF_MAX {
            return;
        }
        let mut best = (self.worth(), self.lots.clone(), self.loads.clone());
        for order in permutations(&self.order) {
            (0..order.len()).for_each(|at| self.remove(at));
            for at in order {
                self.admit(at);
            }
            let worth = self.worth();
            if worth < best.0 {
                best = (worth, self.lots.clone(), self.loads.clone());
            }
        }
        (self.lots, self.loads) = (best.1, best.2);
    }

    /// Lets what blocks make way for what is blocked, while that is better.
    fn improve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = self.worth();
            for at in self.order.clone() {
                let dearer = self.price(at, &self.lots[at]) > self.price(at, &self.alone[at]);
                if self.alone[at].is_some() && dearer {
                    self.make_way(at);
                }
            }
            if self.worth() >= before || self.plans_left == 0 {
                return;
            }
        }
    }

    /// Gives a stream the best way that sends no more than this on any link, so that others find room.
    fn admit_within(&mut self, at: usize, most_bps: f64) {
        self.remove(at);
        self.plans_left = self.plans_left.saturating_sub(1);
        let lot = self.search_within(at, most_bps);
        if let Some(held) = &lot {
            self.loads.put(&held.uses);
        }
        self.lots[at] = lot;
    }

    /// Returns a few of the rates that a stream can have, of the layers that are worth delivering.
    fn modest_rates(&self, at: usize) -> Vec<f64> {
        let snapshot = &self.snapshots[at];
        let states = States::new(snapshot, snapshot.stream.least_layers());
        let worth = (0..states.count() as u16)
            .filter(|state| states.layers_of(*state) >= states.least_layers());
        let mut rates: Vec<f64> = worth.map(|state| states.rate_bps(state)).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates.dedup();
        // The highest is what it has when it is not modest.
        rates.pop();
        let step = rates.len().div_ceil(MODEST_MAX).max(1);
        let few = rates.iter().step_by(step);
        few.map(|bps| bps * (1.0 + RATE_TOLERANCE)).collect()
    }

    /// Tries each stream that blocks another, and all of them together; and the blocked one being modest first, so that
    /// all find room, and taking then what is left.
    fn make_way(&mut self, at: usize) {
        let blocking = self.blocking(at);
        let few = blocking.len().saturating_sub(AWAY_MAX);
        let mut sets: Vec<Vec<usize>> = blocking[few..].iter().map(|other| vec![*other]).collect();
        if (2..=AWAY_MAX).contains(&blocking.len()) {
            sets.push(blocking);
        }
        let modest = self.modest_rates(at);
        let mut trials: Vec<(Vec<usize>, Option<f64>)> = Vec::new();
        for away in sets {
            trials.extend(modest.iter().map(|bps| (away.clone(), Some(*bps))));
            trials.push((away, None));
        }
        let held = (self.lots.clone(), self.loads.clone());
        let mut best = (self.worth(), None);
        for away in trials {
            if self.plans_left == 0 {
                break;
            }
            let (away, modest_bps) = away;
            for other in &away {
                self.remove(*other);
            }
            match modest_bps {
                None => self.admit(at),
                Some(bps) => self.admit_within(at, bps),
            }
            for other in away {
                self.admit(other);
            }
            if modest_bps.is_some() {
                self.admit(at);
            }
            let worth = self.worth();
            if worth < best.0 {
                best = (worth, Some((self.lots.clone(), self.loads.clone())));
            }
            (self.lots, self.loads) = held.clone();
        }
        if let Some((lots, loads)) = best.1 {
            (self.lots, self.loads) = (lots, loads);
        }
    }

    /// Returns who pays more than at first, and for whom: those that pay less now, on a link that the one had at first.
    fn concessions(&self, first: &[Lot]) -> Vec<Concession> {
        let costs = |at: usize| [first, &self.lots].map(|lots| self.price(at, &lots[at]).as_f64());
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
                let (had, has) = (first[by].as_ref(), self.lots[**to].as_ref());
                had.zip(has)
                    .is_some_and(|(had, has)| Loads::meet(&has.uses, &had.uses))
            };
            // Where one moved another that moved a third, the last one meets nobody who gained.
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

    /// Returns the streams that load a link which the stream would use if it were alone, most important first.
    fn blocking(&self, at: usize) -> Vec<usize> {
        let Some(alone) = &self.alone[at] else {
            return Vec::new();
        };
        let blocks = |other: &usize| {
            let lot = self.lots[*other].as_ref();
            *other != at && lot.is_some_and(|held| Loads::meet(&held.uses, &alone.uses))
        };
        self.order.iter().copied().filter(blocks).collect()
    }

    fn admission(&self, at: usize, first: &Lot) -> Admission {
        let plan = |lot: &Lot| lot.as_ref().map(|held| held.plan.clone());
        let lot = &self.lots[at];
        let shortfalls = match (lot, self.ends[at], self.gave_up[at]) {
            (Some(_), ..) => Vec::new(),
            (None, None, _) => ends_of(&self.snapshots[at])
                .err()
                .map(Shortfall::of_input)
                .into_iter()
                .collect(),
            (None, Some(_), Some(exhausted)) => vec![exhausted.into()],
            (None, Some(ends), None) => match &self.alone[at] {
                None => shortfall::least_bad(&self.snapshots[at], ends, self.labels_max).1,
                Some(alone) => vec![self.crowded(at, ends, alone)],
            },
        };
        Admission {
            plan: plan(lot).unwrap_or_default(),
            alone: plan(&self.alone[at]).unwrap_or_default(),
            by_importance: plan(first).unwrap_or_default(),
            shortfalls,
        }
    }

    /// Returns what the others left too little of, on the way that the stream would go alone.
    fn crowded(&self, at: usize, ends: [usize; 2], alone: &Held) -> Shortfall {
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
