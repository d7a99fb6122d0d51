//! The world on the real kernel: network namespaces, a line between them, real node processes.
//!
//! *The idea.* The same world file that the simulator plays in virtual time is played here in real time by real
//! processes, and the result is told in the same form; where the two differ, one of them is wrong.
//!
//! | room | what lives there |
//! |---|---|
//! | [`system`] | what is asked of the machine: namespaces, TUN devices, children, the clock, privileges |
//! | [`emulator`] | the thread that moves packets along the lines |
//! | [`network`] | a world's namespaces and links |
//! | [`fabric`] | the nodes as processes |
//! | [`role`] | producer and subscriber, which the program is in its children |
//! | [`play`] | a world from its first packet to its report |
//! | [`score`] | what was given against what was received |
//! | [`ladder`] | many worlds, beside the simulator |
//! | [`calibrate`] | the instrument measured by foreign programs |
//! | [`exit`] | codes and the one sentence |
//!
//! *What it does not do.* It runs on Linux only and as root only, and says so. Nothing of a node is in it: nodes are
//! processes.
//!
//! *Sources.* docs/testbed.md.

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
