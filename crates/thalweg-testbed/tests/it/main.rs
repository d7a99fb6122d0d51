//! Tests of the program `thalweg-testbed`: what it refuses, what it builds, and that nothing of it stays.
//!
//! Tests that need root run as root, as in CI; for other users they print that, and check the refusal
//! instead. No test leaves namespaces behind.

mod network;
mod program;
mod reach;
mod roaming;
mod usage;
