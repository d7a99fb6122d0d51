//! Thalweg's hands on the network: every clock, socket and task of the project.
//!
//! *The idea.* An [`Endpoint`] owns the socket and the keys and keeps one [`Link`] per neighbour; a link carries
//! control frames and ADUs and says of each ADU what became of it. What arrives is handed to one [`Receiver`] while
//! it still arrives, so that a relay passes the head of an ADU on before its tail is there and copies nothing.
//!
//! | room | what lives there |
//! |---|---|
//! | [`clock`] | the one clock: monotonic, zero at start |
//! | [`identity`] | the key file, signing, verifying |
//! | [`mod@file`] | files that are read whole, up to a bound |
//! | [`admission`] | who may connect |
//! | `discovery` | admitted nodes on the local network, found by mDNS |
//! | `lobby` | who is heard of those that have not proved a key yet |
//! | [`door`] | where who is not admitted yet shows a grant or redeems a ticket |
//! | [`endpoint`] | binding, dialling, redialling, one link per neighbour |
//! | [`link`] | control frames and ADUs on one connection |
//! | [`task`] | what becomes of the node when a task fails |
//! | [`close`] | why a connection or a stream ended, as numbers on the wire |
//! | [`tcp`] | streams and messages over TCP, where UDP is blocked |
//! | [`shaper`] | a slow, lossy line in user space, between two loopback addresses |
//!
//! *What it does not do.* It plans nothing, routes nothing and understands no control frame: that is `thalweg-node`.
//!
//! *Sources.* docs/protocol.md; iroh 1.4 and its QUIC, noq 1.4.

pub mod admission;
mod alarm;
pub mod clock;
pub mod close;
mod discovery;
pub mod door;
pub mod endpoint;
pub mod error;
pub mod file;
pub mod identity;
pub mod link;
mod lobby;
pub mod shaper;
pub mod task;
pub mod tcp;

pub use admission::Admission;
pub use clock::Clock;
pub use close::{CloseCode, StreamCode};
pub use door::{AtDoor, Doorkeeper};
pub use endpoint::{
    Addresses, Endpoint, Host, NoPlace, NoRelay, Options, PeerState, Place, Reach, Relay,
    TcpOptions, check_relay_ca,
};
pub use error::{BindError, BodyError, ControlError, IdentityError, Unreachable};
pub use identity::Identity;
pub use link::{
    Arriving, Body, Carriage, DownCause, Link, LinkEvent, LinkStats, OrderedId, Outcome, Payload,
    Receiver, Samples, SendOptions, Sending, Transport,
};
pub use shaper::{Impairment, Shaper, ShaperOptions};
pub use task::{Failure, Failures, Vital};
