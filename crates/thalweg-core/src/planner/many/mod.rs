//! Many streams on one network.
//!
//! *The idea.* Streams are admitted in the order of their importance, each by the exact planner on what the others left
//! of every link, each way. That order may let a stream take a link of which it has no need and another has no way
//! around. So every stream that got less, or pays more, than it would alone is looked at again: those that block it make
//! way, it is planned, and they are planned anew on what is left. Such a change stays only if it is better in this
//! order: by class of importance, fewer streams refused and less quality lost; then less cost in all. So the end is never
//! worse than the order of importance alone, and no class of importance loses quality to a lower one.
//!
//! *What it does not do.* It does not promise the best division, for that problem contains many knapsacks. A stream with
//! several sinks is one demand a sink. Slots are each stream's own.
//!
//! *Sources.* docs/planner.md §10.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt::Write;

use super::check::{Violation, check, rate};
use super::cost::Cost;
use super::problem::{Move, Problem, Relaxation, Route};
use super::product::{LinkUse, Plan};
use super::shortfall::{self, Need, Shortfall};
use super::states::RATE_TOLERANCE;
use super::{Policy, ends_of, exact};
use crate::model::{Snapshot, Stream, Topology, Weights};

/// How often the streams that got less are looked at; each time something must have become better.
const ROUNDS_MAX: usize = 8;

/// A stream that wants its share.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The stream, with one sink.
    pub stream: Stream,
    /// How important it is; higher is served first, equals in their order.
    pub importance: u8,
}

/// What became of a demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Its plan beside the others; empty if it was refused.
    pub plan: Plan,
    /// Its plan if it were alone.
    pub alone: Plan,
    /// Why it was refused: what it lacks alone, or which links the others left too little of.
    pub shortfalls: Vec<Shortfall>,
}

/// What became of all demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// One a demand, in their order.
    pub admissions: Vec<Admission>,
    /// The sum of the costs; one that was refused costs as if nothing were delivered.
    pub cost: f64,
    /// The same after admission by importance alone.
    pub cost_by_importance: f64,
}

/// How good a division is: by class of importance, streams refused and quality lost; then cost in all.
type Worth = (Vec<(u32, Cost)>, Cost);

/// Plans many streams on one network.
///
/// Cost    O(demands) plans, then O(demands²) for each improvement
/// Source  docs/planner.md §10
pub fn plan_all(
    topology: &Topology,
    weights: &Weights,
    demands: &[Demand],
    policy: &Policy,
) -> Shared {
    let snapshot =
        |demand: &Demand| Snapshot::new(topology.clone(), *weights, demand.stream.clone());
    let snapshots: Vec<Snapshot> = demands.iter().map(snapshot).collect();
    let mut division = Division::new(&snapshots, demands, policy.labels_max);
    for at in division.order.clone() {
        division.admit(at);
    }
    let (_, by_importance) = division.worth();
    division.improve();
    let (_, cost) = division.worth();
    Shared {
        admissions: (0..demands.len())
            .map(|at| division.admission(at))
            .collect(),
        cost: cost.as_f64(),
        cost_by_importance: by_importance.as_f64(),
    }
}

/// Returns everything that the plans of many streams break: each alone, and the links that they load together.
pub fn check_all(
    topology: &Topology,
    weights: &Weights,
    demands: &[Demand],
    shared: &Shared,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut loads: Vec<(&LinkUse, f64)> = Vec::new();
    for (demand, admission) in demands.iter().zip(&shared.admissions) {
        if !admission.plan.feasible {
            continue;
        }
        let snapshot = Snapshot::new(topology.clone(), *weights, demand.stream.clone());
        violations.extend(check(&snapshot, &admission.plan));
        for link in &admission.plan.links {
            let known = loads.iter_mut();
            let mut known =
                known.filter(|(other, _)| (other.link, &other.from) == (link.link, &link.from));
            match known.next() {
                Some((_, bps)) => *bps += link.rate_bps,
                None => loads.push((link, link.rate_bps)),
            }
        }
    }
    for (link, needs_bps) in loads {
        let has_bps = topology.link(link.link).rate.as_bps() as f64;
        if needs_bps > has_bps * (1.0 + 1e-9) {
            violations.push(Violation::SlowLink {
                from: link.from.clone(),
                to: link.to.clone(),
                needs_bps,
                has_bps,
            });
        }
    }
    violations
}

/// Streams and the routes they have so far.
struct Division<'a> {
    snapshots: &'a [Snapshot],
    demands: &'a [Demand],
    labels_max: u32,
    /// Most important first.
    order: Vec<usize>,
    ends: Vec<Option<[usize; 2]>>,
    alone: Vec<Option<Route>>,
    routes: Vec<Option<Route>>,
}

