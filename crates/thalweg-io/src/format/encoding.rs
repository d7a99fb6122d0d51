//! What a format's messages are, for the stream's announcement, and which format writes an encoding.
//!
//! *Sources.* docs/guides/sources.md, "Types"; MCAP's well-known message encodings.

use super::{Format, is_json};

impl Format {
    /// Returns the encoding of a stream of this format's messages; `sample` is one of them.
    pub fn encoding(self, sample: Option<&[u8]>) -> &'static str {
        match self {
            Self::Ts => "mpegts",
            Self::Lines if sample.is_some_and(is_json) => "json",
            Self::Lines => "text",
            Self::Nmea => "nmea",
            Self::Length | Self::Packets | Self::Fixed(_) => "bytes",
        }
    }

    /// Returns the format in which a stream of this encoding is written, to datagrams or to bytes;
    /// `None` if only the user can say.
    pub fn of_encoding(encoding: &str, to_datagrams: bool) -> Option<Self> {
        match encoding {
            "mpegts" => Some(Self::Ts),
            "json" | "text" => Some(Self::Lines),
            "nmea" => Some(Self::Nmea),
            "bytes" if to_datagrams => Some(Self::Packets),
            "bytes" => Some(Self::Length),
            _ => None,
        }
    }

    /// Returns the extension of a file that holds a stream of this encoding in this format.
    pub fn extension(self, encoding: &str) -> &'static str {
        match (self, encoding) {
            (Self::Ts, _) => "ts",
            (Self::Lines, "json") => "jsonl",
            (Self::Lines, _) => "txt",
            (Self::Nmea, _) => "nmea",
            (Self::Length | Self::Packets | Self::Fixed(_), _) => "bin",
        }
    }
}
