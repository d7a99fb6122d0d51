//! Proves what links and endpoints promise, with real QUIC on loopback.
//!
//! Every wait is bounded, so that a broken promise is a failure and not a test that hangs; no time is asserted.

mod admission;
mod carriage;
mod confined;
mod cut_through;
mod dialling;
mod door;
mod hostile;
mod lan;
mod narrow;
mod node;
mod shaping;
mod shutdown;
mod silence;
mod tcp;
