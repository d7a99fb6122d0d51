//! A stream's keys by epoch, and the guarantee that no nonce repeats.
//!
//! *The idea.* A stream has one secret per **key epoch**. The secret never encrypts payloads: each
//! sealer derives its own key from the secret, the stream, the key epoch, its algorithm and its
//! [`SealInstance`], and numbers its ADUs with a counter that neither wraps nor restarts. So no two
//! sealers share a key, and no sealer repeats a nonce. To roll over: add the new key everywhere,
//! seal with it, and retire the old one when its last ADU has arrived.
//!
//! *What it does not do.* It generates no randomness and distributes no keys: the caller does both.
//!
//! *Sources.* RFC 5869 (HKDF); docs/reference/protocol.md, "Sealed payloads"; spec DC-38, DC-39 (in-stream
//! change of keys).

use core::fmt;

use aws_lc_rs::constant_time;
use zeroize::Zeroize;

#[cfg(test)]
mod tests;

/// Maximum number of keys per stream: the present one, the next, and old ones not yet retired.
pub const KEYS_PER_STREAM_MAX: usize = 16;

/// The number of a stream's key; a new one is made when a member joins or leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyEpoch(pub u32);

/// The secret of a stream in one key epoch; wiped when dropped.
#[derive(Clone)]
pub struct StreamKey([u8; 32]);

/// Identifies one sealer of a stream: 64 random bits, used once.
///
/// It is not `Clone`: two sealers with the same instance would repeat nonces.
#[derive(Debug, PartialEq, Eq)]
pub struct SealInstance(u64);

/// The keys of one stream.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    /// At most [`KEYS_PER_STREAM_MAX`], in the order of their epochs.
    keys: Vec<(KeyEpoch, StreamKey)>,
    sealing: Option<KeyEpoch>,
    retired_through: Option<KeyEpoch>,
}

/// Why a key could not be added, chosen or retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No key of this epoch is held.
    #[error("no key of key epoch {} is held", .0.0)]
    Unknown(KeyEpoch),
    /// The epoch has another key.
    #[error("key epoch {} has another key already: a new key needs a new epoch", .0.0)]
    Taken(KeyEpoch),
    /// The epoch was retired; accepting its key again would allow replays.
    #[error("key epoch {} is retired and cannot come back", .0.0)]
    Retired(KeyEpoch),
    /// Too many keys are held.
    #[error("{KEYS_PER_STREAM_MAX} keys are held already: retire old ones first")]
    Full,
    /// The key is the sealing key.
    #[error("key epoch {} is the sealing key: select a later one before retiring it", .0.0)]
    InUse(KeyEpoch),
}

impl StreamKey {
    /// Returns the key with these secret bytes.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    pub(crate) const fn secret(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Drop for StreamKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamKey(secret)")
    }
}

impl SealInstance {
    /// Returns the instance of these bits, which must be cryptographically random and used for
    /// nothing else.
    pub const fn from_random(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns an instance for a further sealer of the same lift.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        // The neighbours of random bits are as unlikely to equal another sealer's bits.
        let bits = self.0;
        self.0 = bits.wrapping_add(1);
        Self(bits)
    }

    pub(crate) const fn bits(&self) -> u64 {
        self.0
    }
}

impl KeyRing {
    /// Returns a ring without keys.
    pub const fn new() -> Self {
        Self {
            keys: Vec::new(),
            sealing: None,
            retired_through: None,
        }
    }

    /// Returns a ring with one key, which is the sealing key.
    pub fn with_key(epoch: KeyEpoch, key: StreamKey) -> Self {
        Self {
            keys: vec![(epoch, key)],
            sealing: Some(epoch),
            retired_through: None,
        }
    }

    /// Adds a key for opening; the first one also becomes the sealing key. Adding the same key
    /// again changes nothing.
    pub fn add(&mut self, epoch: KeyEpoch, key: StreamKey) -> Result<(), KeyError> {
        if self.retired_through.is_some_and(|last| epoch <= last) {
            return Err(KeyError::Retired(epoch));
        }
        match self.position(epoch) {
            Ok(at) => constant_time::verify_slices_are_equal(&self.keys[at].1.0, &key.0)
                .map_err(|_| KeyError::Taken(epoch)),
            Err(_) if self.keys.len() >= KEYS_PER_STREAM_MAX => Err(KeyError::Full),
            Err(at) => {
                self.keys.insert(at, (epoch, key));
                self.sealing.get_or_insert(epoch);
                Ok(())
            }
        }
    }

    /// Selects the sealing key.
    pub fn seal_with(&mut self, epoch: KeyEpoch) -> Result<(), KeyError> {
        self.position(epoch).map_err(|_| KeyError::Unknown(epoch))?;
        self.sealing = Some(epoch);
        Ok(())
    }

    /// Removes the keys up to and including this epoch; they can never be added again.
    pub fn retire(&mut self, through: KeyEpoch) -> Result<(), KeyError> {
        if let Some(sealing) = self.sealing.filter(|epoch| *epoch <= through) {
            return Err(KeyError::InUse(sealing));
        }
        self.keys.retain(|(epoch, _)| *epoch > through);
        self.retired_through = self.retired_through.max(Some(through));
        Ok(())
    }

    /// Returns the key of an epoch.
    pub fn get(&self, epoch: KeyEpoch) -> Option<&StreamKey> {
        self.position(epoch).ok().map(|at| &self.keys[at].1)
    }

    /// Returns the sealing key.
    pub fn sealing(&self) -> Option<(KeyEpoch, &StreamKey)> {
        let epoch = self.sealing?;
        Some((epoch, self.get(epoch)?))
    }

    /// Returns whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn position(&self, epoch: KeyEpoch) -> Result<usize, usize> {
        self.keys.binary_search_by_key(&epoch, |(epoch, _)| *epoch)
    }
}
