//! The format of a sealed payload, shared by `seal` and `open` (docs/reference/protocol.md, "Sealed
//! payloads").
//!
//! ```text
//! sealed   = ciphertext  tag:16  trailer
//! trailer  = instance:u64  key_epoch:1..4  counter:1..6  form:u8           big-endian, shortest lengths
//! form     = cipher << 5 | (key_epoch length − 1) << 3 | (counter length − 1)
//! key      = HKDF-SHA256(salt "thalweg seal v1", secret of the key epoch,
//!                        info  stream:u64  key_epoch:u32  instance:u64  cipher:u8), 32 bytes
//! nonce    = 0:u32  counter:u64
//! aad      = 1:u8  stream:u64  sequence:u64  media_time:u64  importance:u8  layer:u8  depends_on:u32
//!            flags without SEALED and MARK:u8  trailer
//! ```
//!
//! *The idea.* The trailer follows the tag and is read from its last byte, so that sealing and
//! opening work in place and the payload never moves. Its two numbers share seven bytes, which
//! limits the overhead to 32; a counter that needs more is
//! [exhausted](thalweg_base::event::DropCause::Exhausted). The fields that nodes change on the way
//! (deadline, plan epoch and mark) are not authenticated; the rest of the header is.
//!
//! *Sources.* RFC 5869; RFC 5116; NIST SP 800-38D §8.2.1 (deterministic nonces); `WireGuard` §5.4.6
//! (counters).

use aws_lc_rs::aead::{
    AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::StreamId;
use thalweg_base::limits::PACKET_TAILROOM_BYTES;

use crate::keys::{KeyEpoch, StreamKey};

/// Maximum overhead of sealing, in bytes.
pub const SEAL_OVERHEAD_BYTES_MAX: usize = TAG_BYTES + TRAILER_BYTES_MAX;
/// Minimum overhead of sealing, in bytes: key epochs below 256, the first 256 ADUs of a sealer.
pub const SEAL_OVERHEAD_BYTES_MIN: usize = TAG_BYTES + INSTANCE_BYTES + 3;

pub(super) const TAG_BYTES: usize = 16;
const INSTANCE_BYTES: usize = 8;
const NUMBERS_BYTES_MAX: usize = 7;
const TRAILER_BYTES_MAX: usize = INSTANCE_BYTES + NUMBERS_BYTES_MAX + 1;
const HEADER_AAD_BYTES: usize = 32;
const AAD_VERSION: u8 = 1;
/// The flags that change after sealing: SEALED itself, and MARK on each hop.
const CHANGING: Flags = Flags::SEALED.with(Flags::MARK);
const SALT: &[u8] = b"thalweg seal v1";

/// The cipher of a seal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cipher {
    /// AES-256-GCM: fastest where the processor has AES instructions.
    #[default]
    Aes256Gcm,
    /// ChaCha20-Poly1305: fastest on processors without them.
    ChaCha20Poly1305,
}

/// The description of its own seal in a sealed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) cipher: Cipher,
    pub(super) key_epoch: KeyEpoch,
    pub(super) instance: u64,
    pub(super) counter: u64,
}

/// A byte array with a length known at run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortBytes<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

impl Cipher {
    const fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    /// Derives the key of one sealer.
    pub(super) fn derive(
        self,
        secret: &StreamKey,
        stream: StreamId,
        epoch: KeyEpoch,
        instance: u64,
    ) -> LessSafeKey {
        let info: [&[u8]; 4] = [
            &stream.0.to_be_bytes(),
            &epoch.0.to_be_bytes(),
            &instance.to_be_bytes(),
            &[self.code()],
        ];
        let secret = Salt::new(HKDF_SHA256, SALT).extract(secret.secret());
        let key = secret
            .expand(&info, self.algorithm())
            .expect("32 bytes are within what HKDF-SHA256 can give, 8,160");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

impl Trailer {
    /// Reads the trailer at the end of a sealed payload and returns it with its length; `None` if
    /// it is invalid.
    pub(super) fn decode(sealed: &[u8]) -> Option<(Self, usize)> {
        let (form, rest) = sealed.split_last()?;
        let cipher = Cipher::from_code(form >> 5)?;
        let epoch_len = usize::from(form >> 3 & 0b11) + 1;
        let counter_len = usize::from(form & 0b111) + 1;
        if epoch_len + counter_len > NUMBERS_BYTES_MAX {
            return None;
        }
        let (rest, counter) = split_number(rest, counter_len)?;
        let (rest, epoch) = split_number(rest, epoch_len)?;
        let (_, instance) = rest.split_last_chunk::<INSTANCE_BYTES>()?;
        let trailer = Self {
            cipher,
            key_epoch: KeyEpoch(epoch as u32),
            instance: u64::from_be_bytes(*instance),
            counter,
        };
        Some((trailer, INSTANCE_BYTES + epoch_len + counter_len + 1))
    }

    /// Returns the encoded trailer; `None` if the counter does not fit beside its key epoch.
    pub(super) fn encode(&self) -> Option<ShortBytes<TRAILER_BYTES_MAX>> {
        let (epoch_len, counter_len) = (
            number_len(u64::from(self.key_epoch.0)),
            number_len(self.counter),
        );
        if epoch_len + counter_len > NUMBERS_BYTES_MAX {
            return None;
        }
        let mut out = ShortBytes::new();
        out.put(&self.instance.to_be_bytes());
        out.put(&self.key_epoch.0.to_be_bytes()[4 - epoch_len..]);
        out.put(&self.counter.to_be_bytes()[8 - counter_len..]);
        out.put(&[self.cipher.code() << 5 | (epoch_len as u8 - 1) << 3 | (counter_len as u8 - 1)]);
        Some(out)
    }

    /// Returns the nonce, which is unique: a sealer uses each counter of its own key once.
    pub(super) fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.counter.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Returns the data that the tag authenticates besides the payload.
pub(super) fn associated_data(
    header: &Header,
    trailer: &[u8],
) -> Aad<ShortBytes<{ HEADER_AAD_BYTES + TRAILER_BYTES_MAX }>> {
    let mut aad = ShortBytes::new();
    aad.put(&[AAD_VERSION]);
    aad.put(&header.stream.0.to_be_bytes());
    aad.put(&header.sequence.0.to_be_bytes());
    aad.put(&header.media_time.as_micros().to_be_bytes());
    aad.put(&[header.importance.0, header.layer]);
    aad.put(&header.depends_on.to_be_bytes());
    aad.put(&[header.flags.without(CHANGING).bits()]);
    aad.put(trailer);
    Aad::from(aad)
}

impl<const MAX: usize> ShortBytes<MAX> {
    const fn new() -> Self {
        Self {
            bytes: [0; MAX],
            len: 0,
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl<const MAX: usize> AsRef<[u8]> for ShortBytes<MAX> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the minimum number of bytes for `value`, at least one.
const fn number_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(8) as usize
}

/// Splits a number of `len` bytes off the end; `None` if there are too few, or a shorter form
/// exists.
fn split_number(bytes: &[u8], len: usize) -> Option<(&[u8], u64)> {
    let (rest, digits) = bytes.split_at_checked(bytes.len().checked_sub(len)?)?;
    let value = digits
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    (number_len(value) == len).then_some((rest, value))
}

const _: () = assert!(
    SEAL_OVERHEAD_BYTES_MAX == 32,
    "what docs/reference/protocol.md promises"
);
const _: () = assert!(
    SEAL_OVERHEAD_BYTES_MAX <= PACKET_TAILROOM_BYTES,
    "a seal is written in place"
);
