//! Lower bounds on the cost of the rest of a path, from a node in a state to delivery.
//!
//! *The idea.* Without slots, the ban on visiting a node twice, and all limits on sums (deadline,
//! hops), the problem is a shortest path among places *(node, state)*. Its exact length is a bound
//! that respects rates, trust, layers and adapters. It is computed from the sink outwards, guided
//! by a lower bound from the source, and only as far as needed: the forward search raises the level
//! to its own labels' bounds. Below the level, values are exact; above it, level − guide is still a
//! bound.
//!
//! Sums may have prices: with a price on delay or hops the bound is one on cost + price · sum, by
//! which a binding deadline guides the search (`dual`).
//!
//! When links change later, values that have fallen are lowered from there. Values that have risen
//! stay: they are still lower bounds, and so is level − guide, because a walk from an unsettled
//! place crosses the level somewhere.
//!
//! *Sources.* docs/concepts/planner.md §4, §11; Hart, Nilsson, Raphael 1968; Silver 2005 (reverse resumable
//! A*).

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cost::Cost;
use super::effort::{STEPS_BETWEEN, Stop};
use super::problem::{self, Problem};
use super::reach::{NodeSums, Reach};

/// Prices of a path's sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prices {
    /// Whether cost counts; if not, the bound is on delay and hops alone.
    pub(super) cost: bool,
    /// Quanta per nanosecond.
    pub(super) delay: u64,
    /// Quanta per hop.
    pub(super) hop: u64,
}

impl Prices {
    /// Cost only.
    pub(super) const COST: Self = Self {
        cost: true,
        delay: 0,
        hop: 0,
    };
    /// Delay only, in nanoseconds.
    pub(super) const DELAY: Self = Self {
        cost: false,
        delay: 1,
        hop: 0,
    };

    /// Returns the priced total of these sums.
    pub(super) fn sum(self, cost: Cost, delay_ns: u64, hops: u32) -> Cost {
        let paid = if self.cost { cost } else { Cost::ZERO };
        if self.delay == 0 && self.hop == 0 {
            return paid;
        }
        paid + Cost::product(self.delay, delay_ns) + Cost::product(self.hop, u64::from(hops))
    }
}

/// The sums of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) cost: Cost,
    pub(super) delay_ns: u64,
    pub(super) hops: u32,
}

/// Lower bounds by place, computed on demand.
pub(super) struct Potential<'p, 'a> {
    problem: &'p Problem<'a>,
    reach: &'p Reach,
    stop: Stop<'p>,
    /// Settled places, to know when to poll `stop`.
    steps: u32,
    values: Values,
}

/// The computed values, without the problem.
#[derive(Clone, Debug)]
pub(super) struct Values {
    prices: Prices,
    /// By state: the lowest rate in Mbit/s that the stream had before, and the quality it has lost.
    past_minimums: Vec<(f64, Cost)>,
    /// By place, `node · states + state`: cost of the rest, exact below the level.
    best: Vec<Cost>,
    heap: BinaryHeap<Reverse<(Cost, u32)>>,
    level: Cost,
    /// By place: whether it can be on a plan; others are left out.
    alive: Option<Alive>,
}

/// One bit per place.
pub(super) type Alive = Arc<[u64]>;

impl<'p, 'a> Potential<'p, 'a> {
    /// Starts at the sink, with nothing computed.
    pub(super) fn new(
        problem: &'p Problem<'a>,
        reach: &'p Reach,
        prices: Prices,
        stop: Stop<'p>,
    ) -> Self {
        let states = &problem.states;
        let past_minimum = |state: u16| {
            let mbps = states.past_min_bps(state) / 1e6;
            (mbps, states.lost(states.start(), state))
        };
        let values = Values {
            prices,
            past_minimums: (0..states.count() as u16).map(past_minimum).collect(),
            best: vec![Cost::MAX; problem.nodes() * states.count()],
            heap: BinaryHeap::new(),
            level: Cost::ZERO,
            alive: None,
        };
        let mut potential = Self::resume(problem, reach, values, stop);
        for state in 0..states.count() as u16 {
            if states.is_goal(state) && problem.may_be(problem.sink as u32, state) {
                potential.offer(problem.sink as u32, state, Cost::ZERO);
            }
        }
        potential
    }

    /// Leaves out places that no plan reaches; must be called before anything is settled.
    pub(super) fn among(mut self, alive: Option<Alive>) -> Self {
        self.values.alive = alive;
        self
    }

    /// Returns a lower bound on reaching a place and then delivery.
    pub(super) fn over(&self, node: u32, state: u16) -> Cost {
        self.guide(node, state) + self.at(node, state)
    }

