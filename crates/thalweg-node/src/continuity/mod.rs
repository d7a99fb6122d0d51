//! What keeps streams whole when a way breaks: the node's part of docs/continuity.md.
//!
//! *The idea.* `thalweg_core::control::continuity` decides; what it needs to see and to do is here, at the three places of a
//! path. Every node listens whether its neighbours answer (`pulse`). The sink's node knows what has come ([`Arrivals`]), says
//! so, and lets nothing through twice. The source's node keeps what its sinks have not acknowledged and sends it again
//! ([`Outlet`]); a stream may have it held for as long as there is no way (`hold`).
//!
//! *What it does not do.* It makes no plan and no message; `control` drives both.

mod arrivals;
mod hold;
mod opening;
mod outlet;
mod pulse;
#[cfg(test)]
mod tests;

pub(crate) use arrivals::{Arrivals, Arrived};
pub(crate) use outlet::{Order, Outlet, Plan, Served};
pub(crate) use pulse::listen;
