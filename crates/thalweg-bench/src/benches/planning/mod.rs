//! The planner: Panda's experiments with our planners, and the scaling of the exact one.
//!
//! `chains` is BM-P1 and BM-P2 of the specification's B0.1: 1,000 random chains of 2 to 6 nodes with
//! links of 10 Mbit/s, 2 Mbit/s or 100 kbit/s that are secure or not. `scale` plans on graphs of 10 to
//! 10,000 nodes and on trees of 10 and 100 sinks; `memory` measures its memory, `replan` the time to
//! replan, and `ilp` an integer programme. Worlds are drawn from seeds, so every run has the same.
//!
//! The thesis gives neither its distributions nor its cost function nor its stream, so costs and shares
//! cannot be compared with its figures; shapes can.

pub(crate) mod chains;
pub(crate) mod ilp;
pub(crate) mod memory;
mod replan;
mod rng;
pub(crate) mod scale;

use std::time::Instant;

use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::{Plan, Planner, Policy, plan};

/// Plans, and returns the plan with the time in microseconds.
fn timed(snapshot: &Snapshot, planner: Planner) -> (Plan, f64) {
    let policy = Policy {
        planner,
        ..Policy::default()
    };
    let start = Instant::now();
    let (plan, _) = plan(snapshot, &policy);
    (plan, start.elapsed().as_nanos() as f64 / 1e3)
}