    /// Returns the number of places settled, repetitions included.
    pub(super) const fn steps(&self) -> u32 {
        self.steps
    }

    /// Continues with earlier values; if the problem has changed since, [`Self::repair`] must follow.
    pub(super) fn resume(
        problem: &'p Problem<'a>,
        reach: &'p Reach,
        values: Values,
        stop: Stop<'p>,
    ) -> Self {
        Self {
            problem,
            reach,
            stop,
            steps: 0,
            values,
        }
    }

    /// Returns the values, for another problem.
    pub(super) fn into_values(self) -> Values {
        self.values
    }

    fn place(&self, node: u32, state: u16) -> usize {
        node as usize * self.problem.states.count() + usize::from(state)
    }

    /// Returns a lower bound from the source to a place.
    fn guide(&self, node: u32, state: u16) -> Cost {
        self.guide_of(self.reach.near(node), state)
    }

    /// Returns a lower bound from the source to a node with these sums, in a state.
    fn guide_of(&self, near: NodeSums, state: u16) -> Cost {
        if near.hops == u32::MAX {
            return Cost::MAX;
        }
        let cost = if self.values.prices.cost {
            let (mbps, lost) = self.values.past_minimums[usize::from(state)];
            lost + Cost::from_f64(mbps * near.slowness)
        } else {
            Cost::ZERO
        };
        self.values.prices.sum(cost, near.delay_ns, near.hops)
    }

    /// Returns a lower bound from a place to delivery; `Cost::MAX` if there is no path.
    pub(super) fn at(&self, node: u32, state: u16) -> Cost {
        let best = self.values.best[self.place(node, state)];
        if self.values.level == Cost::MAX {
            return best;
        }
        best.min(self.values.level.saturating_sub(self.guide(node, state)))
    }

    /// Returns the value at the source's initial state: exact unless stopped. `None` if there is no
    /// path.
    pub(super) fn at_start(&mut self) -> Option<Cost> {
        let start = (self.problem.source as u32, self.problem.states.start());
        loop {
            let best = self.values.best[self.place(start.0, start.1)];
            // Below the level, values are exact.
            if best < self.values.level {
                return Some(best);
            }
            if self.values.level == Cost::MAX {
                return None;
            }
            if self.is_stopped() {
                return Some(self.values.level);
            }
            self.settle_next();
        }
    }

    /// Settles all places with a value plus guide below a level, unless stopped.
    pub(super) fn raise(&mut self, level: Cost) {
        while self.values.level < level && !self.is_stopped() {
            self.settle_next();
        }
    }

    /// Counts a step, and polls `stop` at intervals.
    fn is_stopped(&mut self) -> bool {
        self.steps = self.steps.wrapping_add(1);
        self.steps.is_multiple_of(STEPS_BETWEEN) && (self.stop)()
    }

    /// Restores the bounds after links and nodes at `changed` have changed and the guide's sums
    /// have fallen from `before`.
    ///
    /// Cost    O(states · (links at `changed` + nodes that fell)); values are settled again on demand
    pub(super) fn repair(&mut self, before: &BTreeMap<u32, NodeSums>, changed: &[u32]) {
        let states = self.problem.states.count() as u16;
        let level = self.values.level;
        for (node, near) in before {
            for state in 0..states {
                let value = self.values.best[self.place(*node, state)];
                // A settled value keeps its neighbours' offers; an unsettled one is queued again,
                // as its key is now too high.
                if value < Cost::MAX && value + self.guide_of(*near, state) >= level {
                    self.requeue(*node, state, value);
                }
            }
        }
        for node in changed {
            for state in 0..states {
                let value = self.values.best[self.place(*node, state)];
                if value < Cost::MAX && value + self.guide(*node, state) < level {
                    self.propagate(*node, state, value);
                }
            }
        }
        if let Some(Reverse((next, _))) = self.values.heap.peek() {
            self.values.level = level.min(*next);
        }
    }

    /// Returns a lower bound on the cost of any walk over an arc, in any state.
    pub(super) fn through(&self, from: u32, arc: &problem::Arc) -> Cost {
        let states = 0..self.problem.states.count() as u16;
        let over = states.filter_map(|state| {
            let cost = self.problem.hop_cost(arc, state)?;
            let paid = self.values.prices.sum(cost, arc.delay_ns, 1);
            Some(self.guide(from, state) + paid + self.at(arc.to, state))
        });
        over.min().unwrap_or(Cost::MAX)
    }

