//! The program `thalweg-testbed` from outside: what it refuses, what it builds, and that nothing of it stays.
//!
//! *The idea.* What needs root is run by root, as in CI; by anybody else these tests say so and prove the sentence
//! instead. No test leaves the namespaces that it makes.

mod network;
mod program;
mod reach;
mod roaming;
mod usage;
