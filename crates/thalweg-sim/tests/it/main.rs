//! The integration tests of the simulator, in one binary.

mod congestion;
mod continuity;
mod flood;
mod heed;
mod ladder;
mod outbox;
mod promises;
mod recast;
mod regressions;
mod restarts;
mod rig;
mod routing;
mod trace;
mod transport;
mod worlds;
