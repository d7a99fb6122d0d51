//! Links over TCP, for networks that block UDP.
//!
//! *The idea.* [`thalweg_link::tcp_mux`] decides; this module owns its sockets, ciphers and timers. A
//! [`Connection`] is one session: an active TCP connection and a standby beside it, each with TLS
//! 1.3, in which both ends prove the keys that are their node ids, as they do over QUIC. One task
//! per TCP connection (the *carrier*) reads what has arrived, writes what the pacer allows, and
//! sleeps until the kernel, the peer or the application needs it.
//!
//! ```text
//! Connection ── open, write, finish, credit … ───────► session (core) ◄── carrier task ◄──► TLS
//! ◄──► TCP (active)
//! ◄─ Arriving, datagrams, Events ───────                 ◄── carrier task ◄──► TLS ◄──► TCP
//! (standby)
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `connection` | one session: streams and messages both ways; one stream of it |
//! | `shared`, `queue`, `events` | the session behind its lock and the tasks it wakes; its events |
//! | `sending` | the session as the transport of core's sender |
//! | `listener`, `dial` | how sessions begin, and how their standbys join them |
//! | `door` | one request and one answer for nodes that are not admitted |
//! | `refusal` | the reason with which a connection is closed |
//! | `carrier`, `waker` | the task of one TCP connection, and what wakes it |
//! | `session_turn` | one look of a carrier at its session |
//! | `clear`, `plain_carrier` | one thread's loop in place of such tasks, and a connection in it |
//! | `line`, `tls`, `socket` | bytes in TLS or in the clear; keys; options and `TCP_INFO` |
//! | `traffic` | counters of bytes and segments |
//!
//! With a peer that both ends list as [plain](Options::plain), the handshake is the same, and
//! everything after it is unencrypted: for a network that no one else can read or write, since
//! encryption is most of a relay's work.
//!
//! *What it does not do.* It knows no ADUs: [`Link`](crate::link::Link) does, over TCP as over
//! QUIC. It does no NAT traversal: one end must be reachable.
//!
//! *Sources.* docs/concepts/tcp.md; RFC 7250, RFC 8446; `tcp(7)`.

mod carrier;
mod clear;
mod connection;
mod dial;
mod door;
mod events;
mod line;
mod listener;
mod plain_carrier;
mod queue;
mod refusal;
mod sending;
mod session_turn;
mod shared;
mod socket;
mod tls;
mod traffic;
mod waker;

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_base::id::NodeId;
use thalweg_link::tcp_mux::Pacing;
use thalweg_link::tcp_mux::settings::STANDBYS;

use crate::clock::Clock;
use crate::identity::Identity;

pub use self::clear::ClearLoop;
pub use self::connection::{Arriving, Connection, WriteEnded, Writer};
pub use self::dial::dial;
pub(crate) use self::door::request;
pub use self::events::Events;
pub use self::listener::Listener;
pub use self::sending::{Held, Sending};
pub use self::socket::Segments;
pub use self::traffic::{LineTraffic, Traffic};

/// The protocol of sessions and its version, as the TLS handshake names it (ALPN).
pub const ALPN: &str = "thalweg-tcp/1";

/// The same, with everything after the handshake unencrypted.
pub const ALPN_PLAIN: &str = "thalweg-tcp-plain/1";

/// The protocol of the door over TCP and its version: docs/reference/protocol.md §12.3.
pub const ALPN_DOOR: &str = "thalweg-tcp-door/1";

/// The options of sessions over TCP.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's key.
    pub identity: Identity,
    /// The source of credit; replaced by [`Pacing::Acked`] where the kernel reports nothing.
    pub pacing: Pacing,
    /// The kernel's congestion control, `cubic` or `bbr`; `None` for the system's default.
    pub congestion: Option<String>,
    /// Number of standby connections; the dialling node decides.
    pub standbys: usize,
    /// Peers with which everything after the handshake is unencrypted, if they are configured
    /// alike. They are dialled plain only; those that dial may still encrypt.
    pub plain: BTreeSet<NodeId>,
    /// The loop that runs the connections in the clear; `None`: each is a task.
    pub clear: Option<Arc<ClearLoop>>,
    /// The size of the segments of dialled connections; accepted ones follow their peer's.
    pub segments: Segments,
    /// The node's clock.
    pub clock: Clock,
}

impl Options {
    /// Returns options with credit from the kernel, its default congestion control, and one
    /// standby.
    pub fn new(identity: Identity, clock: Clock) -> Self {
        Self {
            identity,
            pacing: Pacing::default(),
            congestion: None,
            standbys: STANDBYS,
            plain: BTreeSet::new(),
            clear: None,
            segments: Segments::Path,
            clock,
        }
    }
}
