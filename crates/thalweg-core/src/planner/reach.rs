//! What it takes at least to get from one node to every other: three sweeps over links, each ignoring all but one thing.
//!
//! *The idea.* Σ 1/rate, Σ delay, and hops, each along the path that has least of it, over links that can carry the
//! stream at all. They know nothing of states; so they are cheap, and say from the far end how much of the network a
//! search need look at.
//!
//! *Sources.* docs/planner.md §4; Dijkstra 1959.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cost::Cost;
use super::problem::{Arc, Problem};

/// Least sums by node; nodes out of reach have the largest.
pub(super) struct Reach {
    /// Σ 1/rate in s/Mbit, not above the true sum.
    pub(super) slowness: Vec<f64>,
    /// Σ delay in nanoseconds.
    pub(super) delays: Vec<u64>,
    pub(super) hops: Vec<u32>,
}

impl Reach {
    /// Returns sums that bound nothing: from many nodes at once, each is within reach.
    pub(super) fn everywhere(problem: &Problem<'_>) -> Self {
        let nodes = problem.nodes();
        Self {
            slowness: vec![0.0; nodes],
            delays: vec![0; nodes],
            hops: vec![0; nodes],
        }
    }

    /// Cost    O(links · log nodes)
    pub(super) fn of(problem: &Problem<'_>, from: usize) -> Self {
        let slow = sweep(problem, from, |arc| Cost::from_f64(1e6 / arc.rate_bps));
        // Sums of rounded terms may lie above the sum by a hair, and a bound must not.
        let below = |cost: &Cost| cost.as_f64() * (1.0 - 1e-9);
        let delays = sweep(problem, from, |arc| Cost::from_quanta(arc.delay_ns));
        let hops = sweep(problem, from, |_| Cost::from_quanta(1));
        Self {
            slowness: slow.iter().map(below).collect(),
            delays: delays.iter().map(|sum| sum.quanta()).collect(),
            hops: hops.iter().map(|sum| sum.quanta() as u32).collect(),
        }
    }
}

/// Settles every node from one outwards, least sum first.
fn sweep(problem: &Problem<'_>, from: usize, of: impl Fn(&Arc) -> Cost) -> Vec<Cost> {
    let mut best = vec![Cost::MAX; problem.nodes()];
    let mut heap = BinaryHeap::new();
    best[from] = Cost::ZERO;
    heap.push(Reverse((Cost::ZERO, from as u32)));
    while let Some(Reverse((sum, node))) = heap.pop() {
        if best[node as usize] < sum {
            continue;
        }
        for arc in problem.arcs_from(node) {
            if !problem.is_of_use(arc) {
                continue;
            }
            let next = sum + of(arc);
            if next < best[arc.to as usize] {
                best[arc.to as usize] = next;
                heap.push(Reverse((next, arc.to)));
            }
        }
    }
    best
}
