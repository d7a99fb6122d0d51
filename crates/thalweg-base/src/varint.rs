//! QUIC's variable-length integers: the two top bits give the length of 1, 2, 4 or 8 bytes.
//!
//! *Sources.* RFC 9000 §16.

use alloc::vec::Vec;

/// The largest value of a varint.
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// Appends `value` in the fewest bytes.
///
/// Fails   panics above [`VARINT_MAX`] (a caller's bug: every encoded value has a smaller limit)
pub(crate) fn encode(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 1 << 14).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 2 << 30).to_be_bytes()),
        _ => {
            assert!(value <= VARINT_MAX, "{value} does not fit a varint");
            out.extend_from_slice(&(value | 3 << 62).to_be_bytes());
        }
    }
}

/// Returns the value at the head of `bytes` and its length, or `None` if they end too soon.
pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    // 1, 2, 4 or 8 bytes by the two top bits.
    let length = 1 << (first >> 6);
    let (head, _) = bytes.split_at_checked(length)?;
    let value = head[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |v, b| v << 8 | u64::from(*b));
    Some((value, length))
}
