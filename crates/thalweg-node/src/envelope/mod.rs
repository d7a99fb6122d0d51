//! A stream key sealed for one node, for plans that run a seal or open adapter there.
//!
//! *The idea.* Plans travel through nodes that may not read the stream. So the key is sealed for
//! the addressee's [`BoxKey`], which the addressee's signed record contains: an ephemeral X25519
//! agreement yields a key for one use.
//!
//! ```text
//! envelope = ephemeral public key (32) ‖ AES-256-GCM(key epoch (4) ‖ stream key (32)) ‖ tag (16)
//! key      = HKDF-SHA256(salt "thalweg envelope v1", X25519, info = ephemeral ‖ box key ‖ source ‖ stream)
//! ```
//!
//! A box key is drawn at the start of a node and kept in memory only; envelopes sealed for it
//! cannot be opened after a restart.
//!
//! *What it does not do.* It decides no trust; the source does, from its configuration.
//!
//! *Sources.* RFC 7748, RFC 5869; HPKE (RFC 9180) base mode, of which this is the shape for one
//! fixed suite.

#[cfg(test)]
mod tests;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, EphemeralPrivateKey, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hkdf::{self, HKDF_SHA256};
use aws_lc_rs::rand::SystemRandom;
use thalweg_control::control::{KeyContent, KeyContext, KeysError};

const SALT: &[u8] = b"thalweg envelope v1";
const PUBLIC_BYTES: usize = 32;
const CONTENT_BYTES: usize = 4 + 32;

/// A node's key pair for envelopes, drawn at its start.
pub(crate) struct BoxKey {
    secret: PrivateKey,
    public: [u8; PUBLIC_BYTES],
}

impl BoxKey {
    pub(crate) fn generate() -> Result<Self, KeysError> {
        let secret = PrivateKey::generate(&X25519).map_err(|_| KeysError::Random)?;
        let public = secret.compute_public_key().map_err(|_| KeysError::Random)?;
        let public = public.as_ref().try_into().map_err(|_| KeysError::Random)?;
        Ok(Self { secret, public })
    }

    pub(crate) const fn public(&self) -> [u8; PUBLIC_BYTES] {
        self.public
    }

    pub(crate) fn open(
        &self,
        envelope: &[u8],
        context: KeyContext,
    ) -> Result<KeyContent, KeysError> {
        let (ephemeral, sealed) = envelope
            .split_at_checked(PUBLIC_BYTES)
            .ok_or(KeysError::Unauthentic)?;
        let info = info(ephemeral, &self.public, context);
        let peer = UnparsedPublicKey::new(&X25519, ephemeral);
        let key = agreement::agree(&self.secret, peer, KeysError::Unauthentic, |shared| {
            Ok(derive(shared, &info))
        })?;
        let mut sealed = sealed.to_vec();
        let plain = key
            .open_in_place(once(), Aad::empty(), &mut sealed)
            .map_err(|_| KeysError::Unauthentic)?;
        let plain: [u8; CONTENT_BYTES] =
            (&*plain).try_into().map_err(|_| KeysError::Unauthentic)?;
        let (epoch, key) = plain.split_at(4);
        Ok(KeyContent {
            key_epoch: u32::from_be_bytes(epoch.try_into().expect("four bytes were split off")),
            key: key.try_into().expect("32 bytes are left of 36"),
        })
    }
}

/// Seals a stream's key for the owner of a box key.
pub(crate) fn seal(
    content: &KeyContent,
    box_key: &[u8; PUBLIC_BYTES],
    context: KeyContext,
) -> Result<Vec<u8>, KeysError> {
    let secret = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new())
        .map_err(|_| KeysError::Random)?;
    let ephemeral = secret.compute_public_key().map_err(|_| KeysError::Random)?;
    let info = info(ephemeral.as_ref(), box_key, context);
    let peer = UnparsedPublicKey::new(&X25519, box_key);
    let key = agreement::agree_ephemeral(secret, peer, KeysError::BoxKey, |shared| {
        Ok(derive(shared, &info))
    })?;
    let mut sealed = content.key_epoch.to_be_bytes().to_vec();
    sealed.extend_from_slice(&content.key);
    key.seal_in_place_append_tag(once(), Aad::empty(), &mut sealed)
        .map_err(|_| KeysError::BoxKey)?;
    Ok([ephemeral.as_ref(), &sealed].concat())
}

/// Returns the nonce of a key that seals a single message.
fn once() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn info(ephemeral: &[u8], box_key: &[u8; PUBLIC_BYTES], context: KeyContext) -> Vec<u8> {
    [
        ephemeral,
        box_key,
        &context.source.0,
        &context.stream.0.to_be_bytes(),
    ]
    .concat()
}

fn derive(shared: &[u8], info: &[u8]) -> LessSafeKey {
    let info = [info];
    let secret = hkdf::Salt::new(HKDF_SHA256, SALT).extract(shared);
    let okm = secret
        .expand(&info, &AES_256_GCM)
        .expect("one key is not too long for HKDF");
    LessSafeKey::new(UnboundKey::from(okm))
}
