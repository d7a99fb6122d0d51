//! Links over TCP, for networks that block UDP.
//!
//! *The idea.* [`thalweg_core::pace`] decides; this owns its sockets, ciphers and timers. A [`Connection`] is one session:
//! an active TCP connection and a standby beside it, each with TLS 1.3 whose two ends prove the keys that are their nodes'
//! ids, as they do over QUIC. A task per TCP connection reads what has come, hands over what the pacer allows, and sleeps
//! until the kernel, the peer or the application has something new.
//!
//! ```text
//! Connection ── open, write, finish, credit … ───────► session (core) ◄── carrier task ◄──► TLS ◄──► TCP (active)
//!            ◄─ Arriving, datagrams, Events ───────                 ◄── carrier task ◄──► TLS ◄──► TCP (standby)
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `connection`, `stream` | one session: streams and messages both ways; one stream of it |
//! | `shared`, `events` | the session behind its lock, and whom to wake; what it tells who listens |
//! | `sending` | the same as core's sender asks for it |
//! | `listener`, `dial` | how sessions begin, and how their standbys join them |
//! | `door` | where who is not admitted says one thing and is answered |
//! | `carrier` | the task of one TCP connection |
//! | `line`, `tls`, `socket` | bytes in TLS or in the clear; keys; options and `TCP_INFO` |
//! | `traffic` | what was moved, in numbers |
//!
//! With a peer for which both ends say so ([`Options::plain`]) the handshake is as always, and what follows goes without the
//! cipher: for a network on which nobody else listens or speaks, where ciphering is most of what a relay computes.
//!
//! *What it does not do.* It knows no ADU: [`Link`](crate::link::Link) does, over this as over QUIC. It makes no holes in
//! NATs: one end must be reachable.
//!
//! *Sources.* docs/tcp.md; RFC 7250, RFC 8446; `tcp(7)`.

mod carrier;
mod connection;
mod dial;
mod door;
mod events;
mod line;
mod listener;
mod sending;
mod shared;
mod socket;
mod stream;
mod tls;
mod traffic;

use std::collections::BTreeSet;

use thalweg_core::id::NodeId;
use thalweg_core::pace::Pacing;
use thalweg_core::pace::settings::STANDBYS;

use crate::clock::Clock;
use crate::identity::Identity;

pub use self::connection::Connection;
pub use self::dial::dial;
pub(crate) use self::door::knock;
pub use self::events::Events;
pub use self::listener::Listener;
pub use self::sending::{Held, Sending};
pub use self::stream::{Arriving, WriteEnded, Writer};
pub use self::traffic::{LineTraffic, Traffic};

/// The protocol and its version, as the TLS handshake names it.
pub const ALPN: &str = "thalweg-tcp/1";

/// The same, with everything behind the handshake in the clear.
pub const ALPN_PLAIN: &str = "thalweg-tcp-plain/1";

/// The protocol of the door over TCP and its version: docs/protocol.md §12.3.
pub const ALPN_DOOR: &str = "thalweg-tcp-door/1";

/// How TCP is to be used.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's key.
    pub identity: Identity,
    /// Who says how much may be handed over; [`Pacing::Acked`] is taken where the kernel says nothing.
    pub pacing: Pacing,
    /// The kernel's congestion control, `cubic` or `bbr`; none: the system's default.
    pub congestion: Option<String>,
    /// How many connections stand by; only who dials has a say.
    pub standbys: usize,
    /// Peers with which everything behind the handshake goes in the clear, if they say the same; dialled so, and not
    /// otherwise. Those that dial may still cipher.
    pub plain: BTreeSet<NodeId>,
    /// The node's clock.
    pub clock: Clock,
}

impl Options {
    /// Returns options that ask the kernel, take its congestion control, and have one standby.
    pub fn new(identity: Identity, clock: Clock) -> Self {
        Self {
            identity,
            pacing: Pacing::default(),
            congestion: None,
            standbys: STANDBYS,
            plain: BTreeSet::new(),
            clock,
        }
    }
}
