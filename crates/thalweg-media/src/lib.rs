//! Media formats above the lift.
//!
//! Every room here is pure: bytes in, bytes out; no clock, socket, thread or randomness.
mod crc;
pub mod layered;
pub mod picture;
pub mod scene;
