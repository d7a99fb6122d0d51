//! The importance of each access unit of a video stream (H.264, H.265 and others with start codes).
//!
//! The idea: find the start codes, read the header bytes after each (`headers`), and give the
//! access unit the greatest [`Role`] of its parts. Slices are not parsed: the NAL header was
//! designed for decisions in the network. There are several marks of a place where a decoder can
//! begin (IDR, recovery point, sequence header, I picture); each is enough.
//!
//! What it does not do: decode, repair, or split several access units in one buffer (they count as
//! one).
//!
//! Sources: ITU-T H.264 §7.3.1, §7.4.1, Annex B; ITU-T H.265 §7.3.1.2, §7.4.2.2, Annex B.

mod headers;
mod role;
mod scan;
mod sei;

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
    /// ITU-T H.266, VVC.
    H266,
    /// MPEG-1 and MPEG-2 video.
    Mpeg2,
    /// MPEG-4 part 2.
    Mpeg4,
    /// SMPTE 421M, VC-1.
    Vc1,
    /// AVS.
    Avs,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::H264,
        Self::H265,
        Self::H266,
        Self::Mpeg2,
        Self::Mpeg4,
        Self::Vc1,
        Self::Avs,
    ];
}

/// The properties of an access unit that its headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    /// The greatest role of its parts.
    pub role: Role,
    /// Temporal sub-layer: 0 for H.264, and 0 is the base for H.265.
    pub temporal: u8,
}

/// Classifies an access unit with start codes; `None` if it holds neither a slice nor a parameter set.
///
/// Cost    O(bytes), no allocation
pub fn classify(codec: Codec, data: &[u8]) -> Option<Picture> {
    nal_units(data)
        .filter_map(|unit| headers::classify_unit(codec, unit))
        .reduce(|a, b| {
            // `Role` is ordered by the loss to a receiver; a key picture outranks its own parameter
            // sets.
            if a.role >= b.role { a } else { b }
        })
}
