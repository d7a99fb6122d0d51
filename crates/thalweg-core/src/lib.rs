//! Thalweg's sans-IO core: everything that can be decided without the operating system.
//!
//! *The idea.* Time, seeds and bytes arrive as arguments; decisions leave as values. So the same
//! code runs in the node, in the simulator and in tests, and every run can be repeated.
//! `#![no_std]` makes the compiler enforce this: no clock, socket, thread or hash seed is
//! reachable.
//!
//! | module | what it holds |
//! |---|---|
//! | [`time`], [`units`], [`id`] | values with units, and identifiers |
//! | [`limits`] | every bound on what a peer may make a node store |
//! | [`admission`] | permissions in a fabric, by signed grants |
//! | [`adu`], [`needs`] | the data unit, and a stream's requirements |
//! | [`event`] | why an ADU was dropped |
//! | [`histogram`] | latency percentiles |
//! | [`congestion`] | congestion window and pacing rate of a path |
//! | [`hop`] | sending and receiving ADUs over a link |
//! | [`model`] | topology, links, streams, weights: the planner's input |
//! | [`planner`] | `plan(&Snapshot, &Policy) -> (Plan, Vec<Shortfall>)` |
//! | [`routing`], [`session`] | the directory of nodes, and the deployment of plans |
//! | [`mod@line`], [`random`] | one direction of a line with delay, losses and a queue; numbers from a seed |
//! | [`control`] | a node's control plane, which combines all of the above |
//! | [`outbox`] | the send queue of one link, and its scheduling |
//! | [`ledger`] | the fate of a stream's ADUs on all nodes of its path |
//! | [`pace`] | a link over TCP: chunks of streams on connections that may fail |
//! | [`transfer`] | files over streams: sending, resending, verification |
//! | [`trace`] | the latency of each hop, by stamps in the ADU |
//! | [`mailbox`] | the queue for a local subscriber |
//! | [`wire`] | total decoding and encoding of bytes |
//!
//! # The contract of a state machine
//!
//! Getters take `&self`; `handle_*` takes an input; `poll_*` returns an output; `poll_timeout`
//! returns the time of the next call. Nothing blocks or calls back, and draining after each input
//! or after a batch yields the same outputs.
//!
//! *What it does not do.* No I/O of any kind (`thalweg-net`), no media formats (`thalweg-media`),
//! no text parsing (`thalweg-world`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
pub mod adu;
pub mod congestion;
pub mod control;
pub mod event;
pub mod histogram;
pub mod hop;
pub mod id;
pub mod ledger;
pub mod limits;
pub mod line;
pub mod mailbox;
pub mod model;
pub mod needs;
pub mod outbox;
pub mod pace;
pub mod planner;
pub mod random;
pub mod replay;
pub mod routing;
pub mod session;
pub mod time;
pub mod trace;
pub mod transfer;
pub mod units;
pub mod wire;
