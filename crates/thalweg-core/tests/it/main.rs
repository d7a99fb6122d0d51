//! The integration tests of the core, one binary.

mod line;
mod planner;
