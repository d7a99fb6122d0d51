//! The control plane of a node, sans-IO: what it knows of the others, and what it decides about streams.
//!
//! | room | contents |
//! |---|---|
//! | [`admission`] | who may do what in a fabric, by signed grants |
//! | [`routing`] | the directory of records, and what links are measured to carry |
//! | [`ledger`] | what became of a stream's ADUs on all nodes of its path |
//! | [`session`] | the source's side of a stream: plans, deployment, what is kept to be resent |
//! | [`control`] | all of these, joined by messages |
//!
//! *What it does not do.* It opens no socket and reads no clock: `thalweg-node` and `thalweg-sim` drive it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
pub mod control;
pub mod ledger;
pub mod routing;
pub mod session;
