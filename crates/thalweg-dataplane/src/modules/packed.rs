//! The format of a packed payload, shared by `pack` and `unpack` (docs/reference/protocol.md, "Packed
//! payloads").
//!
//! ```text
//! packed = algorithm:u8  [ original_bytes:varint ]  data
//!          0 raw          absent                     the payload as it was
//!          1 lz4 block    1, 2 or 4 bytes            one LZ4 block
//!          2 zstd         1, 2 or 4 bytes            one zstd frame
//! ```
//!
//! *The idea.* The reader knows the original length before it allocates, and refuses one above an
//! ADU's maximum or above `limits::UNPACK_FACTOR_MAX` times the packed length: a decompression bomb
//! costs its receiver nothing. The writer keeps the same limit. The varint is QUIC's (RFC 9000
//! §16), in its shortest form.

use thalweg_base::limits::{ADU_PAYLOAD_BYTES_MAX, UNPACK_FACTOR_MAX};

/// Length of the longest prefix. A payload that does not shrink grows by one byte at most.
pub const PACKED_PREFIX_BYTES_MAX: usize = 5;

const RAW: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// The compression algorithm of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer {
    /// Fast.
    Lz4,
    /// Smaller, at about a quarter of the speed on short payloads (BM-D1).
    Zstd,
}

/// The prefix of a packed payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// The payload follows unchanged.
    Raw,
    /// The payload follows compressed, with its original length.
    Packed {
        packer: Packer,
        original_bytes: usize,
    },
}

impl Prefix {
    /// Reads a prefix and returns it with the data after it; `None` if it is invalid or the length
    /// exceeds the limit.
    pub(super) fn decode(packed: &[u8]) -> Option<(Self, &[u8])> {
        let (algorithm, rest) = packed.split_first()?;
        let packer = match *algorithm {
            RAW => return Some((Self::Raw, rest)),
            LZ4 => Packer::Lz4,
            ZSTD => Packer::Zstd,
            _ => return None,
        };
        let (original_bytes, data) = read_varint(rest)?;
        (is_allowed(original_bytes, packed.len())).then_some((
            Self::Packed {
                packer,
                original_bytes,
            },
            data,
        ))
    }

    /// Writes the prefix at the start of `out` and returns its length.
    pub(super) fn encode(self, out: &mut [u8; PACKED_PREFIX_BYTES_MAX]) -> usize {
        let Self::Packed {
            packer,
            original_bytes,
        } = self
        else {
            out[0] = RAW;
            return 1;
        };
        out[0] = match packer {
            Packer::Lz4 => LZ4,
            Packer::Zstd => ZSTD,
        };
        1 + write_varint(original_bytes, &mut out[1..])
    }
}

/// Returns whether a payload of `packed_bytes` may unpack to `original_bytes`.
pub(super) const fn is_allowed(original_bytes: usize, packed_bytes: usize) -> bool {
    original_bytes <= ADU_PAYLOAD_BYTES_MAX
        && original_bytes <= packed_bytes.saturating_mul(UNPACK_FACTOR_MAX)
}

fn read_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let len = 1 << (bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(len)?;
    let value = number[1..]
        .iter()
        .fold(usize::from(number[0] & 0x3F), |value, byte| {
            value << 8 | usize::from(*byte)
        });
    let shortest = match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        _ => 4,
    };
    (len == shortest).then_some((value, rest))
}

fn write_varint(value: usize, out: &mut [u8]) -> usize {
    let value = value as u32;
    match value {
        0..0x40 => {
            out[0] = value as u8;
            1
        }
        0x40..0x4000 => {
            out[..2].copy_from_slice(&(value as u16 | 0x4000).to_be_bytes());
            2
        }
        _ => {
            out[..4].copy_from_slice(&(value | 0x8000_0000).to_be_bytes());
            4
        }
    }
}

const _: () = assert!(
    ADU_PAYLOAD_BYTES_MAX < 1 << 30,
    "an original length fits a four-byte varint"
);
