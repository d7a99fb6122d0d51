//! The node's cryptography and random numbers, as the control plane needs them.

use aws_lc_rs::rand;
use thalweg_base::id::NodeId;
use thalweg_base::wire::SIGNATURE_BYTES;
use thalweg_control::control::{KeyContent, KeyContext, Keys, KeysError};
use thalweg_net::{Identity, identity};

use crate::envelope::{self, BoxKey};

/// The node's identity key, and the key to which envelopes for this node are sealed.
pub(super) struct NodeKeys {
    pub(super) identity: Identity,
    pub(super) box_key: BoxKey,
}

impl Keys for NodeKeys {
    fn sign(&mut self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.identity.sign(message)
    }

    fn verify(&self, signer: NodeId, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        identity::verify(signer, message, signature)
    }

    fn digest(&self, message: &[u8]) -> [u8; 8] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(message);
        let mut digest = [0; 8];
        hasher.finalize_xof().fill(&mut digest);
        digest
    }

    fn random(&mut self, bytes: &mut [u8]) -> Result<(), KeysError> {
        rand::fill(bytes).map_err(|_| KeysError::Random)
    }

    fn box_key(&self) -> [u8; 32] {
        self.box_key.public()
    }

    fn seal_key(
        &mut self,
        content: &KeyContent,
        box_key: &[u8; 32],
        context: KeyContext,
    ) -> Result<Vec<u8>, KeysError> {
        envelope::seal(content, box_key, context)
    }

    fn open_key(&self, envelope: &[u8], context: KeyContext) -> Result<KeyContent, KeysError> {
        self.box_key.open(envelope, context)
    }
}
