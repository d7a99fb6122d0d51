//! What the testbed asks of the machine: namespaces, TUN devices, child processes, one clock, and the right to use them.
//!
//! *The idea.* Everything that can outlive a process has the process's name on it ([`owner`]), so that the next run finds
//! what a killed one left. Children are started by [`inside`], which ties their life to ours before it becomes them.
//!
//! *What it does not do.* It knows nothing of worlds.

pub mod clock;
pub mod inside;
pub mod leftovers;
pub mod owner;
pub mod privilege;
pub mod program;
pub mod tun;
