//! Thalweg's virtual world: hosts, lines and QUIC in virtual time, from one seed.
//!
//! *The idea.* The machines that the node runs are driven by a clock that is a number, over lines that are arithmetic,
//! by a transport that is the node's own QUIC without its sockets. So a second of a world costs milliseconds, and the
//! same seed gives the same world on every machine.
//!
//! | room | what lives there |
//! |---|---|
//! | [`transport`] | one end of one link: control frames and ADUs on QUIC in virtual time |
//! | [`traffic`] | what producers send |
//! | [`report`] | what became of it, as simulator and testbed say it |
//! | [`generate`] | worlds made up from a seed |
//!
//! The lines between two ports are [`thalweg_core::line`], the randomness [`thalweg_core::random`].
//!
//! *What it does not do.* It opens no file and no socket, and reads no clock.
//!
//! *Sources.* `FoundationDB`'s simulation; noq-proto, the sans-IO half of the node's QUIC.
#![forbid(unsafe_code)]

pub mod generate;
pub mod report;
pub mod traffic;
pub mod transport;
