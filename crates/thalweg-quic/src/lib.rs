//! What the real QUIC and the virtual one share: congestion control, and a watch on what is below the outbox.
//!
//! *The idea.* `thalweg_core::congestion` decides, and so does `thalweg_core::outbox::gate`; both hear of packets from the
//! one place at which QUIC speaks of them, its interface for congestion controllers. `thalweg-net` hands [`factory`] to
//! iroh, `thalweg-sim` to noq-proto: so the node and the simulator send by the same words.
//!
//! | file | idea |
//! |---|---|
//! | `congestion` | controllers, by name; each is watched |
//! | `watch` | what a path lets through, for the outbox above it |
//!
//! *What it does not do.* It reads no clock but the one it is given, and opens no socket: QUIC says when.
//!
//! *Sources.* noq-proto 1.4 `congestion.rs`; docs/congestion.md; docs/outbox.md §2.

mod congestion;
mod watch;

pub use congestion::{Clock, controller, factory, watch};
pub use watch::{Reading, Watch};