impl<'a> Division<'a> {
    fn new(snapshots: &'a [Snapshot], demands: &'a [Demand], labels_max: u32) -> Self {
        let mut order: Vec<usize> = (0..demands.len()).collect();
        order.sort_by_key(|at| Reverse(demands[*at].importance));
        let ends: Vec<_> = snapshots
            .iter()
            .map(|snapshot| ends_of(snapshot).ok())
            .collect();
        let mut division = Self {
            snapshots,
            demands,
            labels_max,
            order,
            ends,
            alone: Vec::new(),
            routes: vec![None; demands.len()],
        };
        division.alone = (0..demands.len()).map(|at| division.route(at)).collect();
        division
    }

    /// Returns the stream's problem on what the others leave.
    fn problem(&self, at: usize, ends: [usize; 2]) -> Problem<'a> {
        let mut problem = Problem::new(&self.snapshots[at], ends, Relaxation::default());
        for other in (0..self.routes.len()).filter(|other| *other != at) {
            for (from, link, bps) in self.loads(other) {
                problem.burden(from, link, bps);
            }
        }
        problem
    }

    /// Returns what a stream puts on each link of its route, with the node from which.
    fn loads(&self, at: usize) -> Vec<(u32, crate::model::LinkIndex, f64)> {
        let Some(route) = &self.routes[at] else {
            return Vec::new();
        };
        let plan = Plan::of_route(&self.snapshots[at], route, true);
        let mut from = route.source as u32;
        let hops = route.moves.iter().filter_map(|step| match step {
            Move::Hop { link, to } => Some((*link, *to as u32)),
            Move::Run(_) => None,
        });
        let mut loads = Vec::new();
        for ((link, to), used) in hops.zip(&plan.links) {
            loads.push((from, link, used.rate_bps));
            from = to;
        }
        loads
    }

    /// Returns the best route on what the others leave.
    fn route(&self, at: usize) -> Option<Route> {
        let problem = self.problem(at, self.ends[at]?);
        exact::solve(&problem, self.labels_max).ok().flatten()
    }

    fn admit(&mut self, at: usize) {
        self.routes[at] = self.route(at);
    }

    /// Returns the plan of a route, empty if there is none.
    fn plan(&self, at: usize, route: Option<&Route>) -> Plan {
        let plan = route.map(|route| Plan::of_route(&self.snapshots[at], route, true));
        plan.unwrap_or_default()
    }

    /// Returns what a stream with this route lacks in quality; all of it if it has none.
    fn lacks(&self, at: usize, route: Option<&Route>) -> Cost {
        match route {
            Some(_) => Cost::from_f64(self.plan(at, route).cost_parts.quality),
            None => Cost::from_f64(self.snapshots[at].weights.quality),
        }
    }

    /// Returns what a stream with this route costs; without one, as much as if nothing were delivered.
    fn price(&self, at: usize, route: Option<&Route>) -> Cost {
        match route {
            Some(_) => Cost::from_f64(self.plan(at, route).cost),
            None => self.lacks(at, route),
        }
    }

    fn worth(&self) -> Worth {
        let mut classes: Vec<(u8, u32, Cost)> = Vec::new();
        let mut cost = Cost::ZERO;
        for at in &self.order {
            let route = self.routes[*at].as_ref();
            let lacks = self.lacks(*at, route);
            cost += self.price(*at, route);
            let importance = self.demands[*at].importance;
            let refused = u32::from(route.is_none());
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

    /// Lets what blocks make way for what is blocked, while that is better.
    fn improve(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let before = self.worth();
            for at in self.order.clone() {
                let alone = self.alone[at].as_ref();
                let dearer = self.price(at, self.routes[at].as_ref()) > self.price(at, alone);
                if alone.is_some() && dearer {
                    self.make_way(at);
                }
            }
            if self.worth() >= before {
                return;
            }
        }
    }

    /// Tries each stream that blocks another, and all of them together.
    fn make_way(&mut self, at: usize) {
        let blocking = self.blocking(at);
        let mut trials: Vec<Vec<usize>> = blocking.iter().map(|other| vec![*other]).collect();
        if blocking.len() > 1 {
            trials.push(blocking);
        }
        let mut best = (self.worth(), self.routes.clone());
        let held = self.routes.clone();
        for away in trials {
            self.routes.clone_from(&held);
            for other in &away {
                self.routes[*other] = None;
            }
            self.admit(at);
            for other in away {
                self.admit(other);
            }
            let worth = self.worth();
            if worth < best.0 {
                best = (worth, self.routes.clone());
            }
        }
        self.routes = best.1;
    }

    /// Returns the streams that load a link which the stream would use if it were alone, most important first.
    fn blocking(&self, at: usize) -> Vec<usize> {
        let Some(alone) = &self.alone[at] else {
            return Vec::new();
        };
        let wanted: Vec<_> = alone
            .moves
            .iter()
            .filter_map(|step| match step {
                Move::Hop { link, .. } => Some(*link),
                Move::Run(_) => None,
            })
            .collect();
        let blocks = |other: &usize| {
            let loads = self.loads(*other);
            *other != at && loads.iter().any(|(_, link, _)| wanted.contains(link))
        };
        self.order.iter().copied().filter(blocks).collect()
    }

    fn admission(&self, at: usize) -> Admission {
        let route = self.routes[at].as_ref();
        let alone = self.alone[at].as_ref();
        let shortfalls = match (route, self.ends[at]) {
            (Some(_), _) => Vec::new(),
            (None, None) => match ends_of(&self.snapshots[at]) {
                Err(violation) => vec![Shortfall::of_input(violation)],
                Ok(_) => Vec::new(),
            },
            (None, Some(ends)) if alone.is_none() => {
                shortfall::least_bad(&self.snapshots[at], ends, self.labels_max).1
            }
            (None, Some(ends)) => vec![self.crowded(at, ends)],
        };
        Admission {
            plan: self.plan(at, route),
            alone: self.plan(at, alone),
            shortfalls,
        }
    }

    /// Returns what the others left too little of, on the way that the stream would go alone.
    fn crowded(&self, at: usize, ends: [usize; 2]) -> Shortfall {
        let problem = self.problem(at, ends);
        let plan = self.plan(at, self.alone[at].as_ref());
        let lacking = plan.links.iter().filter_map(|link| {
            let from = self.snapshots[at].topology.find(&link.from)?;
            let arcs = problem.arcs_from(from.0).iter();
            let arc = arcs.into_iter().find(|arc| arc.link == link.link.0)?;
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

impl Shared {
    /// Returns in words what became of every stream and who shares each link that several use.
    pub fn explain(&self, topology: &Topology, demands: &[Demand]) -> String {
        let mut text = String::new();
        for (demand, admission) in demands.iter().zip(&self.admissions) {
            let name = &demand.stream.name;
            let (plan, alone) = (&admission.plan, &admission.alone);
            let fate = if !plan.feasible {
                let why: Vec<String> = admission
                    .shortfalls
                    .iter()
                    .map(ToString::to_string)
                    .collect();
                let beside = if alone.feasible {
                    "beside the others "
                } else {
                    ""
                };
                format!("refused; {beside}{}", why.join(", or "))
            } else if plan.layers < alone.layers {
                format!(
                    "{} layers; alone it would have {}",
                    plan.layers, alone.layers
                )
            } else {
                format!("{} layers, as if it were alone", plan.layers)
            };
            let _ = writeln!(text, "{name} (importance {}): {fate}.", demand.importance);
        }
        self.explain_links(&mut text, topology, demands);
        if self.cost < self.cost_by_importance - 1e-9 {
            let saved = self.cost_by_importance - self.cost;
            let _ = writeln!(
                text,
                "Streams made way for others: {saved:.3} cheaper than by importance alone."
            );
        }
        text
    }

    /// Tells who has how much of every link that several streams use.
    fn explain_links(&self, text: &mut String, topology: &Topology, demands: &[Demand]) {
        let uses = || {
            let all = demands.iter().zip(&self.admissions);
            all.flat_map(|(demand, admission)| {
                let links = admission.plan.links.iter();
                links.map(move |link| (&demand.stream.name, link))
            })
        };
        let mut told: Vec<&LinkUse> = Vec::new();
        for (_, link) in uses() {
            let same = |other: &LinkUse| (other.link, &other.from) == (link.link, &link.from);
            if told.iter().any(|other| same(other)) {
                continue;
            }
            told.push(link);
            let sharing: Vec<_> = uses().filter(|(_, other)| same(other)).collect();
            if sharing.len() < 2 {
                continue;
            }
            let has = topology.link(link.link).rate;
            let share = |(name, link): &(_, &LinkUse)| {
                let share = link.rate_bps / has.as_bps() as f64 * 100.0;
                format!("{name} {} ({share:.1} %)", rate(link.rate_bps))
            };
            let shares: Vec<String> = sharing.iter().map(share).collect();
            let (from, to) = (&link.from, &link.to);
            let _ = writeln!(text, "Link {from} → {to} of {has}: {}.", shares.join(", "));
        }
    }
}
