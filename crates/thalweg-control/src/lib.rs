//! The control plane of a node, sans-IO: what it knows of the others, and what it decides about streams.
//!
//! | room | contents |
//! |---|---|
//! | [`admission`] | who may do what in a fabric, by signed grants |
//! | [`routing`] | the directory of records, and how often they are announced |
//! | [`ledger`] | what became of a stream's ADUs on all nodes of its path |
//! | [`session`] | the source's side of a stream: plans, deployment, what is kept to be resent |
//! | `facts`, `effect`, `planning` | what all may read, what each may ask for, the planner's input |
//! | `records`, `membership` | owners of what a node knows of others |
//! | `parts`, `accounting`, `health` | owners of what it does for plans of any source |
//! | `sinks`, `sources`, `tracing` | owners of what its programs want and publish |
//! | `mail` | the way out |
//! | [`control`] | the router between all of these, and the interface of the crate |
//!
//! *What it does not do.* It opens no socket and reads no clock: `thalweg-node` and `thalweg-sim` drive it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accounting;
pub mod admission;
pub mod control;
mod effect;
mod facts;
mod health;
pub mod ledger;
mod mail;
mod membership;
mod parts;
mod planning;
mod records;
pub mod routing;
pub mod session;
mod sinks;
mod sources;
mod tracing;
