//! The application data unit: the smallest piece an application would rather lose whole than in part.
//!
//! *The idea.* The header says all that a node needs in order to decide (importance, deadline, layer, what depends on
//! it, which plan it travels under) and stays readable on every node; the payload may be packed and sealed. A
//! [`Deadline`](Header::deadline) is absolute on this node and crosses a hop as what is left of it, so no two clocks
//! need agree.
//!
//! *What it does not do.* It encodes nothing (`wire::adu`) and owns no queue.
//!
//! *Sources.* docs/protocol.md §3; spec PL-2, PL-19 (importance, eight ADUs a frame), PA-35 (dropping by header).

use bytes::Bytes;

use crate::id::{Epoch, Sequence, StreamId};
use crate::time::{Duration, Instant};

pub mod policy;
#[cfg(test)]
mod tests;

pub use policy::AdaptationPolicy;

/// How much an ADU matters: 255 most, 0 least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Importance(pub u8);

/// A position on the stream's own clock, in microseconds from its start.
///
/// A 90 kHz timestamp survives the way there and back: a tick is 11.1 µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MediaTime(u64);

/// Yes-or-no facts about an ADU, one bit each (docs/protocol.md §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

/// The colour that an ADU bears on one hop, so that both ends count the same ADUs (docs/ledger.md §2).
///
/// What is acknowledged on the hop bears none; datagrams bear one of three, which takes turns with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mark(u8);

/// What every node may read of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its number in the stream, counted by the producer.
    pub sequence: Sequence,
    /// The plan it travels under; nodes apply the chain of that plan.
    pub epoch: Epoch,
    /// When it is due in the medium.
    pub media_time: MediaTime,
    /// How much it matters.
    pub importance: Importance,
    /// Its layer: 0 is the base, and each layer needs those below it.
    pub layer: u8,
    /// How many sequences back the ADU lies that it cannot be used without; 0 for none.
    pub depends_on: u32,
    /// After this it is of no use; `NEVER` if it is always of use.
    pub deadline: Instant,
    /// Sealed, packed, key, discardable, end; and the mark.
    pub flags: Flags,
}

/// A header and its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adu {
    /// What every node may read.
    pub header: Header,
    /// What only the sink need understand.
    pub payload: Bytes,
}

impl Importance {
    /// Matters least.
    pub const LOWEST: Self = Self(0);
    /// Matters most.
    pub const HIGHEST: Self = Self(255);
}

impl MediaTime {
    /// The latest position that the wire can carry, 2⁶² − 1 µs: about 146,000 years.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// Returns the position this many microseconds from the stream's start, or the latest there is.
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
    /// None of them.
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
    /// The end of a stream whose producer went away without ending it: nothing follows, and the stream is not
    /// complete.
    pub const CUT_OFF: Self = Self::END.with(Self::DISCARDABLE);
    /// Which [`Mark`] it bears on this hop, in two bits.
    pub const MARK: Self = Self(0b11 << Mark::SHIFT);

    const KNOWN: u8 = 0b111_1111;

    /// Returns the flags of a byte, or `None` if a bit is set that this version does not know.
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

    /// Returns these flags less `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl Mark {
    /// What the hop acknowledges.
    pub const NONE: Self = Self(0);
    /// How many there are, with none.
    pub const COUNT: usize = 4;
    /// How long one is in use: a loss is known when its mark has ended, so this is most of the second within which it is to be.
    pub const PERIOD: Duration = Duration::from_millis(600);

    const SHIFT: u8 = 5;

    /// Returns the mark of what a source sends now.
    pub const fn at(now: Instant) -> Self {
        Self(1 + (now.as_nanos() / Self::PERIOD.as_nanos() % 3) as u8)
    }

    /// Returns the one that follows; of none, the first.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 % 3 + 1)
    }

    /// Returns every mark, none first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// Returns the mark of this number, which is below [`Mark::COUNT`] but for the bits above it.
    pub const fn from_index(index: u8) -> Self {
        Self(index & 3)
    }

    /// Returns the position among all marks.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Header {
    /// Returns the mark that it bears.
    pub const fn mark(&self) -> Mark {
        Mark(self.flags.0 >> Mark::SHIFT & 3)
    }

    /// Has it bear a mark.
    pub const fn set_mark(&mut self, mark: Mark) {
        self.flags.0 = self.flags.0 & !Flags::MARK.0 | mark.0 << Mark::SHIFT;
    }

    /// Returns the header of an ADU that matters most, depends on nothing and is never late.
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
