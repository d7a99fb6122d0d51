//! MPEG transport streams, taken apart into units and put together again.
//!
//! The idea: [`Reader`] turns bytes into [`Unit`]s, each of which can be carried, lost or kept on its own; [`Writer`]
//! turns whatever units arrive into a valid transport stream, with its own tables, clock and counters. Between the two
//! [`mod@unit`] frames a unit as the payload of one ADU, and [`Publisher`] and [`Subscriber`] do both steps at either end.
//!
//! ```text
//!   bytes ─ Reader ─► Unit ─ unit::encode ─► ADU payload ~~~► unit::decode ─► Unit ─ Writer ─► bytes
//! ```
//!
//! What goes through: access units (PES payloads) of every stream that a PMT lists, with PTS and DTS; the facts of PAT
//! and PMT; all other PIDs packet by packet; PES headers with their options. What does not: null packets, and
//! PCR values, which the writer makes from DTS.
//!
//! Why not the crate `mpeg2ts` 0.6: its reader ends at the first packet that it does not expect (a PID not listed yet, a
//! stray byte, a table of two packets), where we must go on; its writer leaves tables, clock and stuffing to the caller.
//!
//! What it does not do: descrambling; T-STD buffer model of the output (bytes are written
//! as units come, at the rate they come).
//!
//! Sources: ISO/IEC 13818-1:2019 (H.222.0) §2.4; ETSI TS 101 154 (table and clock intervals).

mod adu;
mod clock;
mod counts;
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

pub use adu::{Publisher, Subscriber};
pub use counts::Counts;
pub use lack::Lack;
pub use packet::PACKET_BYTES;
pub use read::Reader;
pub use write::{Withheld, Writer};

use bytes::Bytes;

use crate::nal::Codec;

/// What a transport stream is taken apart into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// What PAT and PMT say of one programme; needed to write any of its streams.
    Programme(Programme),
    /// A PES payload: as a rule one access unit of video, or a few frames of audio.
    Access(AccessUnit),
    /// Packets of a PID that is not understood (service information, splice points, scrambled streams).
    Packets(Packets),
}

/// What PAT and PMT say of one programme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programme {
    /// Of the PAT.
    pub transport_stream_id: u16,
    /// The PID of network information, if the PAT names one.
    pub network_pid: Option<u16>,
    /// `program_number`, not 0.
    pub number: u16,
    /// Where its PMT is sent.
    pub table_pid: u16,
    /// Where its clock is sent; `0x1fff` for none.
    pub clock_pid: u16,
    /// Programme descriptors as they were.
    pub descriptors: Bytes,
    /// Its elementary streams.
    pub streams: Vec<Elementary>,
}

/// One elementary stream of a programme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elementary {
    /// Where it is sent.
    pub pid: u16,
    /// What it is, by ISO/IEC 13818-1 table 2-34.
    pub stream_type: u8,
    /// Its descriptors as they were.
    pub descriptors: Bytes,
}

/// One PES payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessUnit {
    /// Where it came from.
    pub pid: u16,
    /// What it is, by ISO/IEC 13818-1 table 2-34.
    pub stream_type: u8,
    /// `stream_id` of the PES header.
    pub stream_id: u8,
    /// Presentation time in 90 kHz ticks, without the wrap at 2³³.
    pub pts_90khz: Option<u64>,
    /// Decoding time in 90 kHz ticks, where it differs from presentation.
    pub dts_90khz: Option<u64>,
    /// Decoding can start here.
    pub random_access: bool,
    /// The payload begins with an access unit.
    pub aligned: bool,
    /// Parts of it were lost before it was read.
    pub damaged: bool,
    /// Other options of the PES header as they were: its two bytes of flags, without those above, and the
    /// bytes behind the times, stuffing included. Empty where none is set.
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
    /// When it must be decoded, in 90 kHz ticks: DTS, or PTS where both are one.
    pub fn decode_90khz(&self) -> Option<u64> {
        self.dts_90khz.or(self.pts_90khz)
    }

    /// The video codec that it holds, if it is one this crate understands.
    pub fn codec(&self) -> Option<Codec> {
        codec(self.stream_type)
    }

    /// Shifts PTS and DTS, so that a file played again goes on where it ended; times stop at zero.
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

/// The codec of a stream type, if its start codes are understood.
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

/// Whether a stream type is video of any codec.
fn is_video(stream_type: u8) -> bool {
    matches!(
        stream_type,
        0x01 | 0x02 | 0x10 | 0x1b | 0x1e..=0x21 | 0x24 | 0x33 | 0x42 | 0xea
    )
}

/// Whether every picture of a stream type stands alone: JPEG 2000.
fn is_all_intra(stream_type: u8) -> bool {
    stream_type == 0x21
}

/// Whether a stream type is audio of any codec.
fn is_audio(stream_type: u8) -> bool {
    matches!(
        stream_type,
        0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e | 0x81 | 0x84 | 0x87
    )
}
