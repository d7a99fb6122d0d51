//! The map: what it costs to keep, and how soon all know of a change, by the number of nodes.
//!
//! *The idea.* The product's control planes alone, hundreds of them, on wires that are arithmetic (`thalweg_sim::flood`): so a
//! figure here is a count or a virtual time, the same on every machine, and only the size of a process is measured. `control`
//! counts what nodes say at rest (NET-CTRL), `converge` times changes (NET-CONV), `wide` does both for 10,000 nodes with the
//! directories alone, each of which knows the few nodes that speak.
//!
//! *What it does not do.* It counts no headers below a control frame, and finding out that a link is dead is not in its times:
//! that is the transport's, after 8 s, or the pulse's, after 150 ms (docs/continuity.md).

mod control;
mod converge;
mod network;
#[cfg(test)]
mod tests;
pub(crate) mod wide;

pub(crate) use control::{ID as ID_CONTROL, METRICS as METRICS_CONTROL, run as run_control};
pub(crate) use converge::{ID as ID_CONVERGE, METRICS as METRICS_CONVERGE, run as run_converge};

/// Sizes of networks, in full.
const NODES: [usize; 3] = [10, 100, 1_000];

/// The same in a quick run.
const NODES_QUICK: [usize; 2] = [10, 100];

fn sizes(is_quick: bool) -> &'static [usize] {
    if is_quick { &NODES_QUICK } else { &NODES }
}
