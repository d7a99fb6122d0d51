//! The errors of the network, one enum per verb.
//!
//! *The idea.* Each message carries what a person needs to act: the address, the file, the key,
//! what to type.
//!
//! *What it does not do.* The fate of an ADU is not an error: it is an
//! [`Outcome`](crate::link::Outcome).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use thalweg_base::id::NodeId;
pub use thalweg_link::hop::BodyError;

use crate::close::CloseCode;
pub use crate::host::NoHost;

/// The `action` of [`IdentityError::Io`] when a key file could not be created.
pub(crate) const CREATE: &str = "create";

/// The key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read or created.
    #[error("cannot {action} the key file {path}: {source}")]
    Io {
        /// `read`, `create` …
        action: &'static str,
        /// The key file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is a pipe, a device or a folder: opening it could block, or it cannot keep a key.
    #[error("the key file {path} is not a regular file: name another `key_file`")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Other users may read the key.
    #[error("the key file {path} may be read by others (mode {mode:04o}); run: chmod 600 {path}")]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file's content is not a key.
    #[error(
        "the key file {path} does not hold a key: expected one line of 64 hexadecimal digits, and comment lines with #"
    )]
    Garbage {
        /// The key file.
        path: PathBuf,
    },
}

impl IdentityError {
    /// Returns whether the named file is at fault; a failure to create one, as on a full disk, may
    /// pass.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Io { action, .. } if *action == CREATE)
    }
}

/// The endpoint cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The UDP address cannot be bound.
    #[error("cannot listen on {address} (udp): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error: in use, not ours, not permitted.
        source: io::Error,
    },
    /// The TCP address cannot be bound.
    #[error("cannot listen on {address} (tcp): {source}")]
    ListenTcp {
        /// The address.
        address: SocketAddr,
        /// The system's error: in use, not ours, no such congestion control.
        source: io::Error,
    },
    /// The file with the certificate authorities of relays cannot be used.
    #[error(
        "cannot use {path} for the certificates of relays: {fault}; it must hold one or more, each between BEGIN CERTIFICATE \
         and END CERTIFICATE"
    )]
    RelayCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// The address does not fit the reach that was asked for.
    #[error(
        "{0} is an unspecified address, but reach `own-address` needs the one address it is confined to"
    )]
    Unconfined(SocketAddr),
    /// The QUIC endpoint did not start for another reason.
    #[error("the network endpoint does not start: {0}")]
    Endpoint(String),
}

impl BindError {
    /// Finds the address that is at fault, which iroh's error does not name.
    pub(crate) fn find(listen: &[SocketAddr], error: &iroh::endpoint::BindError) -> Self {
        let blamed = listen.iter().find_map(|address| {
            let source = UdpSocket::bind(address).err()?;
            let address = *address;
            Some(Self::Listen { address, source })
        });
        blamed.unwrap_or_else(|| Self::Endpoint(format!("{error:#}")))
    }
}

/// Why a peer cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The host name does not resolve now.
    #[error(transparent)]
    Unknown(NoHost),
    /// The address is link-local, which a node that searches for paths by itself cannot use.
    #[error(
        "{addresses} is link-local: both nodes reach each other there with `confined = true` under [reach], or over TCP, with `tcp:` before it"
    )]
    LinkLocal {
        /// The addresses to try.
        addresses: String,
    },
    /// No node answers.
    #[error("no answer from {addresses}: timed out")]
    TimedOut {
        /// The addresses that were tried.
        addresses: String,
    },
    /// Small packets reach the peer, but packets of the size that QUIC needs do not.
    #[error(
        "packets of 1,200 bytes, which QUIC needs, do not pass between here and {addresses}, smaller ones do: raise the MTU of the \
         path, or give both nodes a `tcp:` address"
    )]
    Narrow {
        /// The addresses that were tried.
        addresses: String,
    },
    /// A node answers, but its part of the handshake does not arrive.
    #[error(
        "a node answers at {addresses}, but its handshake does not come: it is too busy, or packets of 1,200 bytes do not pass from \
         there to here; then raise the MTU of the path, or give both nodes a `tcp:` address"
    )]
    NoHandshake {
        /// The addresses that were tried.
        addresses: String,
    },
    /// A node with another key answers.
    #[error("wrong key at {addresses}: the node there is not {peer}")]
    WrongKey {
        /// The addresses that were tried.
        addresses: String,
        /// The key that was expected.
        peer: NodeId,
    },
    /// The peer does not know this protocol or version.
    #[error("{peer} speaks another protocol version: it does not know `{alpn}`")]
    Version {
        /// The peer.
        peer: NodeId,
        /// The protocol name that this node offered.
        alpn: &'static str,
    },
    /// The peer does not admit this node.
    #[error("refused by {peer}: {reason}")]
    NotAdmitted {
        /// The peer.
        peer: NodeId,
        /// The reason that the peer sent.
        reason: String,
    },
    /// This node's own configuration does not admit the peer.
    #[error("{0} is not admitted by this node's own configuration")]
    NotAdmittedHere(NodeId),
    /// There is no address to dial.
    #[error("no address of {0} is known: give one, or switch on mdns")]
    NoAddress(NodeId),
    /// A node does not dial itself.
    #[error("{0} is this node's own key")]
    OwnKey(NodeId),
    /// The peer closed the connection for another reason.
    #[error("closed by {peer}: {code}: {reason}")]
    Closed {
        /// The peer.
        peer: NodeId,
        /// The close code.
        code: CloseCode,
        /// The reason, as text.
        reason: String,
    },
    /// Neither QUIC nor TCP reaches the peer.
    #[error("{udp}; and over TCP: {tcp}")]
    Both {
        /// Why QUIC failed.
        udp: Box<Self>,
        /// Why TCP failed.
        tcp: Box<Self>,
    },
    /// This endpoint is shutting down.
    #[error("this node is shutting down")]
    ShuttingDown,
    /// Anything else.
    #[error("cannot reach {peer}: {reason}")]
    Other {
        /// The peer.
        peer: NodeId,
        /// The QUIC stack's error.
        reason: String,
    },
}

impl Unreachable {
    /// Returns whether the cause is an answer from the peer or this node's own decision; then
    /// another path would not help.
    pub const fn is_answer(&self) -> bool {
        match self {
            Self::Unknown(_)
            | Self::LinkLocal { .. }
            | Self::TimedOut { .. }
            | Self::Narrow { .. }
            | Self::NoHandshake { .. }
            | Self::WrongKey { .. }
            | Self::NoAddress(_)
            | Self::Other { .. } => false,
            Self::Both { udp, tcp } => udp.is_answer() || tcp.is_answer(),
            Self::Version { .. }
            | Self::NotAdmitted { .. }
            | Self::NotAdmittedHere(_)
            | Self::OwnKey(_)
            | Self::Closed { .. }
            | Self::ShuttingDown => true,
        }
    }
}

/// Why a control frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The frame is larger than a peer accepts.
    #[error("a control frame of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// The frame's size.
        bytes: usize,
        /// `limits::CONTROL_BYTES_MAX`.
        limit: usize,
    },
    /// The connection is gone or draining.
    #[error("the link was lost")]
    LinkLost,
}
