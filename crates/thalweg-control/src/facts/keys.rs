//! The cryptography and randomness that the control plane needs.
//!
//! *The idea.* Decisions need signatures, digests, random numbers and sealed keys, but not how they are
//! made. A node implements [`Keys`] with its key file and a cipher library, a simulator with a seed.
//!
//! *What it does not do.* It holds no secret; the state machines pass on what they are given.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::part::KeyContent;
use thalweg_base::wire::SIGNATURE_BYTES;

/// The cryptography and randomness that one node's control plane needs.
pub trait Keys {
    /// Signs a message as this node.
    fn sign(&mut self, message: &[u8]) -> [u8; SIGNATURE_BYTES];

    /// Returns whether the signature of a message is valid for its signer.
    fn verify(&self, signer: NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool;

    /// Returns the first eight bytes of a collision-resistant digest: BLAKE3 on the wire.
    fn digest(&self, message: &[u8]) -> [u8; 8];

    /// Fills a buffer with random bytes.
    fn random(&mut self, bytes: &mut [u8]) -> Result<(), KeysError>;

    /// Returns this node's public X25519 key, to which other nodes seal envelopes.
    fn box_key(&self) -> [u8; 32];

    /// Seals a stream's key to a node's box key.
    fn seal_key(
        &mut self,
        content: &KeyContent,
        box_key: &[u8; 32],
        context: KeyContext,
    ) -> Result<Vec<u8>, KeysError>;

    /// Opens an envelope that was sealed to this node.
    fn open_key(&self, envelope: &[u8], context: KeyContext) -> Result<KeyContent, KeysError>;
}

/// The source and stream that an envelope is bound to; it opens in no other context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyContext {
    /// The node that publishes the stream.
    pub source: NodeId,
    /// The stream.
    pub stream: StreamId,
}

/// A key could not be drawn, sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The system has no random numbers.
    #[error("the system supplies no random numbers")]
    Random,
    /// The addressee announces an invalid box key.
    #[error("the box key of the addressee is not an X25519 key")]
    BoxKey,
    /// The envelope is for another node or context, or was changed.
    #[error("the envelope was not made for this node, source and stream, or was damaged")]
    Unauthentic,
}
