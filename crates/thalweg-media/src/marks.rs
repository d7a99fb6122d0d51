//! The header fields of an ADU that follow from the media, in core's types.
//!
//! The idea: the narrow interface of this crate to `thalweg_base::adu`. A source adds what only it
//! knows (stream, sequence, deadline) with [`Marks::header`].

use thalweg_base::adu::{AdaptationPolicy, Flags, Header, Importance, MediaTime};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::Instant;

/// The fields of an ADU's header that follow from the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Presentation time.
    pub media_time: MediaTime,
    /// Decoding time, by which a source paces. Not in the header.
    pub decode_time: MediaTime,
    /// The clock of the decode time, where an input has several; only differences within one clock
    /// are meaningful. Not in the header.
    pub clock: u16,
    /// The importance.
    pub importance: Importance,
    /// The layer.
    pub layer: u8,
    /// Distance back to the ADU without which it cannot be used, in ADUs; 0 for none.
    pub depends_on: u32,
    /// The flags KEY and DISCARDABLE.
    pub flags: Flags,
}

impl Marks {
    /// The marks of one layer of a layered picture, for layers sent in order, base first.
    ///
    /// The policy gives the importance, by the picture's number in the stream. Each layer depends
    /// on the one before it; the base is a key, since every picture stands alone; the last layer is
    /// discardable.
    pub fn of_layer(
        policy: &AdaptationPolicy,
        picture: u64,
        media_time: MediaTime,
        layer: u8,
        layers: u8,
    ) -> Self {
        let flags = match layer {
            0 => Flags::KEY,
            n if n + 1 == layers => Flags::DISCARDABLE,
            _ => Flags::NONE,
        };
        Self {
            media_time,
            decode_time: media_time,
            clock: 0,
            importance: policy.importance(picture, layer, layers),
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

#[cfg(test)]
mod tests {
    //! Proves that a layered picture's marks chain each layer to the one below, and reach the
    //! header unchanged.

    use super::*;

    #[test]
    fn layers_lean_on_the_one_below() {
        let time = MediaTime::from_90khz(7500);
        let marks: Vec<_> = (0..8)
            .map(|layer| Marks::of_layer(&AdaptationPolicy::Layers, 0, time, layer, 8))
            .collect();
        assert_eq!(marks[0].flags, Flags::KEY);
        assert_eq!(marks[7].flags, Flags::DISCARDABLE);
        assert!(
            marks[1..7]
                .iter()
                .all(|m| m.flags == Flags::NONE && m.depends_on == 1)
        );
        assert!(marks.is_sorted_by(|a, b| a.importance > b.importance));
        let header = marks[3].header(StreamId(5), Sequence(9), Instant::from_nanos(77));
        assert_eq!((header.layer, header.depends_on), (3, 1));
        assert_eq!((header.media_time, header.sequence), (time, Sequence(9)));
        assert_eq!(header.deadline, Instant::from_nanos(77));
    }
}
