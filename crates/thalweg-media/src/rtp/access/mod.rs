//! H.264, H.265 and Opus in RTP: packets to access units and back.
//!
//! The idea: an access unit is what has one timestamp; for video its NAL units are joined with start
//! codes (Annex B), so that a file of them is playable and [`nal`](crate::nal) can classify them. A
//! unit with a lost packet is returned without what that packet carried, as a decoder expects.
//!
//! ```text
//!  packets ─► Depacketizer (order) ─► Assembler ─► (marks, access unit) ─► Splitter ─► packets
//! ```
//!
//! What it does not do: read SDP. Parameter sets that stand only there are not in the stream: have
//! the sender repeat them in band.
//!
//! Sources: RFC 6184 §5 (H.264, non-interleaved); RFC 7798 §4.4 (H.265, without DON); RFC 7587 §4 (Opus).

mod assemble;
mod split;
#[cfg(test)]
mod tests;

pub use assemble::{AccessCounts, Assembler};
pub use split::Splitter;

use crate::nal;

/// What is carried in RTP beside MPEG-TS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// H.264.
    H264,
    /// H.265.
    H265,
    /// Opus.
    Opus,
}

/// Types of NAL units that RTP adds: several in one payload, and a part of one (RFC 6184 §5.2,
/// RFC 7798 §4.4).
const AGGREGATE_H264: u8 = 24;
const FRAGMENT_H264: u8 = 28;
const AGGREGATE_H265: u8 = 48;
const FRAGMENT_H265: u8 = 49;

/// The start code before each NAL unit of an access unit.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

impl Carried {
    /// Returns ticks of its RTP clock in a second.
    pub const fn clock_hz(self) -> u64 {
        match self {
            Self::H264 | Self::H265 => 90_000,
            Self::Opus => 48_000,
        }
    }

    const fn codec(self) -> Option<nal::Codec> {
        match self {
            Self::H264 => Some(nal::Codec::H264),
            Self::H265 => Some(nal::Codec::H265),
            Self::Opus => None,
        }
    }
}
