//! A link over TCP, for networks that block UDP: chunks of many streams on one connection, with
//! standbys beside it.
//!
//! *The idea.* TCP is taken as it is: a line that carries bytes in order, fairly, and that queues
//! too much if it is allowed to. So it is given little. A [`Session`] cuts the bytes of its streams
//! into chunks and hands over the next one only when its pacer reports that the one before has
//! left: [`PaceK`] asks the kernel how much is unsent, [`PaceA`] asks the peer how much has
//! arrived. A byte that is not handed over can still be overtaken, reset or dropped. A few
//! connections stand by. If the active one stalls, unacknowledged chunks go over the next, and the
//! receiver knows by stream and offset which bytes it already has.
//!
//! ```text
//!           streams, datagrams                                       streams, datagrams
//!                  │ write, by rank                                          ▲ read
//!              Session ── pacer: a chunk now? ──► carrier 0 (active)  ──► Session
//!                  ▲                              carrier 1 (standby)        │
//!                  └────────── received: byte count ◄────────────────────────┘
//! ```
//!
//! | folder | content |
//! |---|---|
//! | [`frame`] | the frames of a carrier, and their decoder |
//! | [`acked`], [`kernel`] | the two pacers |
//! | [`out`] | bytes to write, without a copy |
//! | [`failover`] | when to leave a connection |
//! | [`numbered`] | a map with ascending keys |
//! | [`session`] | streams, windows, acknowledgements, carriers: all of it joined |
//! | [`settings`] | the numbers |
//!
//! *What it does not do.* It has no socket and no cipher: `thalweg-net` owns both. It decides
//! nothing about ADUs: the outbox above it does.
//!
//! *Sources.* Paceline (Erbad, Krasic): PL-6 to PL-15; Goel et al., "Low-latency adaptive streaming
//! over TCP"; RFC 9000 §4 for flow control; docs/concepts/tcp.md.

pub mod acked;
pub mod failover;
pub mod frame;
pub mod kernel;
pub mod numbered;
pub mod out;
pub mod session;
pub mod settings;

pub use acked::PaceA;
pub use failover::{Failover, Verdict};
pub use frame::{Decoder, Frame, SessionId, StreamNumber};
pub use kernel::{KernelPath, PaceK};
pub use numbered::Numbered;
pub use out::Out;
pub use session::{
    Carried, CarrierNumber, DatagramError, Event, Pacing, Read, Session, SessionError, Written,
};
