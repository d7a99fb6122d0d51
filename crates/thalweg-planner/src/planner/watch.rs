//! The constraints that a search watches: none at first, and more after each walk that breaks one.

use alloc::vec;
use alloc::vec::Vec;

use super::problem::{Move, Problem, Route};

/// The constraints that a search enforces in addition to cost, rates, slots and trust.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// The deadline is enforced.
    pub(super) deadline: bool,
    /// The number of hops is enforced.
    pub(super) length: bool,
    /// By node: its bit among the nodes that may be visited only once.
    pub(super) once: Vec<Option<u32>>,
    /// Number of such nodes.
    pub(super) once_count: u32,
}

impl Watch {
    pub(super) fn nothing(problem: &Problem<'_>) -> Self {
        Self {
            deadline: false,
            length: false,
            once: vec![None; problem.nodes()],
            once_count: 0,
        }
    }

    /// Forbids second visits to these nodes.
    pub(super) fn visit_once(&mut self, twice: Vec<usize>) {
        for node in twice {
            let bit = &mut self.once[node];
            debug_assert!(bit.is_none(), "a watched node was visited twice");
            if bit.is_none() {
                *bit = Some(self.once_count);
                self.once_count += 1;
            }
        }
    }
}

/// Returns the nodes that a route visits more than once, without repetition.
pub(super) fn visited_twice(problem: &Problem<'_>, route: &Route) -> Vec<usize> {
    let mut seen: Vec<usize> = vec![problem.source];
    for step in &route.moves {
        if let Move::Hop { to, .. } = step {
            seen.push(*to);
        }
    }
    seen.sort_unstable();
    let mut twice: Vec<usize> = seen
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
        .collect();
    twice.dedup();
    twice
}
