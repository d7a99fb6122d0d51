//! Control messages to running modules: out of band, between two packets.

use bytes::Bytes;
use thalweg_base::limits::LAYERS_MAX;

use crate::keys::{KeyEpoch, KeyError, StreamKey};

/// A message to the modules of a lift; it overtakes queued packets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Control {
    /// Keep this many layers from now on.
    KeepLayers(u8),
    /// Add a key for opening, and for sealing once selected.
    AddKey {
        /// The key's epoch.
        epoch: KeyEpoch,
        /// The key.
        key: StreamKey,
    },
    /// Seal with this epoch's key from now on.
    SealWith(KeyEpoch),
    /// Remove the keys of this epoch and all before it, permanently.
    RetireKeys {
        /// The last epoch to remove.
        through: KeyEpoch,
    },
    /// Release all held packets.
    Flush,
    /// Accept input again after a pause; handled by the lift, not passed to modules.
    Resume,
    /// A message to a module of another crate, opaque to this one.
    Custom(Bytes),
}

/// Why a module did not carry out a control message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The message is for other modules.
    #[error("the message is for other modules")]
    NotMine,
    /// The number of layers is zero or above the limit.
    #[error("cannot keep {0} layers: 1 to {LAYERS_MAX} can be kept")]
    Layers(u8),
    /// The key ring refuses it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A module of another crate refuses it, for this reason.
    #[error("{0}")]
    Other(String),
}
