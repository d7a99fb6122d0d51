//! The engine: connections between peers that reach each other directly, in one thread's loop.
//!
//! *The idea.* iroh finds peers, crosses NATs and relays; each of its connections is a task with a
//! lock and wakers. Peers that reach each other directly carry their streams over a second UDP port
//! instead: one thread drives every connection of that port with `noq-proto`, and turns in batches.
//!
//! ```text
//! link's tasks ── write, read, close ──► connection (a short lock) ── mark ──► inbox
//!                                                 ▲                              │ eventfd
//!        UDP ◄── GSO ── flush ◄── settle marked ──┴── timers ◄── datagrams ◄─────┘
//!         └───── recvmmsg, GRO ──────────────────────────────────────► turn ► turn ► …
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `handle` | the engine as its host holds it; the thread's start and end |
//! | `turn` | one turn: take, timers, settle those that are marked, flush, wait |
//! | `peers` | the connections by handle, and their timers |
//! | `accept`, `dial` | how connections begin; the admission |
//! | `udp`, `socket` | the port: batches of datagrams by GSO, GRO and `recvmmsg` |
//! | [`bare`] | the loop without socket, thread and clock, for the fuzzer |
//! | `inbox`, `marks` | what other threads ask; connections with something to send, and the `eventfd` |
//! | `shared` | one connection behind its lock |
//! | `driver` | the driver of the link's sender, run by the loop |
//! | `connection`, `stream`, `sending` | that connection as a link holds, reads and writes it |
//! | `config`, `counters` | QUIC's settings and TLS by raw keys; what was refused or ended |
//!
//! *What it does not do.* It finds no peer and crosses no NAT: iroh does. It follows no peer to
//! another address: that connection ends, and the one over iroh takes over.
//!
//! *Sources.* docs/decisions/0040; noq-proto 1.4; RFC 9000.

mod accept;
#[doc(hidden)]
pub mod bare;
mod config;
mod connection;
mod counters;
mod dial;
mod driver;
mod handle;
mod inbox;
mod marks;
mod peers;
mod sending;
mod shared;
mod sizes;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod timers;
mod turn;
mod udp;

pub use self::config::Options;
pub use self::connection::Connection;
pub use self::counters::EngineCounters;
pub use self::dial::DialError;
pub use self::handle::Engine;
pub use self::sending::{Held, Sending};
pub use self::stream::{Arriving, WriteEnded, Writer};
