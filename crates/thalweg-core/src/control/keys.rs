//! What the control plane needs of cryptography and of chance.
//!
//! *The idea.* Deciding needs signatures, digests, random numbers and sealed keys, and knows nothing of how they are
//! made. A node implements [`Keys`] with its key file and a cipher library; a simulator implements it with a seed.
//!
//! *What it does not do.* It holds no secret; the machines pass through what they are given.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{NodeId, StreamId};
use crate::wire::control::SIGNATURE_BYTES;

/// What the control plane of one node needs of cryptography and of chance.
pub trait Keys {
    /// Signs as this node.
    fn sign(&mut self, message: &[u8]) -> [u8; SIGNATURE_BYTES];

    /// Returns whether a node has signed a message.
    fn verify(&self, signer: NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool;

    /// Returns the first eight bytes of a digest that nobody can make collide on purpose: BLAKE3 on the wire.
    fn digest(&self, message: &[u8]) -> [u8; 8];

    /// Fills a buffer with random bytes.
    fn random(&mut self, bytes: &mut [u8]) -> Result<(), KeysError>;

    /// Returns the key with which others seal what only this node may read.
    fn box_key(&self) -> [u8; 32];

    /// Seals a stream's key for the node that has this box key.
    fn seal_key(
        &mut self,
        content: &KeyContent,
        box_key: &[u8; 32],
        context: KeyContext,
    ) -> Result<Vec<u8>, KeysError>;

    /// Opens an envelope that was sealed for this node.
    fn open_key(&self, envelope: &[u8], context: KeyContext) -> Result<KeyContent, KeysError>;
}

/// The key of a stream, and which of its keys it is.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyContent {
    /// The number of the key.
    pub key_epoch: u32,
    /// The secret.
    pub key: [u8; 32],
}

/// Whom and what an envelope is for; another context does not open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyContext {
    /// The node that publishes the stream.
    pub source: NodeId,
    /// The stream.
    pub stream: StreamId,
}

/// A key cannot be drawn, sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// There is no chance to be had.
    #[error("the system gives no random numbers")]
    Random,
    /// The addressee announces something that is no box key.
    #[error("the box key of the addressee is no X25519 key")]
    BoxKey,
    /// The envelope is not for us, or was changed.
    #[error("the envelope was not made for this node, source and stream, or was damaged")]
    Unauthentic,
}

impl fmt::Debug for KeyContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyContent({}, secret)", self.key_epoch)
    }
}
