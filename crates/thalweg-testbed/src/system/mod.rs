//! The machine's interface: namespaces, TUN devices, child processes, the clock, and the right to use them.
//!
//! Everything that can outlive a process carries its id ([`owner`]), so that the next run finds what a
//! killed one left. Children are started by [`inside`], which ties their life to ours before it becomes
//! them.

pub mod clock;
pub mod inside;
pub mod leftovers;
pub mod owner;
pub mod privilege;
pub mod program;
pub mod tun;
