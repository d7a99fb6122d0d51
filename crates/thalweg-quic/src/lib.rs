//! The congestion control that real and simulated QUIC share, and a watch on its state for the
//! outbox.
//!
//! *The idea.* `thalweg_link::congestion` and `thalweg_link::outbox::gate` decide. Both learn of
//! packets through QUIC's only interface that reports them, the one for congestion controllers.
//! `thalweg-net` passes [`factory`] to iroh, `thalweg-sim` to noq-proto: so the node and the
//! simulator send by the same rules.
//!
//! | file | idea |
//! |---|---|
//! | `congestion` | controllers, by name; each has a watch |
//! | `watch` | what a path accepts, for the outbox above it |
//!
//! *What it does not do.* It reads no clock but the one it is given, and opens no socket.
//!
//! *Sources.* noq-proto 1.4 `congestion.rs`; docs/concepts/congestion.md; docs/concepts/outbox.md §2.

mod congestion;
mod watch;

pub use congestion::{Clock, controller, factory, watch};
pub use watch::{Reading, Watch};
