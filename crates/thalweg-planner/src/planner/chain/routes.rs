//! The few paths that a path planner tries.
//!
//! *The idea.* One sweep from the sink per criterion: fewest hops; minimum Σ 1/rate; widest;
//! fastest; and, where the stream is confidential, minimum Σ 1/rate over links that may carry
//! plaintext. Every value grows with every hop (hops are counted last), so following it from the
//! source ends at the sink and visits no node twice. Ties are broken by the smallest node name, so
//! the order of nodes in a topology does not matter.
//!
//! *What it does not do.* It ignores slots, layers and the cost of sealing.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use thalweg_base::limits::PATH_NODES_MAX;

use super::super::cost::Cost;
use super::super::problem::{Arc, Problem};

/// Returns the paths to try, each as its links from the source on; without duplicates and too long
/// ones.
pub(super) fn candidates(problem: &Problem<'_>, fewest_hops_only: bool) -> Vec<Vec<Arc>> {
    let mut found = vec![path(problem, |(), _| Some(()), ())];
    if !fewest_hops_only {
        let slowness = |arc: &Arc| Cost::from_f64(1.0 / arc.rate_bps);
        found.push(path(
            problem,
            |sum: Cost, arc| Some(sum + slowness(arc)),
            Cost::ZERO,
        ));
        let width =
            |Reverse(width): Reverse<u64>, arc: &Arc| Some(Reverse(width.min(arc.rate_bps as u64)));
        found.push(path(problem, width, Reverse(u64::MAX)));
        let delay = |sum: u64, arc: &Arc| Some(sum.saturating_add(arc.delay_ns));
        found.push(path(problem, delay, 0u64));
        let open = |sum: Cost, arc: &Arc| (arc.patterns & 1 == 1).then(|| sum + slowness(arc));
        found.push(path(problem, open, Cost::ZERO));
    }
    let mut paths: Vec<Vec<Arc>> = Vec::new();
    for path in found.into_iter().flatten() {
        let links = |path: &[Arc]| path.iter().map(|arc| arc.link).collect::<Vec<_>>();
        let known = paths.iter().any(|other| links(other) == links(&path));
        if !known && path.len() < PATH_NODES_MAX {
            paths.push(path);
        }
    }
    paths
}

/// Returns the path of minimum value; `None` if there is none.
fn path<T: Copy + Ord>(
    problem: &Problem<'_>,
    across: impl Fn(T, &Arc) -> Option<T>,
    start: T,
) -> Option<Vec<Arc>> {
    let nodes = problem.topology().nodes();
    // By node: the value and hops to the sink, and the first link towards it, seen from the node.
    let mut best: Vec<Option<((T, u32), Arc)>> = vec![None; nodes.len()];
    let mut heap = BinaryHeap::new();
    heap.push(Reverse(((start, 0u32), problem.sink as u32)));
    while let Some(Reverse((value, node))) = heap.pop() {
        let stale = best[node as usize].is_some_and(|(settled, _)| settled < value);
        if stale || node as usize == problem.source {
            continue;
        }
        for arc in problem.arcs_from(node) {
            let to = arc.to as usize;
            let Some(next) = across(value.0, arc).map(|next| (next, value.1 + 1)) else {
                continue;
            };
            let back = Arc { to: node, ..*arc };
            let name = |arc: &Arc| (&nodes[arc.to as usize].name, arc.link);
            let (lower, equal) = match &best[to] {
                None => (to != problem.sink, false),
                Some((known, via)) => (next < *known, next == *known && name(&back) < name(via)),
            };
            if lower || equal {
                best[to] = Some((next, back));
            }
            // A tie is decided by name and leaves the queue as it is.
            if lower {
                heap.push(Reverse((next, arc.to)));
            }
        }
    }
    let mut path = Vec::new();
    let mut at = problem.source;
    while at != problem.sink {
        let (_, arc) = best[at]?;
        path.push(arc);
        at = arc.to as usize;
    }
    Some(path)
}
