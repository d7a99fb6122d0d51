//! What can go wrong at the network, one enum per verb.
//!
//! *The idea.* Each message carries what a person needs to act: the address, the file, the key, what to type.
//!
//! *What it does not do.* The fate of an ADU is no error: it is an [`Outcome`](crate::link::Outcome).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

pub use thalweg_core::hop::BodyError;
use thalweg_core::id::NodeId;

use crate::close::CloseCode;
pub use crate::endpoint::host::NoHost;

/// What could not be done where a key file could not be made.
pub(crate) const CREATE: &str = "create";

/// The key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read or made.
    #[error("cannot {action} the key file {path}: {source}")]
    Io {
        /// `read`, `create` …
        action: &'static str,
        /// The key file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a pipe, a device, a folder: something that a start would wait for, or that keeps nothing.
    #[error("the key file {path} is no file that could keep a key: name another `key_file`")]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Others than the owner may read the key.
    #[error("the key file {path} may be read by others (mode {mode:04o}); run: chmod 600 {path}")]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds something else.
    #[error(
        "the key file {path} does not hold a key: expected one line of 64 hexadecimal digits, and comment lines with #"
    )]
    Garbage {
        /// The key file.
        path: PathBuf,
    },
}

impl IdentityError {
    /// Returns whether the file that was named is to blame; that none could be made, as on a full disk, is the moment's.
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::Io { action, .. } if *action == CREATE)
    }
}

/// The endpoint cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (udp): {source}")]
    Listen {
        /// Which of the addresses.
        address: SocketAddr,
        /// What the system said: in use, not ours, not permitted.
        source: io::Error,
    },
    /// The address cannot be listened on by TCP.
    #[error("cannot listen on {address} (tcp): {source}")]
    ListenTcp {
        /// Which.
        address: SocketAddr,
        /// What the system said: in use, not ours, no such congestion control.
        source: io::Error,
    },
    /// The certificates that relays are believed by cannot be had.
    #[error(
        "cannot use {path} for the certificates of relays: {fault}; it is to hold one or more, each between BEGIN CERTIFICATE \
         and END CERTIFICATE"
    )]
    RelayCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// Addresses that cannot go together.
    #[error(
        "{0} is an unspecified address, but reach `own-address` needs the one address it is confined to"
    )]
    Unconfined(SocketAddr),
    /// The QUIC endpoint did not start for another reason.
    #[error("the network endpoint does not start: {0}")]
    Endpoint(String),
}

impl BindError {
    /// Finds the address that is to blame, which iroh does not say.
    pub(crate) fn find(listen: &[SocketAddr], error: &iroh::endpoint::BindError) -> Self {
        let blamed = listen.iter().find_map(|address| {
            let source = UdpSocket::bind(address).err()?;
            let address = *address;
            Some(Self::Listen { address, source })
        });
        blamed.unwrap_or_else(|| Self::Endpoint(format!("{error:#}")))
    }
}

/// A peer cannot be reached, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreachable {
    /// The name of its host stands for nothing now.
    #[error(transparent)]
    Unknown(NoHost),
    /// Its address is one of a link of this machine, which a node that looks for paths by itself cannot use.
    #[error(
        "{addresses} is link-local: both nodes reach each other there with `confined = true` under [reach], or over TCP, with `tcp:` before it"
    )]
    LinkLocal {
        /// What was to be tried.
        addresses: String,
    },
    /// Nobody answers there.
    #[error("no answer from {addresses}: timed out")]
    TimedOut {
        /// What was tried.
        addresses: String,
    },
    /// Small packets reach the peer, and those that QUIC needs do not.
    #[error(
        "packets of 1,200 bytes, which QUIC needs, do not pass between here and {addresses}, smaller ones do: raise the MTU of the \
         path, or give both nodes a `tcp:` address"
    )]
    Narrow {
        /// What was tried.
        addresses: String,
    },
    /// A node answers there, and its part of the handshake does not come.
    #[error(
        "a node answers at {addresses}, but its handshake does not come: it is too busy, or packets of 1,200 bytes do not pass from \
         there to here; then raise the MTU of the path, or give both nodes a `tcp:` address"
    )]
    NoHandshake {
        /// What was tried.
        addresses: String,
    },
    /// Somebody answers with another key.
    #[error("wrong key at {addresses}: the node there is not {peer}")]
    WrongKey {
        /// What was tried.
        addresses: String,
        /// Who was wanted.
        peer: NodeId,
    },
    /// The peer does not know this protocol or version.
    #[error("{peer} speaks another protocol version: it does not know `{alpn}`")]
    Version {
        /// Who.
        peer: NodeId,
        /// What we speak.
        alpn: &'static str,
    },
    /// The peer does not admit us.
    #[error("refused by {peer}: {reason}")]
    NotAdmitted {
        /// Who.
        peer: NodeId,
        /// What the peer said.
        reason: String,
    },
    /// We do not admit the peer ourselves.
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
        /// Who.
        peer: NodeId,
        /// Why, as a number.
        code: CloseCode,
        /// Why, in words.
        reason: String,
    },
    /// Neither of the two transports reaches it.
    #[error("{udp}; and over TCP: {tcp}")]
    Both {
        /// Why not over QUIC.
        udp: Box<Self>,
        /// Why not over TCP.
        tcp: Box<Self>,
    },
    /// This endpoint is shutting down.
    #[error("this node is shutting down")]
    ShuttingDown,
    /// Anything else.
    #[error("cannot reach {peer}: {reason}")]
    Other {
        /// Who.
        peer: NodeId,
        /// What the QUIC stack said.
        reason: String,
    },
}

impl Unreachable {
    /// Returns whether the peer has said so itself, or this node knows: another way to it would end alike.
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

/// A control frame cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It is larger than a peer accepts.
    #[error("a control frame of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// `limits::CONTROL_BYTES_MAX`.
        limit: usize,
    },
    /// The connection is gone or draining.
    #[error("the link was lost")]
    LinkLost,
}
