//! The lower bounds that guide a search: on cost alone, and on cost with prices for the sums that
//! bind.
//!
//! *The idea.* With a price λ on delay, no walk in time costs less than
//!
//! ```text
//! L(λ) = min over walks of (cost + λ · delay) − λ · T
//! ```
//!
//! and the same expression, from a label on, bounds what that label can still reach. L is concave
//! and piecewise linear. The best λ is found by cutting planes: the next λ is where the lines of
//! the cheapest late walk and of the cheapest walk in time intersect. A price on hops bounds the
//! length in the same way. A loose bound makes the search longer, but never inexact.
//!
//! *Sources.* docs/concepts/planner.md §4; Handler and Zang 1980; Jüttner et al. 2001 (LARAC).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::cost::Cost;
use super::effort::{Stop, never};
use super::potential::{Alive, Potential, Prices, Sums, Values};
use super::problem::{Arc, Problem};
use super::reach::{NodeSums, Reach};
use super::watch::Watch;

/// Maximum number of prices tried per sum: each costs a sweep, and the gap seldom closes further.
const PRICES_MAX: usize = 10;

/// Lower bounds on the final cost of a label.
pub(super) struct Guides<'p, 'a> {
    problem: &'p Problem<'a>,
    reach: &'p Reach,
    stop: Stop<'p>,
    /// The bound without prices.
    plain: Potential<'p, 'a>,
    /// The prices, the bound with them, and the worth of the sums' limits at these prices.
    priced: Option<(Prices, Potential<'p, 'a>, Cost)>,
    /// The minimum delay to delivery, if the deadline is watched.
    quickest: Option<Potential<'p, 'a>>,
    /// Places on some walk in time, if the deadline is watched; the bound with prices is restricted
    /// to them.
    alive: Option<Alive>,
    /// The minimum hops to the sink by node, if the length is watched.
    shortest: Option<Reach>,
    /// How far beyond a label's bound the potential is raised; doubles whenever that was too
    /// little.
    lookahead: Cost,
}

/// The bounds without the problem, kept from one snapshot to the next.
#[derive(Clone, Debug)]
pub(super) struct SavedBounds {
    plain: Values,
    priced: Option<(Prices, Values, Cost)>,
    quickest: Option<Values>,
    alive: Option<Alive>,
    shortest: Option<Reach>,
}

/// A sum with a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounded {
    Delay,
    Hops,
}

impl Bounded {
    fn of(self, sums: &Sums) -> u64 {
        match self {
            Self::Delay => sums.delay_ns,
            Self::Hops => u64::from(sums.hops),
        }
    }

    fn most(self, problem: &Problem<'_>) -> u64 {
        match self {
            Self::Delay => problem.deadline().as_nanos(),
            Self::Hops => u64::from(problem.hops_max()),
        }
    }

    fn priced(self, base: Prices, price: u64) -> Prices {
        match self {
            Self::Delay => Prices {
                delay: price,
                ..base
            },
            Self::Hops => Prices { hop: price, ..base },
        }
    }
}

fn deadline_of(problem: &Problem<'_>) -> Cost {
    Cost::from_quanta(problem.deadline().as_nanos())
}

/// Returns the places on some walk in time, including those `held`, and the nodes of the others.
fn in_time(
    problem: &Problem<'_>,
    quickest: &Potential<'_, '_>,
    held: Option<&Alive>,
) -> (Alive, Vec<u32>) {
    let (deadline, states) = (deadline_of(problem), problem.states.count());
    let mut alive = vec![0u64; (problem.nodes() * states).div_ceil(64)];
    if let Some(held) = held {
        alive.copy_from_slice(held);
    }
    let mut nodes = Vec::new();
    for node in 0..problem.nodes() as u32 {
        for state in 0..states as u16 {
            let place = node as usize * states + usize::from(state);
            let is_held = alive[place / 64] >> (place % 64) & 1 == 1;
            if !is_held && quickest.over(node, state) <= deadline {
                alive[place / 64] |= 1 << (place % 64);
                nodes.push(node);
            }
        }
    }
    nodes.dedup();
    (alive.into(), nodes)
}

/// Returns the initial `lookahead` for a minimum cost.
fn ahead_of(least: Cost) -> Cost {
    Cost::from_quanta(least.shared(1024))
}

impl<'p, 'a> Guides<'p, 'a> {
    /// Returns the bound on cost; `None` if no walk leads to delivery.
    pub(super) fn new(problem: &'p Problem<'a>, reach: &'p Reach, stop: Stop<'p>) -> Option<Self> {
        let mut plain = Potential::new(problem, reach, Prices::COST, stop);
        let least = plain.at_start()?;
        Some(Self {
            problem,
            reach,
            stop,
            plain,
            priced: None,
            quickest: None,
            alive: None,
            shortest: None,
            lookahead: ahead_of(least),
        })
    }

