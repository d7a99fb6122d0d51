//! Finds a recovery point in supplemental enhancement information.
//!
//! The idea: messages follow one another, each with its type and length in bytes, of which 255
//! means "continued". The type sought is 6, which H.264, H.265 and H.266 share. From a recovery
//! point a decoder gets a whole picture without knowledge of earlier ones. Encoders that refresh
//! line by line, or begin groups with pictures other than IDR, set no other mark.
//!
//! What it does not do: tell after how many pictures the picture is whole.
//!
//! Sources: ITU-T H.264 §7.3.2.3.1, §D.1.8; ITU-T H.265 §7.3.5, §D.2.8; §7.4.1 of both (emulation
//! prevention).

const RECOVERY_POINT: u32 = 6;

/// Returns whether SEI messages, without the NAL header, hold a recovery point.
pub(super) fn has_recovery_point(messages: &[u8]) -> bool {
    let mut bytes = unescaped(messages);
    // The trailing bits remain at the end: one byte.
    while let Some((kind, len)) = number(&mut bytes).zip(number(&mut bytes)) {
        if kind == RECOVERY_POINT {
            return true;
        }
        if (0..len).any(|_| bytes.next().is_none()) {
            return false;
        }
    }
    false
}

/// A number: the sum of bytes up to the first that is not 255.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut sum = 0u32;
    loop {
        let byte = bytes.next()?;
        sum = sum.saturating_add(u32::from(byte));
        if byte != 0xff {
            return Some(sum);
        }
    }
}

/// The bytes without emulation prevention: a 3 after two zeros is removed.
fn unescaped(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut zeros = 0;
    bytes.iter().copied().filter(move |&byte| {
        let is_escape = byte == 3 && zeros >= 2;
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        !is_escape
    })
}
