//! The integration tests of the simulator, one binary.

mod regressions;
mod rig;
mod transport;
mod worlds;
