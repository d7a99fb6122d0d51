//! Thalweg's data path: packets from a pool, carried through configured modules without allocation, lock or async.
//!
//! *The idea.* An ADU is a [`Packet`](packet::Packet): a readable header and a payload that lies in a pooled buffer with
//! room on both sides, or is shared and untouched. A [`Module`](module::Module) changes, holds or discards packets one
//! at a time; a [`Lift`](lift::Lift) is the array of modules that a plan placed on this node for one stream, and the
//! loop that carries packets along it, forward and back.
//!
//! | room | what lives there |
//! |---|---|
//! | [`packet`] | packets and the pool their buffers come from |
//! | [`module`] | what a module may do, and how it is told to do otherwise |
//! | [`lift`] | the loop, its counters, and building one from a plan's words |
//! | [`modules`] | one file one module: null, keep, pack, unpack, seal, open |
//! | [`route`] | one node's part of one plan: who may send here, what becomes of an ADU, how it goes on |
//! | [`keys`] | stream keys by epoch, and what makes nonces unrepeatable |
//!
//! *What it does not do.* It has no clock, socket, thread or randomness: time and seeds are arguments. It decides
//! nothing about what to send first (the outbox) or which modules run where (the planner).
//!
//! *Sources.* Da `CaPo++` (spec DC-1 … DC-5, DC-19, §5(d)); design.md, "Data path".
#![forbid(unsafe_code)]

pub mod keys;
pub mod lift;
pub mod module;
pub mod modules;
pub mod packet;
pub mod route;
