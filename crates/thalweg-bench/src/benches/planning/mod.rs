//! The planner: Panda's experiments with our planners, and how far the exact one scales.
//!
//! *The idea.* `chains` makes BM-P1 and BM-P2 of the specification's B0.1: 1,000 random chains of 2 to 6 nodes whose
//! links have 10 Mbit/s, 2 Mbit/s or 100 kbit/s and are secure or not. `scale` plans on graphs of 10 to 10,000 nodes and
//! on trees of 10 and 100 sinks, `memory` says what that takes, `replan` what planning again does, and `ilp` plans beside
//! an integer programme. Worlds are drawn from seeds, so that every run has the same.
//!
//! *What it does not do.* The thesis does not give its distributions, its cost function or its stream, so neither costs
//! nor shares can be compared with its figures; shapes can.

pub(crate) mod chains;
mod dice;
pub(crate) mod ilp;
pub(crate) mod memory;
mod replan;
pub(crate) mod scale;

use std::time::Instant;

use thalweg_core::model::Snapshot;
use thalweg_core::planner::{Plan, Planner, Policy, plan};

/// Plans, and returns the plan with the microseconds it took.
fn timed(snapshot: &Snapshot, planner: Planner) -> (Plan, f64) {
    let policy = Policy {
        planner,
        ..Policy::default()
    };
    let start = Instant::now();
    let (plan, _) = plan(snapshot, &policy);
    (plan, start.elapsed().as_nanos() as f64 / 1e3)
}
