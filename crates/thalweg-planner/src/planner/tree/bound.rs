//! A lower bound on the cost of all trees.
//!
//! *The idea.* Without slots, deadlines, the length of paths and the ban on entering a node twice,
//! the best tree below a place *(node, state)* for a set of sinks either splits there into two
//! trees for a part each, or begins with one move:
//!
//! ```text
//! d[S][x] = min( min over S = A ∪ B of d[A][x] + d[B][x],  min over moves x → y of cost + d[S][y] )
//! ```
//!
//! The second term is a shortest path from the values of the first, so each set is one sweep. Every
//! tree has this form, so the value at the source's initial state is a bound.
//!
//! *Sources.* docs/concepts/planner.md §9; Dreyfus and Wagner 1971; Erickson, Monma, Veinott 1987.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::super::cost::Cost;
use super::super::problem::Problem;
use super::super::states::States;

/// Maximum number of sinks: work grows as 3 to this power.
const SINKS_MAX: usize = 8;

/// Returns a lower bound on the cost of all trees; `None` if it would take more than `steps_max`
/// steps.
///
/// Each sink comes with its node and its own states, which define what is worth delivering.
///
/// Cost    O(3^sinks · places + 2^sinks · moves · log places) time, O(2^sinks · places) memory
pub(super) fn least(
    problem: &Problem<'_>,
    sinks: &[(usize, States)],
    steps_max: u32,
) -> Option<Cost> {
    let count = sinks.len();
    let places = problem.nodes() * problem.states.count();
    let steps = 3u64
        .saturating_pow(count as u32)
        .saturating_mul(places as u64);
    if count == 0 || count > SINKS_MAX || steps > u64::from(steps_max) {
        return None;
    }
    let mut values: Vec<Vec<Cost>> = vec![Vec::new(); 1 << count];
    for set in 1usize..1 << count {
        let mut value = vec![Cost::MAX; places];
        if set.is_power_of_two() {
            let (sink, states) = &sinks[set.trailing_zeros() as usize];
            for state in 0..problem.states.count() as u16 {
                if states.is_goal(state) && problem.may_be(*sink as u32, state) {
                    let place = sink * problem.states.count() + usize::from(state);
                    value[place] = problem.states.quality(state);
                }
            }
        }
        // Each pair of parts once: the first part holds the set's lowest sink.
        let lowest = set & set.wrapping_neg();
        let mut part = (set - 1) & set;
        while part > 0 {
            if part & lowest != 0 {
                let halves = values[part].iter().zip(&values[set ^ part]);
                for (held, (a, b)) in value.iter_mut().zip(halves) {
                    *held = (*held).min(*a + *b);
                }
            }
            part = (part - 1) & set;
        }
        sweep(problem, &mut value);
        values[set] = value;
    }
    let start = problem.source * problem.states.count() + usize::from(problem.states.start());
    Some(values[(1 << count) - 1][start])
}

/// Lowers every place's value to the minimum over paths to another place plus the value there.
fn sweep(problem: &Problem<'_>, value: &mut [Cost]) {
    let states = problem.states.count();
    let begun = value
        .iter()
        .enumerate()
        .filter(|(_, cost)| **cost < Cost::MAX);
    let mut heap: BinaryHeap<Reverse<(Cost, u32)>> = begun
        .map(|(place, cost)| Reverse((*cost, place as u32)))
        .collect();
    while let Some(Reverse((cost, place))) = heap.pop() {
        if value[place as usize] < cost {
            continue;
        }
        let (node, state) = (place as usize / states, (place as usize % states) as u16);
        let mut offer = |node: usize, state: u16, cost: Cost| {
            let place = node * states + usize::from(state);
            if cost < value[place] {
                value[place] = cost;
                heap.push(Reverse((cost, place as u32)));
            }
        };
        if problem.may_adapt(node as u32) {
            for back in problem.states.steps_to(state) {
                let node_index = node as u32;
                if problem.may_be(node_index, back.from) && problem.holds(node_index, back.profile)
                {
                    offer(node, back.from, cost + back.run_cost);
                }
            }
        }
        if node != problem.source {
            for arc in problem.arcs_from(node as u32) {
                if problem.may_be(arc.to, state)
                    && let Some(hop) = problem.back_cost(arc, state)
                {
                    offer(arc.to as usize, state, cost + hop);
                }
            }
        }
    }
}
