//! Formats: bytes cut into messages, and messages written back as bytes.
//!
//! *The idea.* A [`Cutter`] takes bytes in pieces of any size and returns messages, one of which becomes the
//! payload of one ADU; a [`Joiner`] does the reverse. What cannot be used is a [`Fault`] with its place, and
//! the cutter goes on behind it, unless the place of the next message is lost with it.
//!
//! | format | a message | written back |
//! |---|---|---|
//! | `ts` | a unit of a transport stream | whole transport packets |
//! | `lines` | a line without its newline | with a newline |
//! | `length` | what a 32-bit big-endian length announces | behind its length |
//! | `packets` | a datagram | a datagram |
//! | `fixed:N` | N bytes | as they are |
//! | `nmea` | a sentence without its line end | with CR LF |
//!
//! *What it does not do.* It reads nothing and writes nothing, and it waits for nothing.
//!
//! *Sources.* NMEA 0183 (IEC 61162-1) §7 for sentences and their checksum.

mod encoding;
mod fault;
mod field;
mod fixed;
mod length;
mod lines;
mod nmea;
mod packets;
mod tape;
mod ts;

#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use bytes::Bytes;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_media::Marks;

pub use fault::{Fault, Faults};
pub use field::{BadField, Field, FieldReader, Fields};
use fixed::Fixed;
use length::Length;
use lines::Lines;
pub use lines::is_json;
use nmea::Nmea;
use packets::Packets;
use ts::{Join as TsJoin, Ts};

/// What a cutter makes of its bytes: a message with what the format tells of it, or what was wrong.
pub type Cut = Result<(Marks, Bytes), Fault>;

/// Cuts bytes into messages.
pub trait Cutter: Send {
    /// Takes the next bytes, in pieces of any size; a datagram is one piece.
    fn handle_bytes(&mut self, bytes: &Bytes);

    /// Takes the end of the input: half a record is a fault now.
    fn handle_end(&mut self);

    /// Returns the next message or fault, in the order of the input; `None` until there are more bytes.
    ///
    /// No message is longer than [`ADU_PAYLOAD_BYTES_MAX`], and no more bytes than that wait for the rest of
    /// a message, apart from the piece that came last.
    fn poll_cut(&mut self) -> Option<Cut>;
}

/// Writes messages back as bytes.
pub trait Joiner: Send {
    /// Returns the bytes of one message; none if nothing is written for it.
    ///
    /// Fails   with what is wrong with this message; the next may be written
    fn join(&mut self, message: &Bytes) -> Result<Bytes, Fault>;
}

/// How bytes are cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MPEG-TS.
    Ts,
    /// A line each.
    Lines,
    /// A length before each.
    Length,
    /// A datagram each.
    Packets,
    /// So many bytes each.
    Fixed(NonZeroUsize),
    /// A sentence of an instrument each.
    Nmea,
}

/// The text names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFormat {
    /// An unknown word.
    #[error("`{0}` is no format: write ts, lines, length, packets, fixed:N or nmea")]
    Unknown(String),
    /// A size that no message can have.
    #[error(
        "`{0}` is no size of a message: write fixed:N with N from 1 to {ADU_PAYLOAD_BYTES_MAX}"
    )]
    Size(String),
}

/// Characters of a bad value that an error shows.
const SHOWN_MAX: usize = 80;

impl Format {
    /// Returns a cutter at the start of an input.
    pub fn cutter(self) -> Box<dyn Cutter> {
        match self {
            Self::Ts => Box::new(Ts::default()),
            Self::Lines => Box::new(Lines::default()),
            Self::Length => Box::new(Length::default()),
            Self::Packets => Box::new(Packets::default()),
            Self::Fixed(size) => Box::new(Fixed::new(size)),
            Self::Nmea => Box::new(Nmea::default()),
        }
    }

    /// Returns a joiner at the start of an output.
    pub fn joiner(self) -> Box<dyn Joiner> {
        match self {
            Self::Ts => Box::new(TsJoin::default()),
            Self::Lines => Box::new(lines::Join),
            Self::Length => Box::new(length::Join),
            Self::Packets => Box::new(packets::Join),
            Self::Fixed(size) => Box::new(fixed::Join(size)),
            Self::Nmea => Box::new(nmea::Join),
        }
    }

    /// Returns whether a message's end is only known from the end of its datagram.
    pub const fn needs_datagrams(self) -> bool {
        matches!(self, Self::Packets)
    }
}

impl FromStr for Format {
    type Err = BadFormat;

    fn from_str(text: &str) -> Result<Self, BadFormat> {
        let short = || text.chars().take(SHOWN_MAX).collect();
        match text {
            "ts" => Ok(Self::Ts),
            "lines" => Ok(Self::Lines),
            "length" => Ok(Self::Length),
            "packets" => Ok(Self::Packets),
            "nmea" => Ok(Self::Nmea),
            _ => {
                let size = text.strip_prefix("fixed:");
                let size = size.ok_or_else(|| BadFormat::Unknown(short()))?;
                let size: Option<NonZeroUsize> = size.parse().ok();
                let size = size.filter(|size| size.get() <= ADU_PAYLOAD_BYTES_MAX);
                size.map(Self::Fixed)
                    .ok_or_else(|| BadFormat::Size(short()))
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ts => f.write_str("ts"),
            Self::Lines => f.write_str("lines"),
            Self::Length => f.write_str("length"),
            Self::Packets => f.write_str("packets"),
            Self::Fixed(size) => write!(f, "fixed:{size}"),
            Self::Nmea => f.write_str("nmea"),
        }
    }
}

/// Returns the marks of a message of which the format tells nothing.
fn unmarked() -> Marks {
    Marks::default()
}
