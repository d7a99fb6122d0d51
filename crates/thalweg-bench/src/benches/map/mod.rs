//! The map: the cost of keeping it, and the time until all nodes know of a change, by the number of nodes.
//!
//! Hundreds of the product's control planes run on computed wires (`thalweg_sim::flood`), so a figure
//! here is a count or a virtual time, the same on every machine; only process sizes are measured.
//! `control` counts the traffic at rest (NET-CTRL), `converge` times changes (NET-CONV), `wide` does
//! both for 10,000 nodes with only their directories, each of which knows a few speaking nodes.
//!
//! Headers below a control frame do not count, nor does the time to detect a dead link: that is the
//! transport's, 8 s, or the pulse's, 150 ms (docs/concepts/continuity.md).

mod control;
mod converge;
mod network;
#[cfg(test)]
mod tests;
pub(crate) mod wide;

pub(crate) use control::{ID as ID_CONTROL, METRICS as METRICS_CONTROL, run as run_control};
pub(crate) use converge::{ID as ID_CONVERGE, METRICS as METRICS_CONVERGE, run as run_converge};

/// Network sizes in a full run.
const NODES: [usize; 3] = [10, 100, 1_000];

/// The same in a quick run.
const NODES_QUICK: [usize; 2] = [10, 100];

fn sizes(is_quick: bool) -> &'static [usize] {
    if is_quick { &NODES_QUICK } else { &NODES }
}
