//! The application data unit: the smallest piece that an application would rather lose whole than
//! in part.
//!
//! *The idea.* The header holds all that a node needs for its decisions (importance, deadline,
//! layer, dependency, plan) and stays readable on every node; the payload may be packed and sealed.
//! A [`Deadline`](Header::deadline) is absolute on this node and crosses a hop as the remaining
//! time, so clocks need not agree.
//!
//! *What it does not do.* It encodes nothing (`wire::adu`) and has no queue.
//!
//! *Sources.* docs/reference/protocol.md §3; spec PL-2, PL-19 (importance, eight ADUs a frame), PA-35
//! (dropping by header).

use bytes::Bytes;

use crate::id::{Epoch, Sequence, StreamId};
use crate::time::{Duration, Instant};

pub mod policy;
#[cfg(test)]
mod tests;

pub use policy::AdaptationPolicy;

/// An ADU's importance: 255 highest, 0 lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Importance(pub u8);

/// A position on the stream's own clock, in microseconds from its start.
///
/// A 90 kHz timestamp survives conversion in both directions: a tick is 11.1 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MediaTime(u64);

/// An ADU's flags, one bit each (docs/reference/protocol.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

/// The colour of an ADU on one hop, by which both ends count the same ADUs (docs/concepts/ledger.md §2).
///
/// ADUs that the hop acknowledges have none; datagrams have one of three, in turn over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mark(u8);

/// The part of an ADU that every node may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its number in the stream, assigned by the producer.
    pub sequence: Sequence,
    /// Its plan; nodes apply that plan's adapter chain.
    pub epoch: Epoch,
    /// Its position in the medium.
    pub media_time: MediaTime,
    /// Its importance.
    pub importance: Importance,
    /// Its layer: 0 is the base, and each layer needs those below it.
    pub layer: u8,
    /// Distance in sequences back to the ADU that it depends on; 0 for none.
    pub depends_on: u32,
    /// Time after which it is useless; `NEVER` without a deadline.
    pub deadline: Instant,
    /// Sealed, packed, key, discardable, end; and the mark.
    pub flags: Flags,
}

/// A header and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adu {
    /// The part that every node may read.
    pub header: Header,
    /// The part that only the sink needs to understand.
    pub payload: Bytes,
}

impl Importance {
    /// Lowest importance.
    pub const LOWEST: Self = Self(0);
    /// Highest importance.
    pub const HIGHEST: Self = Self(255);
}

impl MediaTime {
    /// The largest position that the wire can carry, 2⁶² − 1 µs: about 146,000 years.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// Returns the position this many microseconds from the stream's start, saturating at `MAX`.
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Returns the position of a 90 kHz timestamp, rounded to the nearest microsecond.
    pub const fn from_90khz(ticks: u64) -> Self {
        Self::from_micros(((ticks as u128 * 100 + 4) / 9) as u64)
    }

    /// Returns microseconds from the stream's start.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the nearest 90 kHz tick.
    pub const fn as_90khz(self) -> u64 {
        ((self.0 as u128 * 9 + 50) / 100) as u64
    }
}

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The payload is encrypted and authenticated end to end.
    pub const SEALED: Self = Self(1);
    /// The payload is compressed.
    pub const PACKED: Self = Self(1 << 1);
    /// A receiver can start here.
    pub const KEY: Self = Self(1 << 2);
    /// Nothing depends on it.
    pub const DISCARDABLE: Self = Self(1 << 3);
    /// The producer sends nothing after it.
    pub const END: Self = Self(1 << 4);
    /// The end of a stream after its producer disappeared without ending it: nothing follows, and the
    /// stream is incomplete.
    pub const CUT_OFF: Self = Self::END.with(Self::DISCARDABLE);
    /// The [`Mark`] on this hop, in two bits.
    pub const MARK: Self = Self(0b11 << Mark::SHIFT);

    const KNOWN: u8 = 0b111_1111;

    /// Returns the flags of a byte; `None` if a bit is set that this version does not know.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN == 0 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the flags as a byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these flags and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these flags without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Mark {
    /// The mark of ADUs that the hop acknowledges.
    pub const NONE: Self = Self(0);
    /// Number of marks, `NONE` included.
    pub const COUNT: usize = 4;
    /// How long a mark is in use. A loss is known only after its mark has ended, so this is most of
    /// the one second within which it should be known.
    pub const PERIOD: Duration = Duration::from_millis(600);

    const SHIFT: u8 = 5;

    /// Returns the mark of ADUs that are sent now.
    pub const fn at(now: Instant) -> Self {
        Self(1 + (now.as_nanos() / Self::PERIOD.as_nanos() % 3) as u8)
    }

    /// Returns the next mark; after none, the first.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 % 3 + 1)
    }

    /// Returns every mark, none first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// Returns the mark of an index, of which only the lowest two bits count.
    pub const fn from_index(index: u8) -> Self {
        Self(index & 3)
    }

    /// Returns the index among all marks.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Header {
    /// Returns its mark.
    pub const fn mark(&self) -> Mark {
        Mark(self.flags.0 >> Mark::SHIFT & 3)
    }

    /// Sets its mark.
    pub const fn set_mark(&mut self, mark: Mark) {
        self.flags.0 = self.flags.0 & !Flags::MARK.0 | mark.0 << Mark::SHIFT;
    }

    /// Returns the header of an ADU of highest importance, without dependency or deadline.
    pub const fn new(stream: StreamId, sequence: Sequence) -> Self {
        Self {
            stream,
            sequence,
            epoch: Epoch(0),
            media_time: MediaTime(0),
            importance: Importance::HIGHEST,
            layer: 0,
            depends_on: 0,
            deadline: Instant::NEVER,
            flags: Flags::NONE,
        }
    }

    /// Returns whether the deadline has passed.
    pub fn is_expired(&self, now: Instant) -> bool {
        now > self.deadline
    }
}
