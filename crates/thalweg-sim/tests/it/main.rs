//! The integration tests of the simulator, one binary.

mod rig;
mod transport;
mod worlds;
