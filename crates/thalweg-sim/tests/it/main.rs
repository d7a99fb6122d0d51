//! The integration tests of the simulator, one binary.
