//! What programs get for their requests.

use std::sync::{Arc, Weak};

use thalweg_base::id::{Epoch, StreamId};
use thalweg_control::control::{self, KeysError, NotIssued};
use tokio::sync::watch;

use crate::continuity::Outlet;
use crate::fabric::StateError;
use crate::status::LossStatus;

/// What a publisher needs to put ADUs on the data path by itself.
pub(crate) struct Published {
    pub(crate) stream: StreamId,
    pub(crate) active: watch::Receiver<Vec<Epoch>>,
    pub(crate) outlet: Arc<Outlet>,
    /// The stream's losses as they become known; dangling once the control task has ended.
    pub(crate) losses: Weak<watch::Sender<Vec<LossStatus>>>,
}

/// Why a stream cannot be published, or an ADU not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The control plane refuses the stream.
    #[error(transparent)]
    Refused(#[from] control::PublishError),
    /// The payload is above `limits::ADU_PAYLOAD_BYTES_MAX`.
    #[error("an ADU of {bytes} bytes is above the limit of {limit}: send it in parts")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The ADU's description is invalid.
    #[error("ADU {sequence} is refused: {why}")]
    BadAdu {
        /// Its number in the stream.
        sequence: u64,
        /// The mistake.
        why: String,
    },
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl PublishError {
    /// Returns whether a retry may succeed soon: a stream of this name is published, or still ends.
    pub const fn is_taken(&self) -> bool {
        matches!(self, Self::Refused(control::PublishError::Taken(_)))
    }
}

/// The result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Applied changes, one phrase each.
    pub applied: Vec<String>,
    /// Changed keys that take effect at the next start.
    pub restart: Vec<String>,
}

/// Why a ticket was not issued, or a node not revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// This node may not issue it.
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    /// The table of tickets is full.
    #[error(transparent)]
    NoRoom(#[from] thalweg_control::admission::NotRedeemed),
    /// The state file cannot be written.
    #[error(transparent)]
    NotKept(#[from] StateError),
    /// No random secret can be drawn.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// No node has this name.
    #[error(
        "no node is called `{0}`; `thalweg ls` lists the nodes that are present, and an absent node is named by its key"
    )]
    Unknown(String),
    /// Several nodes have this name.
    #[error(
        "{count} nodes are called `{name}`: give the digits of the key that `thalweg ls` shows"
    )]
    Ambiguous {
        /// The ambiguous name.
        name: String,
        /// The number of nodes that have it.
        count: usize,
    },
    /// The ticket would name no address.
    #[error(
        "this node knows no address at which others reach it (it listens on all addresses, and is confined or the machine has none of that family), so the ticket would name none: give one with --address"
    )]
    NoAddress,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl AdmissionError {
    /// Returns whether the name matches no node, or several.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Ambiguous { .. })
    }
}

/// Why the paths between two nodes cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A node's name is unknown or ambiguous.
    #[error(transparent)]
    Name(#[from] AdmissionError),
    /// A node or the stream is not on the map.
    #[error("{0}")]
    Map(String),
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
