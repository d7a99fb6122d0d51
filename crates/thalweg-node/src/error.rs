//! Why a node cannot start, or go on.

use std::net::SocketAddr;
use std::path::PathBuf;

use thalweg_net::{BindError, Failure, IdentityError};
use thalweg_world::text::TextError;

use crate::fabric::StateError;

/// Why a node cannot start, or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its key file cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another node runs with its key.
    #[error(
        "another node runs with the key file {path}: stop it, or give this node another `key_file`, since others take two \
         nodes with one key for one node"
    )]
    KeyTaken {
        /// The key file.
        path: PathBuf,
    },
    /// Another node uses the same state file.
    #[error(
        "another node runs with {path}, where it keeps its grant: stop it, or give this node another `state_file` under [fabric]"
    )]
    StateTaken {
        /// The file.
        path: PathBuf,
    },
    /// Its network sockets cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its local socket cannot be opened.
    #[error("cannot listen on the local socket {path}: {source}")]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another node listens on its local socket.
    #[error(
        "another node listens on the local socket {path}: stop it, or give this node another `socket`"
    )]
    SocketTaken {
        /// The socket's path.
        path: PathBuf,
    },
    /// The local socket's path is occupied by something else.
    #[error("{path} exists and is not a socket, so it was left as it is: name another `socket`")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The admin API's address cannot be bound.
    #[error(
        "cannot listen on {address} (tcp) for the admin API: {source}; choose another [api] listen"
    )]
    Api {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Its configuration contradicts its key.
    #[error(transparent)]
    Config(#[from] TextError),
    /// Its state file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The system has no random numbers.
    #[error("the system provides no random numbers, so no keys can be drawn")]
    Random,
    /// A task without which it cannot run has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl NodeError {
    /// Returns whether its input is at fault, so that another start would fail as well. A port in
    /// use may be free again.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Identity(error) => error.is_input(),
            Self::Config(_) | Self::State(_) | Self::NoSocket { .. } => true,
            Self::Bind(error) => {
                matches!(error, BindError::RelayCa { .. } | BindError::Unconfined(_))
            }
            _ => false,
        }
    }
}
