//! The network side of Thalweg: every clock, socket and task of the project.
//!
//! *The idea.* An [`Endpoint`] owns the socket and the keys and keeps one [`Link`] per neighbour. A
//! link carries control frames and ADUs and reports the [`Outcome`] of each ADU. Arriving payloads
//! go to one [`Receiver`] chunk by chunk, so that a relay forwards the head of an ADU before its
//! tail has arrived, without copying.
//!
//! | room | what lives there |
//! |---|---|
//! | [`clock`] | the node's clock: monotonic, zero at start |
//! | [`identity`] | the key file, signing, verifying |
//! | [`mod@file`] | files that are read whole, up to a size limit |
//! | [`admission`] | the keys that may connect |
//! | `host`, `address` | host names, and the addresses at which a peer is dialled |
//! | `lobby` | fair shares of handshakes for peers that have not proved a key yet |
//! | [`door`] | where a node that is not admitted yet shows a grant or redeems a ticket |
//! | `doorkeeper` | the places at this node's door, and who answers there |
//! | `transport`, `confined` | QUIC's settings, and its sockets for a node that searches for no path |
//! | `raw_key` | a node's key in TLS, over TCP and QUIC |
//! | `lot` | work for many connections, handed over as one to the loop that drives them |
//! | `reading` | reading a stream that is still arriving, over TCP and the engine |
//! | `reason` | errors of QUIC and TLS, as sentences |
//! | [`engine`] | connections between peers that reach each other directly, in one thread's loop |
//! | [`endpoint`] | binding, dialling, redialling, one link per neighbour |
//! | [`link`] | control frames and ADUs on one connection |
//! | [`task`] | what happens to the node when a task fails |
//! | [`close`] | close codes on the wire |
//! | [`tcp`] | streams and messages over TCP, where UDP is blocked |
//! | [`shaper`] | a slow, lossy line in user space, between two loopback addresses |
//!
//! *What it does not do.* It plans nothing, routes nothing and interprets no control frame:
//! `thalweg-node` does.
//!
//! *Sources.* docs/reference/protocol.md; iroh 1.4 and its QUIC, noq 1.4.

mod address;
pub mod admission;
mod alarm;
pub mod clock;
pub mod close;
mod confined;
pub mod door;
mod doorkeeper;
pub mod endpoint;
pub mod engine;
pub mod error;
pub mod file;
mod host;
pub mod identity;
pub mod link;
mod lobby;
mod lot;
mod raw_key;
mod reading;
mod reason;
pub mod shaper;
pub mod task;
pub mod tcp;
mod transport;

pub use admission::Admission;
pub use clock::Clock;
pub use close::{CloseCode, StreamCode};
pub use door::{AtDoor, Doorkeeper};
pub use endpoint::{
    Addresses, Endpoint, Host, NoPlace, NoRelay, Options, PeerState, Place, Reach, Relay,
    TcpOptions, check_relay_ca,
};
pub use engine::EngineCounters;
pub use error::{BindError, BodyError, ControlError, IdentityError, Unreachable};
pub use identity::Identity;
pub use link::{
    Arriving, Body, Carriage, DownCause, EndedAdu, Footprint, Link, LinkEvent, LinkStats, Lots,
    OrderedId, Outcome, Payload, Receiver, Samples, SendOptions, Sending, Transport,
};
pub use shaper::{Impairment, Shaper, ShaperOptions};
pub use task::{Failure, Failures, Vital};
