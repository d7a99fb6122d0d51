//! Thalweg's data path: packets from a pool, passed through configured modules without allocation,
//! lock or async.
//!
//! *The idea.* An ADU is a [`Packet`](packet::Packet): a readable header, and a payload that either
//! lies in a pooled buffer with room on both sides or is shared and unchanged. A
//! [`Module`](module::Module) changes, holds or discards packets one at a time. A
//! [`Lift`](lift::Lift) is the array of modules that a plan placed on this node for one stream, and
//! the loop that passes packets along it, forward and back.
//!
//! | room | what lives there |
//! |---|---|
//! | [`packet`] | packets, and the pool of their buffers |
//! | [`module`] | the module interface and its control messages |
//! | [`lift`] | the loop, its counters, and building a lift from a plan's words |
//! | [`modules`] | one file per module: null, keep, pack, unpack, seal, open |
//! | [`route`] | one node's part of one plan: admission, treatment and carriage of ADUs |
//! | [`relay`] | what a node does with an ADU, from its arrival to the next link or a mailbox |
//! | [`source`] | what a stream's source keeps and holds, and what it sends again |
//! | [`align`] | streams of one clock in the order of their times |
//! | [`mailbox`] | what waits for a local subscriber, back in sequence |
//! | [`replay`] | what a node keeps for subscribers that join late |
//! | [`keys`] | stream keys by epoch, and the guarantee against repeated nonces |
//!
//! *What it does not do.* It has no clock, socket, thread or randomness: times and seeds are
//! arguments. It decides neither the order of sending (the outbox does) nor the placement of
//! modules (the planner does).
//!
//! *Sources.* Da `CaPo++` (spec DC-1 … DC-5, DC-19, §5(d)); design.md, "Data path".
#![forbid(unsafe_code)]

extern crate alloc;

pub mod align;
pub mod keys;
pub mod lift;
pub mod mailbox;
pub mod module;
pub mod modules;
pub mod packet;
pub mod relay;
pub mod replay;
pub mod route;
pub mod source;
