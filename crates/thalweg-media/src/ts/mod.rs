//! MPEG transport streams, split into units and reassembled.
//!
//! The idea: [`Reader`] converts bytes to [`Unit`]s, each of which can be carried, lost or kept on
//! its own. [`Writer`] converts whatever units arrive to a valid transport stream, with its own
//! tables, clock and counters. Between the two, [`mod@unit`] frames a unit as the payload of one
//! ADU; [`Publisher`] and [`Subscriber`] do both steps at either end.
//!
//! ```text
//!   bytes ─ Reader ─► Unit ─ unit::encode ─► ADU payload ~~~► unit::decode ─► Unit ─ Writer ─► bytes
//! ```
//!
//! What is carried: access units (PES payloads) of every stream that a PMT lists, with PTS and DTS;
//! the facts of PAT and PMT; all other PIDs packet by packet; PES headers with their options. What
//! is not: null packets, and PCR values, which the writer derives from DTS.
//!
//! Why not the crate `mpeg2ts` 0.6: its reader stops at the first unexpected packet (a PID not
//! listed yet, a stray byte, a table of two packets), where we must continue; its writer leaves
//! tables, clock and stuffing to the caller.
//!
//! What it does not do: descrambling; the T-STD buffer model of the output (bytes are written as
//! units arrive, at the rate they arrive).
//!
//! Sources: ISO/IEC 13818-1:2019 (H.222.0) §2.4; ETSI TS 101 154 (table and clock intervals).

mod adu;
mod clock;
mod counts;
mod data;
mod frame;
mod guide;
mod lack;
mod lane;
mod packet;
mod pes;
mod read;
mod seam;
mod section;
pub mod unit;
mod write;

#[cfg(test)]
mod tests;

pub use adu::{Marked, Publisher, Subscriber};
pub use counts::Counts;
pub use data::DataPid;
pub use lack::Lack;
pub use packet::PACKET_BYTES;
pub use read::Reader;
pub use write::{Withheld, Writer};

use bytes::Bytes;

use crate::nal::Codec;

/// The units of a transport stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// The facts of PAT and PMT on one programme; needed to write any of its streams.
    Programme(Programme),
    /// A PES payload: usually one access unit of video, or a few frames of audio.
    Access(AccessUnit),
    /// Packets of a PID with unknown content (service information, splice points, scrambled
    /// streams).
    Packets(Packets),
}

/// The facts of PAT and PMT on one programme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programme {
    /// The id in the PAT.
    pub transport_stream_id: u16,
    /// The PID of network information, if the PAT names one.
    pub network_pid: Option<u16>,
    /// `program_number`, not 0.
    pub number: u16,
    /// The PID of its PMT.
    pub table_pid: u16,
    /// The PID of its clock (PCR); `0x1fff` for none.
    pub clock_pid: u16,
    /// Programme descriptors, unchanged.
    pub descriptors: Bytes,
    /// Its elementary streams.
    pub streams: Vec<Elementary>,
}

/// One elementary stream of a programme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elementary {
    /// Its PID.
    pub pid: u16,
    /// Its type by ISO/IEC 13818-1 table 2-34.
    pub stream_type: u8,
    /// Its descriptors, unchanged.
    pub descriptors: Bytes,
}

/// One PES payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessUnit {
    /// Its PID.
    pub pid: u16,
    /// Its type by ISO/IEC 13818-1 table 2-34.
    pub stream_type: u8,
    /// `stream_id` of the PES header.
    pub stream_id: u8,
    /// Presentation time in 90 kHz ticks, without the wrap at 2³³.
    pub pts_90khz: Option<u64>,
    /// Decoding time in 90 kHz ticks, where it differs from presentation.
    pub dts_90khz: Option<u64>,
    /// Whether decoding can start here.
    pub random_access: bool,
    /// Whether the payload begins with an access unit.
    pub aligned: bool,
    /// Whether parts of it were lost before it was read.
    pub damaged: bool,
    /// Other options of the PES header, unchanged: its two bytes of flags, without those above, and
    /// the bytes after the times, stuffing included. Empty if none is set.
    pub options: Bytes,
    /// The payload.
    pub data: Bytes,
}

/// Whole packets of one PID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packets {
    /// Their PID.
    pub pid: u16,
    /// `n · 188` bytes.
    pub data: Bytes,
}

impl AccessUnit {
    /// Decoding time in 90 kHz ticks: DTS, or PTS if both are equal.
    pub fn decode_90khz(&self) -> Option<u64> {
        self.dts_90khz.or(self.pts_90khz)
    }

    /// The video codec, if this crate understands it.
    pub fn codec(&self) -> Option<Codec> {
        codec(self.stream_type)
    }

    /// Shifts PTS and DTS, so that a file played again continues where it ended; times stop at
    /// zero.
    pub fn shift_90khz(&mut self, ticks: i64) {
        for time in [&mut self.pts_90khz, &mut self.dts_90khz]
            .into_iter()
            .flatten()
        {
            *time = time.saturating_add_signed(ticks);
        }
    }
}

impl Programme {
    /// The stream on a PID.
    pub fn stream(&self, pid: u16) -> Option<&Elementary> {
        self.streams.iter().find(|stream| stream.pid == pid)
    }
}

/// The codec of a stream type, if this crate understands its start codes.
fn codec(stream_type: u8) -> Option<Codec> {
    match stream_type {
        0x01 | 0x02 => Some(Codec::Mpeg2),
        0x10 => Some(Codec::Mpeg4),
        0x1b => Some(Codec::H264),
        0x24 => Some(Codec::H265),
        0x33 => Some(Codec::H266),
        0x42 => Some(Codec::Avs),
        0xea => Some(Codec::Vc1),
        _ => None,
    }
}

/// Returns whether a stream type is video of any codec.
fn is_video(stream_type: u8) -> bool {
    matches!(
        stream_type,
        0x01 | 0x02 | 0x10 | 0x1b | 0x1e..=0x21 | 0x24 | 0x33 | 0x42 | 0xea
    )
}

/// Returns whether every picture of a stream type stands alone: JPEG 2000.
fn is_all_intra(stream_type: u8) -> bool {
    stream_type == 0x21
}

/// Returns whether a stream type is audio of any codec.
fn is_audio(stream_type: u8) -> bool {
    matches!(
        stream_type,
        0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e | 0x81 | 0x84 | 0x87
    )
}
