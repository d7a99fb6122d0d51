//! What the rest of the way costs at least, from each node to the sink.
//!
//! *The idea.* Three shortest-path sweeps from the sink, each ignoring all but one thing:
//!
//! - *cap*: the most layers that any path can carry, at the best compression there is. More than that will be dropped
//!   before the sink, so the quality they hold is already lost.
//! - *link cost*: Σ R/rate along the cheapest path if the stream had its least rate all the way.
//! - *delay*: along the quickest path.
//!
//! Each is consistent (it falls along a hop by no more than the hop costs), so a best-first search that adds them
//! settles a label when it pops it.
//!
//! *Sources.* docs/planner.md §4; Hart, Nilsson, Raphael 1968.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cost::Cost;
use super::exact::Problem;
use super::product::link_cost;
use super::states::fits;

/// Lower bounds by node.
pub(super) struct Bounds {
    /// The most layers that can still reach the sink; 0 if not even the least can.
    pub(super) caps: Vec<u8>,
    /// What the links cost at least.
    pub(super) links: Vec<Cost>,
    /// What the delay is at least, in nanoseconds.
    pub(super) delays: Vec<u64>,
}

impl Bounds {
    /// Cost    O(links · log nodes)
    pub(super) fn new(problem: &Problem<'_>) -> Self {
        let states = &problem.states;
        let least = states.least_layers();
        let least_bps = states.least_rate_bps(least);
        let all = states.layers();
        let carried: Vec<u8> = problem
            .topology()
            .links()
            .iter()
            .map(|edge| {
                let mut layers = all;
                while layers >= least && !fits(states.least_rate_bps(layers), edge.rate) {
                    layers -= 1;
                }
                if problem.relaxation.rate {
                    all
                } else if layers < least {
                    0
                } else {
                    layers
                }
            })
            .collect();
        let usable = |link: u32| carried[link as usize] > 0;
        let caps = sweep(problem, Reverse(all), |Reverse(cap), link, _| {
            let cap = cap.min(carried[link as usize]);
            (cap > 0).then_some(Reverse(cap))
        });
        let links = sweep(problem, Cost::ZERO, |cost, link, rate_bps| {
            usable(link).then(|| cost + link_cost(least_bps, rate_bps))
        });
        let delays = sweep(problem, 0u64, |delay, link, _| {
            let hop = problem.topology().links()[link as usize].delay;
            usable(link).then(|| delay.saturating_add(hop.as_nanos()))
        });
        Self {
            caps: caps
                .into_iter()
                .map(|cap| cap.map_or(0, |Reverse(cap)| cap))
                .collect(),
            links: links.into_iter().map(Option::unwrap_or_default).collect(),
            delays: delays.into_iter().map(Option::unwrap_or_default).collect(),
        }
    }
}

/// Settles every node from the sink outwards, least value first; `across` carries a value over a link.
fn sweep<T: Copy + Ord>(
    problem: &Problem<'_>,
    start: T,
    across: impl Fn(T, u32, f64) -> Option<T>,
) -> Vec<Option<T>> {
    let mut best: Vec<Option<T>> = vec![None; problem.topology().nodes().len()];
    let mut heap = BinaryHeap::new();
    best[problem.sink] = Some(start);
    heap.push(Reverse((start, problem.sink as u32)));
    while let Some(Reverse((value, node))) = heap.pop() {
        if best[node as usize].is_some_and(|settled| settled < value) {
            continue;
        }
        for arc in problem.arcs_from(node) {
            let Some(next) = across(value, arc.link, arc.rate_bps) else {
                continue;
            };
            let known = &mut best[arc.to as usize];
            if known.is_none_or(|known| next < known) {
                *known = Some(next);
                heap.push(Reverse((next, arc.to)));
            }
        }
    }
    best
}
