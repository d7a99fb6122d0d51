//! One link over TCP, for networks that block UDP: chunks of many streams on one connection, standbys beside it.
//!
//! *The idea.* TCP is taken as it is: a line that carries bytes in order, fairly, and that queues too much if it is let.
//! So little is given to it. A [`Session`] cuts the bytes of its streams into chunks and hands over one more only when
//! its pacer says that the one before has left: [`PaceK`] asks the kernel how much is unsent, [`PaceA`] asks the peer how
//! much has arrived. What has not been handed over can still be overtaken, reset or forgotten. A few connections stand
//! by; if the active one stalls, what is not acknowledged goes over the next, and the receiver knows by stream and offset
//! what it has already.
//!
//! ```text
//!           streams, datagrams                                       streams, datagrams
//!                  │ write, by rank                                          ▲ read
//!              Session ── pacer: a chunk now? ──► carrier 0 (active)  ──► Session
//!                  ▲                              carrier 1 (standby)        │
//!                  └───── received: so many bytes ◄──────────────────────────┘
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | [`frame`] | what is said over a carrier, and its decoder |
//! | [`acked`], [`kernel`] | the two pacers |
//! | [`out`] | what is to be written, without a copy |
//! | [`failover`] | when to leave a connection |
//! | [`numbered`] | things by numbers that rise |
//! | [`session`] | streams, windows, acknowledgements, carriers: all of it joined |
//! | [`settings`] | the numbers |
//!
//! *What it does not do.* No socket and no cipher: `thalweg-net` owns both. It decides nothing about ADUs: the outbox above
//! it does.
//!
//! *Sources.* Paceline (Erbad, Krasic): PL-6 to PL-15; Goel et al., "Low-latency adaptive streaming over TCP"; RFC 9000 §4
//! for flow control; docs/tcp.md.

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