    /// Returns the bound on cost for a search from many places; no sum is priced.
    pub(super) fn from_everywhere(problem: &'p Problem<'a>, nowhere: &'p Reach) -> Self {
        Self {
            problem,
            reach: nowhere,
            stop: &never,
            plain: Potential::new(problem, nowhere, Prices::COST, &never),
            priced: None,
            quickest: None,
            alive: None,
            shortest: None,
            lookahead: Cost::from_f64(1e-3),
        }
    }

    /// Continues with the bounds of an earlier problem: links and nodes at `changed` have changed
    /// since, and `before` has the former sums of nodes with reduced sums. `None` if a node has
    /// become reachable.
    pub(super) fn resume(
        problem: &'p Problem<'a>,
        reach: &'p Reach,
        kept: SavedBounds,
        before: &BTreeMap<u32, NodeSums>,
        changed: &[u32],
        stop: Stop<'p>,
    ) -> Option<Self> {
        let repaired = |values: Values| {
            let mut potential = Potential::resume(problem, reach, values, stop);
            potential.repair(before, changed);
            potential
        };
        let mut shortest = kept.shortest;
        if let Some(shortest) = &mut shortest {
            shortest.lower(problem, changed)?;
        }
        let mut quickest = kept.quickest.map(repaired);
        let mut alive = kept.alive;
        let mut affected = changed.to_vec();
        if let (Some(quickest), Some(held)) = (&mut quickest, &alive) {
            quickest.raise(deadline_of(problem) + Cost::from_quanta(1));
            let (now, nodes) = in_time(problem, quickest, Some(held));
            // Neighbours have offered nothing to places that were not alive.
            for node in nodes {
                affected.push(node);
                affected.extend(problem.arcs_from(node).iter().map(|arc| arc.to));
            }
            alive = Some(now);
        }
        affected.sort_unstable();
        affected.dedup();
        let priced = kept.priced.map(|(prices, values, worth)| {
            let mut potential = Potential::resume(problem, reach, values, stop);
            potential = potential.among(alive.clone());
            potential.repair(before, &affected);
            (prices, potential, worth)
        });
        let plain = repaired(kept.plain);
        let least = plain.at(problem.source as u32, problem.states.start());
        Some(Self {
            problem,
            reach,
            stop,
            plain,
            priced,
            quickest,
            alive,
            shortest,
            lookahead: ahead_of(least),
        })
    }

    /// Returns the bounds without the problem.
    pub(super) fn into_kept(self) -> SavedBounds {
        let priced = self.priced;
        SavedBounds {
            plain: self.plain.into_values(),
            priced: priced.map(|(prices, priced, worth)| (prices, priced.into_values(), worth)),
            quickest: self.quickest.map(Potential::into_values),
            alive: self.alive,
            shortest: self.shortest,
        }
    }

    /// Returns a lower bound on the cost of any plan over an arc.
    pub(super) fn through(&self, from: u32, arc: &Arc) -> Cost {
        let plain = self.plain.through(from, arc);
        match &self.priced {
            None => plain,
            Some((_, potential, worth)) => {
                plain.max(potential.through(from, arc).saturating_sub(*worth))
            }
        }
    }

    /// Returns the number of places settled in the kept bounds.
    pub(super) fn settled(&self) -> u32 {
        let priced = self.priced.as_ref();
        self.plain.steps() + priced.map_or(0, |(_, potential, _)| potential.steps())
    }

    /// Raises the bounds as far as a plan of this cost needs.
    pub(super) fn raise_to(&mut self, cost: Cost) {
        self.plain.raise(cost);
        if let Some((_, potential, worth)) = &mut self.priced {
            potential.raise(cost + *worth);
        }
    }

    /// Prunes by the watched sums, without prices.
    pub(super) fn prune(&mut self, watch: &Watch) {
        let problem = self.problem;
        if watch.deadline && self.quickest.is_none() {
            let mut quickest = Potential::new(problem, self.reach, Prices::DELAY, self.stop);
            let deadline = Cost::from_quanta(problem.deadline().as_nanos());
            quickest.raise(deadline + Cost::from_quanta(1));
            self.quickest = Some(quickest);
        }
        if watch.length && self.shortest.is_none() {
            self.shortest = Some(Reach::of(problem, problem.sink));
        }
    }

    /// Returns the sums of the cheapest walk without slots.
    pub(super) fn cheapest(&self) -> Sums {
        self.plain.walk()
    }

