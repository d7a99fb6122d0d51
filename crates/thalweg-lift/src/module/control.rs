//! What a running module can be told, out of band: between two packets, never during one.

use bytes::Bytes;
use thalweg_core::limits::LAYERS_MAX;

use crate::keys::{KeyEpoch, KeyError, StreamKey};

/// A message to the modules of a lift; it overtakes packets that wait to be carried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Control {
    /// Keep this many layers from now on.
    KeepLayers(u8),
    /// Hold one more key, to open with and to seal with when told.
    AddKey {
        /// The key's epoch.
        epoch: KeyEpoch,
        /// The key.
        key: StreamKey,
    },
    /// Seal with this epoch's key from now on.
    SealWith(KeyEpoch),
    /// Forget the keys of this epoch and all before it, for good.
    RetireKeys {
        /// The last epoch to forget.
        through: KeyEpoch,
    },
    /// Give out what is held.
    Flush,
    /// Take input again after a pause; the lift's own, no module sees it.
    Resume,
    /// Words between the two halves of a module that this crate does not know.
    Custom(Bytes),
}

/// A module did not do what a control message said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The message is for other modules.
    #[error("the message is for other modules")]
    NotMine,
    /// No stream has that many layers, or none would be left.
    #[error("cannot keep {0} layers: 1 to {LAYERS_MAX} can be kept")]
    Layers(u8),
    /// The keys do not allow it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A module of another crate says why in its own words.
    #[error("{0}")]
    Other(String),
}
