//! What a NAL unit stream (H.264, H.265) says about the importance of each access unit.
//!
//! The idea: scan for start codes, look at one or two header bytes of each NAL unit, and give the access unit the
//! greatest [`Role`] of its parts. No slice is parsed: the NAL header was made so that a network can decide by it.
//!
//! What it does not do: decode, repair, split several access units in one buffer (they count as one).
//!
//! Sources: ITU-T H.264 §7.3.1, §7.4.1, Annex B; ITU-T H.265 §7.3.1.2, §7.4.2.2, Annex B.

mod role;
mod scan;

#[cfg(test)]
mod tests;

pub use role::{Importance, Role};
pub use scan::{NalUnits, nal_units};

/// The codecs understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// ITU-T H.264, AVC.
    H264,
    /// ITU-T H.265, HEVC.
    H265,
}

/// What is known of an access unit from its NAL headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// The greatest role of its parts.
    pub role: Role,
    /// Temporal sub-layer: 0 for H.264, and 0 is the base for H.265.
    pub temporal: u8,
}

/// Classifies an access unit in Annex B form; `None` if it holds neither a slice nor a parameter set.
///
/// Cost    O(bytes), no allocation
pub fn classify(codec: Codec, data: &[u8]) -> Option<Picture> {
    nal_units(data)
        .filter_map(|unit| match codec {
            Codec::H264 => classify_h264(unit),
            Codec::H265 => classify_h265(unit),
        })
        .reduce(|a, b| {
            // `Role` is ordered by what a receiver loses with it; a key picture outranks its own parameter sets.
            if a.role >= b.role { a } else { b }
        })
}

fn classify_h264(unit: &[u8]) -> Option<Picture> {
    let &first = unit.first()?;
    let reference = first >> 5 & 3 != 0;
    let role = match first & 0x1f {
        5 => Role::Key,
        1..=4 | 19..=21 if reference => Role::Reference,
        1..=4 | 19..=21 => Role::NonReference,
        7 | 8 | 13 | 15 => Role::Parameter,
        _ => return None,
    };
    Some(Picture { role, temporal: 0 })
}

fn classify_h265(unit: &[u8]) -> Option<Picture> {
    let &[first, second, ..] = unit else {
        return None;
    };
    let role = match first >> 1 & 0x3f {
        16..=23 => Role::Key,
        32..=34 => Role::Parameter,
        // Of the trailing and leading pictures the even types are not referred to by their own sub-layer.
        n @ 0..=15 if n % 2 == 0 => Role::NonReference,
        0..=15 => Role::Reference,
        _ => return None,
    };
    let temporal = (second & 7).saturating_sub(1);
    Some(Picture { role, temporal })
}
