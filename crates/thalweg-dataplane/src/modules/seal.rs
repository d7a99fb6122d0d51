//! Encrypts and authenticates payloads in place: the DO half, for links and nodes that may not see
//! plaintext.
//!
//! *The idea.* The header stays readable, so that relays can still drop, order and route; it is
//! authenticated, so that they cannot forge it. One counter runs through the module's life, across
//! key epochs and never back, so that selecting an old key again repeats no nonce.
//!
//! *What it does not do.* It hides neither length nor header. It does not seal twice: the flag
//! stands for one seal.
//!
//! *Sources.* `sealed` (the format); spec DC-34, DC-35, DC-38.

use core::fmt;

use aws_lc_rs::aead::LessSafeKey;
use thalweg_base::adu::Flags;
use thalweg_base::event::DropCause;
use thalweg_base::id::StreamId;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

use super::sealed::{Cipher, TAG_BYTES, Trailer, associated_data};
use crate::keys::{KeyEpoch, KeyError, KeyRing, SealInstance};
use crate::module::{Context, Control, ControlError, Module, Verdict};
use crate::packet::{Packet, Pool};

/// Encrypts and authenticates payloads.
pub struct Seal {
    stream: StreamId,
    cipher: Cipher,
    ring: KeyRing,
    instance: SealInstance,
    epoch: KeyEpoch,
    key: LessSafeKey,
    /// Counter of the next ADU; it never goes back, not even for a new key.
    counter: u64,
}

impl Seal {
    /// Returns a sealer for `stream` with the ring's sealing key; `None` if the ring has none.
    pub fn new(
        cipher: Cipher,
        stream: StreamId,
        ring: KeyRing,
        instance: SealInstance,
    ) -> Option<Self> {
        let (epoch, secret) = ring.sealing()?;
        let key = cipher.derive(secret, stream, epoch, instance.bits());
        Some(Self {
            stream,
            cipher,
            ring,
            instance,
            epoch,
            key,
            counter: 0,
        })
    }

    #[cfg(test)]
    pub(super) fn with_counter(mut self, counter: u64) -> Self {
        self.counter = counter;
        self
    }

    fn seal(&mut self, packet: &mut Packet, pool: &Pool) -> Result<(), DropCause> {
        let trailer = Trailer {
            cipher: self.cipher,
            key_epoch: self.epoch,
            instance: self.instance.bits(),
            counter: self.counter,
        };
        let encoded = trailer.encode().ok_or(DropCause::Exhausted)?;
        let encoded = encoded.as_ref();
        let plain_bytes = packet.payload().len();
        let added_bytes = TAG_BYTES + encoded.len();
        if plain_bytes + added_bytes > ADU_PAYLOAD_BYTES_MAX {
            return Err(DropCause::Overflow);
        }
        // From here on the counter is used up, whatever happens.
        self.counter += 1;
        let aad = associated_data(&packet.header, encoded);
        let whole = packet
            .grow_back(added_bytes, pool)
            .map_err(|no_room| no_room.cause())?;
        let (plain, room) = whole.split_at_mut(plain_bytes);
        let tag = self
            .key
            .seal_in_place_separate_tag(trailer.nonce(), aad, plain)
            .map_err(|_| DropCause::Overflow)?;
        room[..TAG_BYTES].copy_from_slice(tag.as_ref());
        room[TAG_BYTES..].copy_from_slice(encoded);
        Ok(())
    }

    fn choose_key(&mut self) -> Result<(), KeyError> {
        let (epoch, secret) = self.ring.sealing().ok_or(KeyError::Unknown(self.epoch))?;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.key = self
                .cipher
                .derive(secret, self.stream, epoch, self.instance.bits());
        }
        Ok(())
    }
}

impl Module for Seal {
    fn name(&self) -> &'static str {
        "seal"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        if packet.header.flags.contains(Flags::SEALED) {
            return Verdict::Discard(DropCause::Malformed);
        }
        match self.seal(packet, cx.pool) {
            Ok(()) => {
                packet.header.flags = packet.header.flags.with(Flags::SEALED);
                Verdict::Pass
            }
            Err(cause) => Verdict::Discard(cause),
        }
    }

    fn control(&mut self, control: &Control) -> Result<(), ControlError> {
        match control {
            Control::AddKey { epoch, key } => self.ring.add(*epoch, key.clone())?,
            Control::SealWith(epoch) => {
                self.ring.seal_with(*epoch)?;
                self.choose_key()?;
            }
            Control::RetireKeys { through } => self.ring.retire(*through)?,
            _ => return Err(ControlError::NotMine),
        }
        Ok(())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal")
            .field("stream", &self.stream)
            .field("cipher", &self.cipher)
            .field("epoch", &self.epoch)
            .field("counter", &self.counter)
            .finish_non_exhaustive()
    }
}
