//! Layered intra video: each picture becomes one base and seven enhancements, and any prefix of
//! them is a picture.
//!
//! The idea: a JPEG 2000 codestream in layer–resolution–component order holds its quality layers
//! one after the other. The encoder asks the codec for as many layers as there are byte budgets,
//! then cuts the codestream at the layers' boundaries. Each piece is one ADU payload. A receiver
//! joins main header, pieces and end marker, with the number of layers it has in the header, so
//! that the codec sees a whole codestream.
//!
//! ```text
//!   base         │ 0x10 │ check u16 │ width u16 │ height u16 │ layers, levels u4 u4 │ packets of layer 0
//!   enhancement  │ 0x10 + layer │ check u16 │ packets of that layer
//! ```
//!
//! The high half of the first byte is the version, the low half the layer. The check is the upper
//! half of the CRC-32 of all the payload but itself, needed because the codec accepts a layer cut
//! between two packets as whole. All other headers (SIZ, COD, QCD, SOT: 114 bytes of an 800-byte
//! base) follow from the shape, so they are not sent: the receiver generates them. That saves a
//! seventh of a small base layer, and the C library never parses a header written by a peer: size,
//! components and code-block geometry are ours, only entropy-coded packets are foreign.
//!
//! Each picture stands alone: its loss affects no other picture, and a base layer is shown whatever
//! else is missing.
//!
//! Measured (release, one core of a 2-core cloud machine, the built-in scene; `examples/ladder.rs`
//! prints it): see the table at [`Encoder`].
//!
//! What it does not do: motion, rate adaptation (budgets are the caller's), more than 8 bits or
//! other samplings.
//!
//! Sources: ISO/IEC 15444-1 (JPEG 2000 part 1) Annex A (codestream syntax), Annex B (packets);
//! `OpenJPEG` 2.5; spec PL-2, PL-19 (`WaveVideo`'s one base and seven enhancements).

mod decode;
mod encode;
mod header;
mod openjpeg;
mod packets;

#[cfg(test)]
mod tests;

pub use decode::{decode, peek_size};
pub use encode::Encoder;

use crate::crc;
use crate::picture::PictureError;

/// Layers of a picture: one base and seven enhancements.
pub const LAYERS: usize = 8;

/// Maximum number of layers in the framing: the low half of its first byte.
pub const LAYERS_MAX: usize = 15;

/// Minimum base-layer budget, in bytes: empty packets of every resolution and component would not
/// fit a smaller one.
pub const BASE_BYTES_MIN: usize = 64;

/// Version of the framing, the high half of each payload's first byte.
const VERSION: u8 = 1;

/// Bytes before the packets of an enhancement: version and layer, check.
const HEAD_BYTES: usize = 3;

/// Bytes before the packets of the base: version and layer, check, then the shape.
const BASE_HEAD_BYTES: usize = HEAD_BYTES + 5;

/// Why a picture could not be coded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayeredError {
    /// The size is not one of a picture, or too small for the transform.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The picture is too small for the wavelet transform.
    #[error("a picture of {width}x{height} is too small: layered video needs at least 32x32")]
    Small {
        /// The width.
        width: u32,
        /// The height.
        height: u32,
    },
    /// The list of layer budgets is invalid.
    #[error(
        "layer budgets {0:?} are not possible: 1 to {LAYERS_MAX} layers, base at least {BASE_BYTES_MIN} bytes, others at least 32"
    )]
    Budgets(Vec<usize>),
    /// No layers were given to decode.
    #[error("no layers were given")]
    Empty,
    /// A payload's first byte is of another version.
    #[error("layer payload has version {found}, this build reads version {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// A payload is not the layer of its place in the prefix.
    #[error("place {place} of the prefix holds layer {found}")]
    Order {
        /// Index in the prefix.
        place: usize,
        /// The layer the payload says it is.
        found: usize,
    },
    /// A payload is too short to hold its header.
    #[error("the payload of layer {layer} is cut short at {bytes} bytes")]
    Short {
        /// The layer.
        layer: usize,
        /// Its length.
        bytes: usize,
    },
    /// A payload's check does not match its bytes: it is damaged or truncated.
    #[error("the {bytes} bytes of layer {layer} are damaged or cut short")]
    Damaged {
        /// The layer.
        layer: usize,
        /// Its length.
        bytes: usize,
    },
    /// The base announces something this build does not decode.
    #[error(
        "base layer announces {layers} layers and {levels} wavelet levels, which cannot be decoded"
    )]
    Shape {
        /// Layers announced.
        layers: u8,
        /// Levels announced.
        levels: u8,
    },
    /// More bytes than a picture of this size can need.
    #[error("{bytes} bytes of layers are more than a picture of {width}x{height} can hold")]
    Excess {
        /// Bytes given.
        bytes: usize,
        /// Width announced.
        width: u32,
        /// Height announced.
        height: u32,
    },
    /// The codec failed or warned.
    #[error("codec: {0}")]
    Codec(String),
}

/// The check of a payload: `first` is its first byte, `rest` the bytes after the check.
fn check(first: u8, rest: &[u8]) -> u16 {
    (crc::extend(crc::extend(crc::START, &[first]), rest) >> 16) as u16
}