    /// Prices the watched sums; returns whether any walk can keep them.
    pub(super) fn watch(&mut self, watch: &Watch) -> bool {
        let problem = self.problem;
        if watch.deadline && self.quickest.is_none() {
            let mut quickest = Potential::new(problem, self.reach, Prices::DELAY, self.stop);
            let deadline = Cost::from_quanta(problem.deadline().as_nanos());
            if quickest.at_start().is_none_or(|least| deadline < least) {
                return false;
            }
            // Nothing beyond the deadline is queried: a place that is not settled now cannot be in
            // time.
            quickest.raise(deadline + Cost::from_quanta(1));
            self.alive = Some(in_time(problem, &quickest, None).0);
            self.quickest = Some(quickest);
        }
        if watch.length && self.shortest.is_none() {
            let shortest = Reach::of(problem, problem.sink);
            if shortest.hops[problem.source] > problem.hops_max() {
                return false;
            }
            self.shortest = Some(shortest);
        }
        let mut prices = Prices::COST;
        for (watched, bounded) in [
            (watch.deadline, Bounded::Delay),
            (watch.length, Bounded::Hops),
        ] {
            if watched {
                prices = self.ascend(prices, bounded);
            }
        }
        true
    }

    /// Finds the price with the highest bound, given the prices of the other sums, and keeps it.
    fn ascend(&mut self, base: Prices, bounded: Bounded) -> Prices {
        let most = bounded.most(self.problem);
        let (mut beyond, mut within): (Option<Sums>, Option<Sums>) = (None, None);
        let mut highest: Option<(Cost, Prices)> = None;
        let mut prices = base;
        for _ in 0..PRICES_MAX {
            let mut potential = Potential::new(self.problem, self.reach, prices, self.stop)
                .among(self.alive.clone());
            let Some(least) = potential.at_start() else {
                break;
            };
            if (self.stop)() {
                break;
            }
            let walk = potential.walk();
            let worth = self.worth(prices);
            let bound = least.saturating_sub(worth);
            if highest.is_none_or(|(held, _)| bound >= held) {
                highest = Some((bound, prices));
                self.priced = Some((prices, potential, worth));
            }
            // The dual is solved once a known walk is the cheapest again.
            let known = [beyond, within].into_iter().flatten();
            let mut known = known.map(|sums| prices.sum(sums.cost, sums.delay_ns, sums.hops));
            if known.any(|sum| sum == least) {
                break;
            }
            if bounded.of(&walk) > most {
                beyond = Some(walk);
            } else {
                within = Some(walk);
            }
            // Where the lines of both walks intersect. Until a walk within the limit is known, the
            // price grows eightfold.
            prices = match (beyond, within) {
                (Some(beyond), Some(within)) => {
                    let at = |sums: Sums| base.sum(sums.cost, sums.delay_ns, sums.hops);
                    let dearer = at(within).saturating_sub(at(beyond));
                    let apart = bounded.of(&beyond) - bounded.of(&within);
                    bounded.priced(base, dearer.shared(apart))
                }
                (Some(beyond), None) => {
                    let held = match bounded {
                        Bounded::Delay => prices.delay,
                        Bounded::Hops => prices.hop,
                    };
                    let first = beyond.cost.shared(bounded.of(&beyond)).max(1);
                    bounded.priced(base, held.saturating_mul(8).max(first))
                }
                _ => break,
            };
        }
        highest.map_or(base, |(_, prices)| prices)
    }

    /// Returns what the sums' limits are worth at these prices.
    fn worth(&self, prices: Prices) -> Cost {
        let deadline = if prices.delay > 0 {
            self.problem.deadline().as_nanos()
        } else {
            0
        };
        let hops = if prices.hop > 0 {
            self.problem.hops_max()
        } else {
            0
        };
        prices.sum(Cost::ZERO, deadline, hops)
    }

    /// Returns a lower bound on a label's final cost; `Cost::MAX` if it cannot reach delivery.
    pub(super) fn bound(&self, sums: &Sums, node: u32, state: u16) -> Cost {
        let problem = self.problem;
        if let Some(quickest) = &self.quickest {
            let least = quickest.at(node, state);
            let arrival = Cost::from_quanta(sums.delay_ns) + least;
            if Cost::from_quanta(problem.deadline().as_nanos()) < arrival {
                return Cost::MAX;
            }
        }
        if let Some(shortest) = &self.shortest {
            let hops = sums.hops.saturating_add(shortest.hops[node as usize]);
            if hops > problem.hops_max() {
                return Cost::MAX;
            }
        }
        let plain = sums.cost + self.plain.at(node, state);
        let Some((prices, potential, worth)) = &self.priced else {
            return plain;
        };
        let rest = potential.at(node, state);
        if rest == Cost::MAX {
            return rest;
        }
        let paid = prices.sum(sums.cost, sums.delay_ns, sums.hops) + rest;
        plain.max(paid.saturating_sub(*worth))
    }

    /// Returns a label's bound, formerly `held`, after raising the potential where that may help.
    pub(super) fn raised(&mut self, sums: &Sums, node: u32, state: u16, held: Cost) -> Cost {
        match &mut self.priced {
            None => self.plain.raise(held + self.lookahead),
            Some((_, potential, worth)) => potential.raise(held + *worth + self.lookahead),
        }
        let raised = self.bound(sums, node, state);
        if raised > held {
            self.lookahead += self.lookahead;
        }
        raised
    }
}
