//! Signatures, digests and randomness for virtual nodes, all derived from the seed.
//!
//! A node's control plane asks its [`Keys`] to sign, verify and seal. Here one secret per node does all
//! of it with BLAKE3: a signature is a keyed hash over the message; an envelope is a key stream and a
//! keyed hash over its content. Forged or changed bytes are refused as by the real node, and the same
//! seed gives the same bytes.
//!
//! This is not cryptography: all secrets lie in one [`Ring`], and a verifier could forge. It is not
//! linked into a node.

use std::collections::BTreeMap;
use std::rc::Rc;

use thalweg_base::id::NodeId;
use thalweg_base::random::SplitMix;
use thalweg_base::wire::SIGNATURE_BYTES;
use thalweg_control::control::{KeyContent, KeyContext, Keys, KeysError};
use thalweg_planner::model::NodeName;

#[cfg(test)]
mod tests;

/// Bytes of the nonce that makes each envelope's key stream unique.
const NONCE_BYTES: usize = 8;

/// Bytes of a stream's key and its epoch.
const CONTENT_BYTES: usize = 4 + 32;

/// Bytes of the keyed hash over an envelope.
const TAG_BYTES: usize = 16;

/// The secrets of all nodes of a world, by their public keys.
#[derive(Debug, Default)]
pub struct Ring {
    signing: BTreeMap<NodeId, [u8; 32]>,
    boxes: BTreeMap<[u8; 32], [u8; 32]>,
}

/// One node's keys.
#[derive(Debug)]
pub struct HostKeys {
    ring: Rc<Ring>,
    id: NodeId,
    rng: SplitMix,
}

impl Ring {
    /// Derives the secrets of these nodes.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Self {
        let mut ring = Self::default();
        for name in names {
            let secret = blake3::derive_key("thalweg simulated node", name.as_str().as_bytes());
            ring.signing.insert(node_id(name), secret);
            ring.boxes.insert(box_key(&secret), secret);
        }
        ring
    }
}

/// Returns the id of a node of a world.
pub fn node_id(name: &NodeName) -> NodeId {
    NodeId(blake3::derive_key(
        "thalweg simulated identity",
        name.as_str().as_bytes(),
    ))
}

fn box_key(secret: &[u8; 32]) -> [u8; 32] {
    blake3::derive_key("thalweg simulated box", secret)
}

impl HostKeys {
    /// Returns the keys of a node of the ring, with randomness from `seed`.
    pub const fn new(ring: Rc<Ring>, id: NodeId, seed: u64) -> Self {
        Self {
            ring,
            id,
            rng: SplitMix::new(seed),
        }
    }

    fn secret(&self) -> &[u8; 32] {
        &self.ring.signing[&self.id]
    }
}

impl Keys for HostKeys {
    fn sign(&mut self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        signature(self.secret(), message)
    }

    fn verify(&self, signer: NodeId, message: &[u8], bytes: &[u8; SIGNATURE_BYTES]) -> bool {
        let secret = self.ring.signing.get(&signer);
        secret.is_some_and(|secret| signature(secret, message) == *bytes)
    }

    fn digest(&self, message: &[u8]) -> [u8; 8] {
        let mut digest = [0; 8];
        digest.copy_from_slice(&blake3::hash(message).as_bytes()[..8]);
        digest
    }

    fn random(&mut self, bytes: &mut [u8]) -> Result<(), KeysError> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.rng.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }

    fn box_key(&self) -> [u8; 32] {
        box_key(self.secret())
    }

    fn seal_key(
        &mut self,
        content: &KeyContent,
        box_key: &[u8; 32],
        context: KeyContext,
    ) -> Result<Vec<u8>, KeysError> {
        let secret = self.ring.boxes.get(box_key).ok_or(KeysError::BoxKey)?;
        let nonce = self.rng.next_u64().to_le_bytes();
        let mut plain = [0; CONTENT_BYTES];
        plain[..4].copy_from_slice(&content.key_epoch.to_be_bytes());
        plain[4..].copy_from_slice(&content.key);
        let (stream, tag) = envelope(secret, context, &nonce, &plain);
        let sealed = plain.iter().zip(stream).map(|(plain, key)| plain ^ key);
        Ok(nonce.into_iter().chain(sealed).chain(tag).collect())
    }

    fn open_key(&self, sealed: &[u8], context: KeyContext) -> Result<KeyContent, KeysError> {
        let refuse = KeysError::Unauthentic;
        if sealed.len() != NONCE_BYTES + CONTENT_BYTES + TAG_BYTES {
            return Err(refuse);
        }
        let (nonce, rest) = sealed.split_at(NONCE_BYTES);
        let (body, tag) = rest.split_at(CONTENT_BYTES);
        let (stream, _) = envelope(self.secret(), context, nonce, &[]);
        let mut plain = [0; CONTENT_BYTES];
        for (plain, (body, key)) in plain.iter_mut().zip(body.iter().zip(stream)) {
            *plain = body ^ key;
        }
        if envelope(self.secret(), context, nonce, &plain).1 != tag {
            return Err(refuse);
        }
        let (number, key) = plain.split_at(4);
        Ok(KeyContent {
            key_epoch: u32::from_be_bytes(number.try_into().map_err(|_| refuse)?),
            key: key.try_into().map_err(|_| refuse)?,
        })
    }
}

fn signature(secret: &[u8; 32], message: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let mut bytes = [0; SIGNATURE_BYTES];
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(message);
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Returns the key stream of an envelope, and the tag over its plain content.
fn envelope(
    secret: &[u8; 32],
    context: KeyContext,
    nonce: &[u8],
    plain: &[u8],
) -> ([u8; CONTENT_BYTES], [u8; TAG_BYTES]) {
    let hasher = |purpose: &[u8]| {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(purpose);
        hasher.update(&context.source.0);
        hasher.update(&context.stream.0.to_be_bytes());
        hasher.update(nonce);
        hasher
    };
    let mut stream = [0; CONTENT_BYTES];
    hasher(b"stream").finalize_xof().fill(&mut stream);
    let mut tag = [0; TAG_BYTES];
    hasher(b"tag").update(plain).finalize_xof().fill(&mut tag);
    (stream, tag)
}
