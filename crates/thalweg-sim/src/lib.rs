//! Thalweg's virtual world: hosts, lines and QUIC in virtual time, from one seed.
//!
//! *The idea.* The machines that the node runs are driven by a clock that is a number, over lines that are arithmetic,
//! by a transport that is the node's own QUIC without its sockets. So a second of a world costs milliseconds, and the
//! same seed gives the same world on every machine.
//!
//! | room | what lives there |
//! |---|---|
//! | [`play`] | a world as it runs: hosts, lines and weather on one queue of events |
//! | [`host`] | one node: the product's machines, joined |
//! | [`transport`] | one end of one link: control frames and ADUs on QUIC in virtual time |
//! | [`dumbbell`] | several links through one bottleneck |
//! | [`clock`], [`keys`] | a host's skewed clock; signatures and chance from the seed |
//! | [`traffic`], [`film`] | what producers send |
//! | [`watch`] | who watches a run: the next seven |
//! | [`trace`] | what happens, as a hash and as lines |
//! | [`fate`], [`mod@reference`] | what becomes of each ADU, and what should |
//! | [`oracle`] | what must never happen |
//! | [`promise`] | what plans said of their links, and what was carried |
//! | [`viewer`] | what a viewer of video saw |
//! | [`report`] | what became of it, as simulator and testbed say it |
//! | [`flood`] | control planes alone, by the hundred |
//! | [`generate`] | worlds made up from a seed |
//!
//! The lines between two ports are [`thalweg_core::line`], the randomness [`thalweg_core::random`].
//!
//! *What it does not do.* It opens no file and no socket, and reads no clock.
//!
//! *Sources.* `FoundationDB`'s simulation; noq-proto, the sans-IO half of the node's QUIC.
#![forbid(unsafe_code)]

pub mod clock;
pub mod dumbbell;
pub mod fate;
pub mod film;
pub mod flood;
pub mod generate;
pub mod host;
pub mod keys;
pub mod oracle;
pub mod play;
pub mod promise;
pub mod reference;
pub mod report;
pub mod trace;
pub mod traffic;
pub mod transport;
pub mod viewer;
pub mod watch;
