//! Lower bounds from one node to every other: three sweeps over the links, one per sum.
//!
//! *The idea.* Σ 1/rate, Σ delay, and hops, each minimised by itself over links that can carry the
//! stream at all. They ignore states, so they are cheap, and they limit how much of the network a
//! search from the far end has to explore.
//!
//! When links change later, sums that have fallen are lowered from there; sums that have risen
//! stay, as they remain lower bounds.
//!
//! *Sources.* docs/concepts/planner.md §4, §11; Dijkstra 1959.

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::cost::Cost;
use super::problem::{Arc, Problem};

/// Minimum sums by node; unreachable nodes have the maximum value.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// Σ 1/rate in s/Mbit, rounded down.
    pub(super) slowness: Vec<f64>,
    /// Σ delay in nanoseconds.
    pub(super) delays: Vec<u64>,
    pub(super) hops: Vec<u32>,
}

/// A node's sums.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSums {
    pub(super) slowness: f64,
    pub(super) delay_ns: u64,
    pub(super) hops: u32,
}

/// Rounds the stored slowness down: sums of rounded terms may lie slightly above the true sum.
const BELOW: f64 = 1.0 - 1e-9;

impl Reach {
    /// Returns all-zero sums, for a search that starts from many nodes.
    pub(super) fn everywhere(problem: &Problem<'_>) -> Self {
        let nodes = problem.nodes();
        Self {
            slowness: vec![0.0; nodes],
            delays: vec![0; nodes],
            hops: vec![0; nodes],
        }
    }

    /// Returns the sums from one node.
    ///
    /// Cost    O(links · log nodes)
    pub(super) fn of(problem: &Problem<'_>, from: usize) -> Self {
        let slow = sweep(problem, from, |arc| Cost::from_f64(1e6 / arc.rate_bps));
        let below = |cost: &Cost| cost.as_f64() * BELOW;
        let delays = sweep(problem, from, |arc| Cost::from_quanta(arc.delay_ns));
        let hops = sweep(problem, from, |_| Cost::from_quanta(1));
        Self {
            slowness: slow.iter().map(below).collect(),
            delays: delays.iter().map(|sum| sum.quanta()).collect(),
            hops: hops.iter().map(|sum| sum.quanta() as u32).collect(),
        }
    }

    /// Returns a node's sums.
    pub(super) fn near(&self, node: u32) -> NodeSums {
        let at = node as usize;
        NodeSums {
            slowness: self.slowness[at],
            delay_ns: self.delays[at],
            hops: self.hops[at],
        }
    }

    /// Lowers the sums that have fallen since the links at `changed` changed; returns the former
    /// sums of those nodes. `None` if an unreachable node has become reachable.
    ///
    /// Cost    O(links of the nodes with reduced sums)
    pub(super) fn lower(
        &mut self,
        problem: &Problem<'_>,
        changed: &[u32],
    ) -> Option<BTreeMap<u32, NodeSums>> {
        let mut before = BTreeMap::new();
        let mut queue: VecDeque<u32> = changed.iter().copied().collect();
        while let Some(node) = queue.pop_front() {
            let from = self.near(node);
            if from.hops == u32::MAX {
                continue;
            }
            for arc in problem.arcs_from(node) {
                if !problem.is_of_use(arc) {
                    continue;
                }
                let held = self.near(arc.to);
                let slowness = from.slowness + 1e6 / arc.rate_bps * BELOW;
                let delay_ns = from.delay_ns.saturating_add(arc.delay_ns);
                let hops = from.hops + 1;
                if slowness >= held.slowness && delay_ns >= held.delay_ns && hops >= held.hops {
                    continue;
                }
                // Newly reachable: the caller has to plan from scratch.
                if held.hops == u32::MAX {
                    return None;
                }
                before.entry(arc.to).or_insert(held);
                let to = arc.to as usize;
                self.slowness[to] = slowness.min(held.slowness);
                self.delays[to] = delay_ns.min(held.delay_ns);
                self.hops[to] = hops.min(held.hops);
                queue.push_back(arc.to);
            }
        }
        Some(before)
    }
}

/// Settles every node from one outwards, smallest sum first.
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
