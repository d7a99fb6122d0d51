//! The integration tests of the planner, one binary.

mod planner;
