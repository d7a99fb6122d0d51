//! The virtual world: what a world file describes, played in virtual time from one seed.
//!
//! *The idea.* See the modules: [`traffic`] says what producers send, [`report`] what became of it.
//!
//! *What it does not do.* It asks no clock and opens no socket: the same seed gives the same run on every machine.
#![forbid(unsafe_code)]

pub mod generate;
pub mod report;
pub mod traffic;
