//! Proves the behaviour of links and endpoints, with real QUIC and TCP on loopback.
//!
//! Every wait is bounded, so that a failure does not hang; tests assert no durations.

mod admission;
mod carriage;
mod confined;
mod crowd;
mod cut_through;
mod dialling;
mod direct;
mod door;
mod hostile;
mod lan;
mod narrow;
mod node;
mod shaping;
mod shutdown;
mod silence;
mod stall;
mod tcp;
