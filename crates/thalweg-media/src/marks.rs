//! What media knows of an ADU, in core's words.
//!
//! The idea: the thin place where this crate meets `thalweg_core::adu`. A source adds what only it knows (stream,
//! sequence, deadline) with [`Marks::header`].

use thalweg_core::adu::{Flags, Header, Importance, MediaTime};
use thalweg_core::id::{Sequence, StreamId};
use thalweg_core::time::Instant;

use crate::nal::layer_importance;

/// The fields of an ADU's header that follow from the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// When it is due in the medium: presentation time.
    pub media_time: MediaTime,
    /// When it must be decoded; what a source paces by. Not in the header.
    pub decode_time: MediaTime,
    /// How much it matters.
    pub importance: Importance,
    /// Its layer.
    pub layer: u8,
    /// How many ADUs back the one lies that it cannot be used without; 0 for none.
    pub depends_on: u32,
    /// Key and discardable.
    pub flags: Flags,
}

impl Marks {
    /// The marks of one layer of a layered picture whose layers are sent in order, base first.
    ///
    /// Each layer depends on the one before it; the base is a key, for every picture stands alone; the last layer is
    /// discardable.
    pub fn of_layer(media_time: MediaTime, layer: u8, layers: u8) -> Self {
        let flags = match layer {
            0 => Flags::KEY,
            n if n + 1 == layers => Flags::DISCARDABLE,
            _ => Flags::NONE,
        };
        Self {
            media_time,
            decode_time: media_time,
            importance: layer_importance(layer),
            layer,
            depends_on: u32::from(layer > 0),
            flags,
        }
    }

    /// The header of an ADU with these marks.
    pub fn header(&self, stream: StreamId, sequence: Sequence, deadline: Instant) -> Header {
        Header {
            media_time: self.media_time,
            importance: self.importance,
            layer: self.layer,
            depends_on: self.depends_on,
            deadline,
            flags: self.flags,
            ..Header::new(stream, sequence)
        }
    }
}