    /// Settles the next place, and sets the level below which all are settled.
    fn settle_next(&mut self) {
        let Some(Reverse((key, place))) = self.values.heap.pop() else {
            self.values.level = Cost::MAX;
            return;
        };
        let states = self.problem.states.count() as u32;
        let (node, state) = (place / states, (place % states) as u16);
        let value = self.values.best[place as usize];
        // If the place was offered again for less, the dearer entry is stale.
        if value + self.guide(node, state) == key {
            self.propagate(node, state, value);
        }
        self.values.level = match self.values.heap.peek() {
            Some(Reverse((next, _))) => *next,
            None => Cost::MAX,
        };
    }

    /// Offers a settled value to all places from which one move leads here.
    fn propagate(&mut self, node: u32, state: u16, value: Cost) {
        let problem = self.problem;
        if problem.may_adapt(node) {
            for back in problem.states.steps_to(state) {
                if problem.may_be(node, back.from) && problem.holds(node, back.profile) {
                    let cost = back.cost + problem.delay_penalty(back.delay);
                    let paid = self.values.prices.sum(cost, back.delay.as_nanos(), 0);
                    self.offer(node, back.from, value + paid);
                }
            }
        }
        // No link may have led into a closed node.
        if !problem.may_enter(node) {
            return;
        }
        for arc in problem.arcs_from(node) {
            if arc.to as usize == problem.sink || !problem.may_be(arc.to, state) {
                continue;
            }
            if let Some(cost) = problem.back_cost(arc, state) {
                let paid = self.values.prices.sum(cost, arc.delay_ns, 1);
                self.offer(arc.to, state, value + paid);
            }
        }
    }

    fn offer(&mut self, node: u32, state: u16, value: Cost) {
        let place = self.place(node, state);
        if value < self.values.best[place] {
            let alive = self.values.alive.as_ref();
            if alive.is_some_and(|alive| alive[place / 64] >> (place % 64) & 1 == 0) {
                return;
            }
            let guide = self.guide(node, state);
            // A place that is unreachable from the source is on no plan.
            if guide < Cost::MAX {
                self.values.best[place] = value;
                self.values
                    .heap
                    .push(Reverse((value + guide, place as u32)));
            }
        }
    }

    /// Queues a value to be settled.
    fn requeue(&mut self, node: u32, state: u16, value: Cost) {
        let (key, place) = (value + self.guide(node, state), self.place(node, state));
        self.values.heap.push(Reverse((key, place as u32)));
    }

    /// Returns the sums of the best walk from the start; its values must be settled.
    pub(super) fn walk(&self) -> Sums {
        let problem = self.problem;
        let (mut node, mut state) = (problem.source as u32, problem.states.start());
        let mut sums = Sums::default();
        let mut left = self.values.best[self.place(node, state)];
        // Moves without a price could form a cycle, so the number of steps is bounded.
        for _ in 0..problem.nodes() * problem.states.count() {
            if node as usize == problem.sink && problem.states.is_goal(state) {
                break;
            }
            let Some((to, next, by)) = self.successor(node, state, left) else {
                break;
            };
            sums.cost += by.cost;
            sums.delay_ns = sums.delay_ns.saturating_add(by.delay_ns);
            sums.hops += by.hops;
            (node, state) = (to, next);
            left = self.values.best[self.place(node, state)];
        }
        sums
    }

    /// Returns a move along which the value falls by exactly the move's price, adapters before
    /// hops.
    fn successor(&self, node: u32, state: u16, left: Cost) -> Option<(u32, u16, Sums)> {
        let problem = self.problem;
        let fits = |to: u32, next: u16, by: &Sums| {
            let paid = self.values.prices.sum(by.cost, by.delay_ns, by.hops);
            self.values.best[self.place(to, next)] + paid == left
        };
        if problem.may_adapt(node) {
            for step in problem.states.steps(state) {
                let by = Sums {
                    cost: step.cost + problem.delay_penalty(step.delay),
                    delay_ns: step.delay.as_nanos(),
                    hops: 0,
                };
                let may_run = problem.may_be(node, step.to) && problem.holds(node, step.profile);
                if may_run && fits(node, step.to, &by) {
                    return Some((node, step.to, by));
                }
            }
        }
        for arc in problem.arcs_from(node) {
            if let Some(cost) = problem.hop_cost(arc, state) {
                let by = Sums {
                    cost,
                    delay_ns: arc.delay_ns,
                    hops: 1,
                };
                if fits(arc.to, state, &by) {
                    return Some((arc.to, state, by));
                }
            }
        }
        None
    }
}
