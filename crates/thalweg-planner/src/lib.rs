//! The planner: `plan(&Snapshot, &Policy) -> (Plan, Vec<Shortfall>)`, and the model of nodes, links
//! and streams that it takes.
//!
//! *The idea.* A pure function of the map, the stream and the policy; docs/concepts/planner.md has
//! its mathematics.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod model;
pub mod planner;
