//! What is wrong with an input's bytes, and how often.
//!
//! *The idea.* A fault is a sentence that names the byte offset. The first fault of each kind is reported
//! and all are counted, so that a broken instrument does not fill a screen.

use std::collections::BTreeMap;

/// Bytes that are no message, or no whole one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A message above the bound of an ADU.
    #[error(
        "the {what} at byte {offset} is longer than {limit} bytes, and was dropped: is `--format {format}` right?"
    )]
    Long {
        /// What is too long.
        what: &'static str,
        /// The format that cut it.
        format: &'static str,
        /// Where it begins, in bytes from the start of the input.
        offset: u64,
        /// The bound.
        limit: usize,
    },
    /// A line that is no text.
    #[error(
        "the line at byte {offset} is binary ({byte:#04x} at byte {at}), and was dropped: `--format length`, `fixed:N` and `packets` carry any bytes"
    )]
    Binary {
        /// Where the line begins.
        offset: u64,
        /// Where its first byte that is no text stands.
        at: u64,
        /// That byte.
        byte: u8,
    },
    /// The input ends inside a record.
    #[error(
        "the input ends inside the {what} at byte {offset}, after {bytes} bytes of it: they were {fate}"
    )]
    Half {
        /// What is cut off.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// How much of it came.
        bytes: usize,
        /// What became of them.
        fate: &'static str,
    },
    /// A length that no message has: the next message cannot be found.
    #[error(
        "the length at byte {offset} says {length} bytes, and a message has at most {limit}: this is no input for `--format length`, or bytes of it are missing"
    )]
    Length {
        /// Where the length stands.
        offset: u64,
        /// What it says.
        length: u32,
        /// The bound.
        limit: usize,
    },
    /// A sentence that was damaged on its way.
    #[error(
        "the sentence at byte {offset} says checksum {said:02X} and has {computed:02X}, and was dropped"
    )]
    Checksum {
        /// Where the sentence begins.
        offset: u64,
        /// Its own checksum.
        said: u8,
        /// The checksum of its bytes.
        computed: u8,
    },
    /// Bytes between sentences.
    #[error(
        "{bytes} bytes at byte {offset} belong to no NMEA sentence, and were dropped: is the baud rate right?"
    )]
    Noise {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// A message of another size than the format says.
    #[error("a message of {bytes} bytes is no record of `--format fixed:{size}`, and was left out")]
    Size {
        /// Its size.
        bytes: usize,
        /// The size of a record.
        size: usize,
    },
    /// A message with a line end inside, which would be read back as several.
    #[error(
        "a message contains a line end, and would be read as two: use `--format length` to write it"
    )]
    Newline,
    /// A datagram of something else.
    #[error(
        "a datagram before byte {offset} is no RTP packet of the stream, and was dropped: is `--format` right?"
    )]
    Foreign {
        /// Bytes that came up to its end.
        offset: u64,
    },
    /// An RTP packet with a payload that is not of the codec.
    #[error(
        "an RTP payload before byte {offset} cannot be read, and was dropped: is the codec of `--format` right?"
    )]
    Payload {
        /// Bytes that came up to its end.
        offset: u64,
    },
    /// An RTP packet that did not come.
    #[error("an RTP packet before byte {offset} was lost on its way here")]
    Lost {
        /// Bytes that came until that was known.
        offset: u64,
    },
    /// A payload that is no unit of a transport stream.
    #[error("a message is no unit of a transport stream, and was left out: {0}")]
    Unit(String),
}

/// Faults counted by kind.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    counts: BTreeMap<&'static str, u64>,
}

impl Fault {
    /// Returns a short name of its kind, as JSON has it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Long { .. } => "too_long",
            Self::Binary { .. } => "binary",
            Self::Half { .. } => "half",
            Self::Length { .. } => "bad_length",
            Self::Checksum { .. } => "bad_checksum",
            Self::Noise { .. } => "noise",
            Self::Size { .. } => "other_size",
            Self::Newline => "line_end_inside",
            Self::Foreign { .. } => "foreign",
            Self::Payload { .. } => "bad_payload",
            Self::Lost { .. } => "lost",
            Self::Unit(_) => "no_unit",
        }
    }

    /// Returns whether no further message can be found behind it.
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Length { .. })
    }
}

impl Faults {
    /// Counts a fault; returns its sentence if it is the first of its kind.
    pub fn handle(&mut self, fault: &Fault) -> Option<String> {
        let count = self.counts.entry(fault.kind()).or_default();
        *count += 1;
        (*count == 1).then(|| fault.to_string())
    }

    /// Returns each kind with its count, sorted by kind.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(kind, count)| (*kind, *count))
    }
}
