//! The testbed: network namespaces, emulated lines between them, real node processes.
//!
//! The simulator's world files run here in real time with real processes, and give the same report;
//! where the two differ, one of them is wrong. It runs on Linux as root only, and fails with a message
//! otherwise. It links no node code: nodes are processes.
//!
//! | room | what lives there |
//! |---|---|
//! | [`system`] | the machine's interface: namespaces, TUN devices, children, the clock, privileges |
//! | [`emulator`] | the thread that moves packets along the lines |
//! | [`network`] | a world's namespaces and links |
//! | [`fabric`] | the nodes as processes |
//! | [`role`] | producer and subscriber, the program's roles in its children |
//! | [`play`] | runs a world from its first packet to its report |
//! | [`score`] | compares what was given with what was received |
//! | [`ladder`] | many worlds, beside the simulator |
//! | [`calibrate`] | measures the instrument with external programs |
//! | [`exit`] | exit codes and error messages |
//!
//! *Sources.* docs/guides/testbed.md.

pub mod calibrate;
pub mod emulator;
pub mod exit;
pub mod fabric;
pub mod ladder;
pub mod network;
pub mod play;
pub mod role;
pub mod score;
pub mod system;
