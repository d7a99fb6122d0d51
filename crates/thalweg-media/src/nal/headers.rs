//! Classifies one NAL unit, or one part between start codes of an older codec, by its effect on
//! later ones.
//!
//! The idea: one function per codec, from the first bytes after a start code to a [`Picture`].
//!
//! Sources: ITU-T H.264 table 7-1; ITU-T H.265 table 7-1; ITU-T H.266 table 5; ISO/IEC 11172-2
//! §2.4.2 and ITU-T H.262 §6.2, table 6-1 (MPEG-1, MPEG-2); ISO/IEC 14496-2 §6.2.1, table 6-3
//! (MPEG-4); SMPTE 421M Annex E (VC-1); GY/T 299.1 (AVS).

use super::sei::has_recovery_point;
use super::{Codec, Picture, Role};

/// Classifies the bytes between two start codes.
pub(super) fn classify_unit(codec: Codec, unit: &[u8]) -> Option<Picture> {
    match codec {
        Codec::H264 => h264(unit),
        Codec::H265 => h265(unit),
        Codec::H266 => h266(unit),
        Codec::Mpeg2 => mpeg2(unit).map(base),
        Codec::Mpeg4 => mpeg4(unit).map(base),
        Codec::Vc1 => vc1(unit).map(base),
        Codec::Avs => avs(unit).map(base),
    }
}

/// A picture of a codec without sub-layers.
fn base(role: Role) -> Picture {
    Picture { role, temporal: 0 }
}

fn h264(unit: &[u8]) -> Option<Picture> {
    let (&first, rest) = unit.split_first()?;
    let reference = first >> 5 & 3 != 0;
    Some(base(match first & 0x1f {
        5 => Role::Key,
        6 if has_recovery_point(rest) => Role::Key,
        1..=4 | 19..=21 if reference => Role::Reference,
        1..=4 | 19..=21 => Role::NonReference,
        7 | 8 | 13 | 15 => Role::Parameter,
        _ => return None,
    }))
}

fn h265(unit: &[u8]) -> Option<Picture> {
    let &[first, second, ref rest @ ..] = unit else {
        return None;
    };
    let role = match first >> 1 & 0x3f {
        16..=23 => Role::Key,
        39 if has_recovery_point(rest) => Role::Key,
        32..=34 => Role::Parameter,
        // Trailing and leading pictures of even types are not referenced within their own
        // sub-layer.
        n @ 0..=15 if n % 2 == 0 => Role::NonReference,
        0..=15 => Role::Reference,
        _ => return None,
    };
    let temporal = (second & 7).saturating_sub(1);
    Some(Picture { role, temporal })
}

fn h266(unit: &[u8]) -> Option<Picture> {
    let &[_, second, ref rest @ ..] = unit else {
        return None;
    };
    let role = match second >> 3 {
        // IDR, CRA, and where a gradual refresh begins.
        7..=10 => Role::Key,
        23 if has_recovery_point(rest) => Role::Key,
        // The NAL header does not tell whether others reference a picture.
        0..=6 => Role::Reference,
        13..=18 => Role::Parameter,
        _ => return None,
    };
    let temporal = (second & 7).saturating_sub(1);
    Some(Picture { role, temporal })
}

/// MPEG-1 and MPEG-2: a sequence header or an I picture.
fn mpeg2(unit: &[u8]) -> Option<Role> {
    match *unit {
        [0xb3, ..] => Some(Role::Key),
        // Picture header: ten bits of order, three of coding type.
        [0x00, _, second, ..] => match second >> 3 & 7 {
            1 | 4 => Some(Role::Key),
            2 => Some(Role::Reference),
            3 => Some(Role::NonReference),
            _ => None,
        },
        _ => None,
    }
}

/// MPEG-4 part 2: an I picture, by the two bits of its coding type.
fn mpeg4(unit: &[u8]) -> Option<Role> {
    match *unit {
        [0xb6, second, ..] => Some(match second >> 6 {
            0 => Role::Key,
            2 => Role::NonReference,
            _ => Role::Reference,
        }),
        [0xb0 | 0x20..=0x2f, ..] => Some(Role::Parameter),
        _ => None,
    }
}

/// VC-1: decoding can begin at an entry point; the type of a frame is not byte-aligned.
fn vc1(unit: &[u8]) -> Option<Role> {
    match *unit {
        [0x0e, ..] => Some(Role::Key),
        [0x0d, ..] => Some(Role::Reference),
        [0x0f, ..] => Some(Role::Parameter),
        _ => None,
    }
}

/// AVS: I pictures have their own start code.
fn avs(unit: &[u8]) -> Option<Role> {
    match *unit {
        [0xb3, ..] => Some(Role::Key),
        [0xb6, ..] => Some(Role::Reference),
        [0xb0, ..] => Some(Role::Parameter),
        _ => None,
    }
}
