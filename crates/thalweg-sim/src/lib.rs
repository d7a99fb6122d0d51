//! Thalweg's simulator: hosts, lines and QUIC in virtual time, from one seed.
//!
//! The node's own state machines run on a numeric clock, over computed lines, with the node's own QUIC
//! without its sockets. So a simulated second costs milliseconds, and the same seed gives the same run
//! on every machine. The crate opens no file and no socket, and reads no clock.
//!
//! | room | what lives there |
//! |---|---|
//! | [`play`] | runs a world: hosts, lines and world events on one event queue |
//! | [`host`] | one node: the product's state machines, joined |
//! | [`transport`] | one end of one link: control frames and ADUs on QUIC in virtual time |
//! | [`dumbbell`] | several links through one bottleneck |
//! | [`clock`], [`keys`] | a host's skewed clock; signatures and randomness from the seed |
//! | [`traffic`], [`film`] | what producers send |
//! | [`watch`] | the observer of a run, which joins the next seven |
//! | [`trace`] | a run's events, as a hash and as lines |
//! | [`fate`], [`mod@reference`] | what happens to each ADU, and what should |
//! | [`oracle`] | what must never happen |
//! | [`promise`] | what plans promised of their links, and what was carried |
//! | [`viewer`] | the pictures that a viewer saw |
//! | [`report`] | the results, in one format for simulator and testbed |
//! | [`flood`] | hundreds of control planes, without a data path |
//! | [`generate`] | worlds generated from a seed |
//!
//! The lines between two ports are [`thalweg_netem`], the random generator [`thalweg_base::random`].
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
