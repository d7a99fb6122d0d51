//! Thalweg's mind: everything that can be decided without asking the machine.
//!
//! *The idea.* Time, seeds and bytes arrive as arguments; decisions leave as values. So the same code runs in the
//! node, in the simulator and in a test, and a run can be repeated. `#![no_std]` makes the compiler keep that promise:
//! there is no clock, socket, thread or hash seed to reach for.
//!
//! | room | what lives there |
//! |---|---|
//! | [`time`], [`units`], [`id`] | values with units, and names |
//! | [`limits`] | every bound on what a peer may make us hold |
//! | [`admission`] | who may do what in a fabric, by signed grants |
//! | [`adu`], [`needs`] | what is carried, and what a stream requires |
//! | [`event`] | why an ADU went no further |
//! | [`histogram`] | how long things took, and their percentiles |
//! | [`congestion`] | how much a path may have on its way, and what rate it carries |
//! | [`hop`] | how an ADU travels over a link, and what became of it |
//! | [`model`] | topology, links, streams, weights: the planner's input |
//! | [`planner`] | `plan(&Snapshot, &Policy) -> (Plan, Vec<Shortfall>)` |
//! | [`routing`], [`session`] | the directory of nodes, and the deployment of plans |
//! | [`mod@line`], [`random`] | one direction of a line with delay, losses and a queue; numbers from a seed |
//! | [`control`] | the control plane of a node: all of the above, joined by messages |
//! | [`outbox`] | what waits to be sent over one link, and what goes next |
//! | [`ledger`] | what became of a stream's ADUs on all nodes of its path |
//! | [`pace`] | a link over TCP: chunks of streams on connections that may fail |
//! | [`transfer`] | files over streams: what is sent, resent, believed |
//! | [`trace`] | what each hop cost an ADU, by stamps that it bears |
//! | [`mailbox`] | what waits for a local subscriber |
//! | [`wire`] | bytes to values and back, totally |
//!
//! # The contract of a state machine
//!
//! Getters take `&self`; `handle_*` takes something in; `poll_*` gives something out; `poll_timeout` says when to come
//! back. Nothing blocks, nothing calls back, and draining after each input or after a batch gives the same outputs.
//!
//! *What it does not do.* No I/O of any kind (`thalweg-net`), no formats of media (`thalweg-media`), no text parsing
//! (`thalweg-world`).
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
