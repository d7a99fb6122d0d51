//! Keeps streams whole when a path breaks: the node's part of docs/concepts/continuity.md.
//!
//! *The idea.* The control plane (`health` in thalweg-control) decides; this module observes and acts at
//! three places of a path. Every node monitors whether its neighbours answer (`pulse`). The sink's node
//! records what has arrived (in the stream's lane), reports it, and rejects duplicates. The source's node
//! keeps what its sinks have not acknowledged and resends it ([`Outlet`]); a stream may have its
//! ADUs held for as long as there is no path (`outlet::hold`).
//!
//! *What it does not do.* It makes no plans and no messages; `control` drives both.

mod outlet;
mod pulse;

pub(crate) use outlet::{Order, Outlet};
pub(crate) use pulse::{Heard, monitor_neighbours};
pub(crate) use thalweg_dataplane::source::{Plan, Served};
