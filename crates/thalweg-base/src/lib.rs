//! Values with units, names, bounds, and bytes to values and back: what every other crate of
//! Thalweg speaks in.
//!
//! *The idea.* Time, seeds and bytes arrive as arguments; decisions leave as values. So the same
//! code runs in the node, in the simulator and in a test, and a run can be repeated. `#![no_std]`
//! makes the compiler keep that promise here and in
//! `thalweg-netem`, `thalweg-planner`, `thalweg-link`, `thalweg-control` and `thalweg-transfer`:
//! there is no clock, socket, thread or hash seed to reach for.
//!
//! | room | contents |
//! |---|---|
//! | [`time`], [`units`], [`id`], [`random`] | values with units, names, numbers from a seed |
//! | [`limits`] | every bound on what a peer may make us hold |
//! | [`adu`], [`needs`], [`description`] | what is carried, what a stream requires, what it says of itself |
//! | [`part`], [`feed`] | a node's part of a plan, and the copies that a grafted plan gets |
//! | [`mailbox`] | what a subscriber asks of its mailbox |
//! | [`seen`], [`count`], [`rights`] | what a sink has received, what a node counts, and what it may do |
//! | [`event`], [`histogram`], [`trace`] | why an ADU was dropped, how long things took, what each hop cost |
//! | [`wire`] | bytes to values and back, totally |
//!
//! # The contract of a state machine
//!
//! Getters take `&self`; `handle_*` takes an input; `poll_*` returns an output; `poll_timeout`
//! returns the time of the next call. Nothing blocks or calls back, and draining after each input
//! or after a batch yields the same outputs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod adu;
pub mod count;
pub mod description;
pub mod event;
pub mod feed;
pub mod histogram;
pub mod id;
pub mod limits;
pub mod mailbox;
pub mod needs;
pub mod part;
pub mod random;
pub mod rights;
pub mod seen;
pub mod time;
pub mod trace;
pub mod units;
mod varint;
pub mod wire;
