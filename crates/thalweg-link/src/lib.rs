//! One link between two nodes, sans-IO: what waits, what goes next, and how much may be in flight.
//!
//! | room | contents |
//! |---|---|
//! | [`outbox`] | what waits to be sent over one link, and what goes next |
//! | [`hop`] | the outbox joined with the streams of its transport, and the outcome of each ADU |
//! | [`gauge`], [`pulse`] | what a link is measured to carry, and whether the neighbour answers |
//! | [`congestion`] | the congestion controller, and the rate that a path carries |
//! | [`tcp_mux`] | a link over TCP: chunks of streams on several connections that may fail |
//!
//! *What it does not do.* It opens no socket and reads no clock: `thalweg-net` and `thalweg-sim` drive it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod congestion;
pub mod gauge;
pub mod hop;
pub mod outbox;
pub mod pulse;
pub mod tcp_mux;
