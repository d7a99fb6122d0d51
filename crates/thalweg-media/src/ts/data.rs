//! Data beside the picture: PIDs with messages as payloads, as streams of their own.
//!
//! The idea: a drone's telemetry (KLV) travels in its video's transport stream, and somebody may want
//! it without the video. [`DataPid::of`] says which PIDs carry such messages. A message leaves as its
//! PES payload alone, with its time; what is needed to put it back into a transport stream, beside the
//! picture that lists it, stands in the [`Description`] of its stream.
//!
//! What it does not do: it reads no KLV. The metadata header of synchronous KLV (5 bytes before each
//! item) stays in front of the message, as it came.
//!
//! Sources: ISO/IEC 13818-1:2019 §2.6.8 (registration descriptor), §2.12 (metadata); MISB ST 1402 (KLV
//! in transport streams); ETSI EN 300 468 §6.1 (descriptors of what private data may be).

use bytes::Bytes;
use thalweg_base::adu::MediaTime;
use thalweg_base::description::Description;

use super::{AccessUnit, Elementary, Unit};

/// Private data in PES packets.
const PRIVATE: u8 = 0x06;
/// Metadata in PES packets.
const METADATA: u8 = 0x15;

/// The tag of a registration descriptor, and what it registers for KLV.
const REGISTRATION: u8 = 0x05;
const KLVA: &[u8] = b"KLVA";

/// Descriptors of private data that is sound, or text for the picture: VBI teletext, subtitles,
/// teletext, AC-3, enhanced AC-3, DTS, AAC, and DVB's extension (AC-4, DTS-HD, …).
const OF_PICTURE: [u8; 9] = [0x45, 0x46, 0x56, 0x59, 0x6a, 0x7a, 0x7b, 0x7c, 0x7f];

/// The labels under which a stream of messages says where it stood.
const PID_LABEL: &str = "ts.pid";
const TYPE_LABEL: &str = "ts.type";

/// A PID with messages as payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPid {
    /// The PID.
    pub pid: u16,
    /// Its type by ISO/IEC 13818-1 table 2-34: private data or metadata.
    pub stream_type: u8,
    /// Whether its messages are KLV.
    pub is_klv: bool,
}

impl DataPid {
    /// Returns the PID of an elementary stream if it carries messages: KLV, other metadata, or private
    /// data that is neither sound nor text for the picture.
    pub fn of(stream: &Elementary) -> Option<Self> {
        let is_klv = registers(&stream.descriptors, KLVA);
        let is_data = match stream.stream_type {
            METADATA => true,
            PRIVATE => is_klv || !is_of_picture(&stream.descriptors),
            _ => false,
        };
        is_data.then_some(Self {
            pid: stream.pid,
            stream_type: stream.stream_type,
            is_klv: is_klv || stream.stream_type == METADATA,
        })
    }

    /// Returns the word for its messages: `klv` or `bytes`.
    pub const fn encoding(self) -> &'static str {
        if self.is_klv { "klv" } else { "bytes" }
    }

    /// Returns what a stream of its messages says of itself.
    pub fn description(self) -> Description {
        let labels = [
            (PID_LABEL, self.pid.to_string()),
            (TYPE_LABEL, self.stream_type.to_string()),
        ];
        Description {
            encoding: self.encoding().into(),
            labels: labels.map(|(key, value)| (key.into(), value)).into(),
            ..Description::default()
        }
    }

    /// Returns where the messages of a stream stood, if it says so.
    pub fn described(description: &Description) -> Option<Self> {
        let number = |key: &str| description.labels.get(key)?.parse().ok();
        let stream_type = number(TYPE_LABEL).and_then(|kind: u16| u8::try_from(kind).ok())?;
        let pid = number(PID_LABEL).filter(|pid| (0x10..0x1fff).contains(pid))?;
        matches!(stream_type, PRIVATE | METADATA).then_some(Self {
            pid,
            stream_type,
            is_klv: description.encoding == "klv",
        })
    }

    /// Returns a message as the unit that it was; its programme must have been written before.
    pub fn unit(self, time: MediaTime, message: Bytes) -> Unit {
        Unit::Access(AccessUnit {
            pid: self.pid,
            stream_type: self.stream_type,
            // Metadata, or private stream 1.
            stream_id: if self.stream_type == METADATA {
                0xfc
            } else {
                0xbd
            },
            pts_90khz: Some(time.as_90khz()),
            dts_90khz: None,
            random_access: false,
            aligned: true,
            damaged: false,
            options: Bytes::new(),
            data: message,
        })
    }
}

/// Returns the descriptors in a row, each as tag and content; ends at one that is cut off.
fn descriptors(mut row: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    core::iter::from_fn(move || {
        let (&[tag, length], rest) = row.split_first_chunk()?;
        let (content, rest) = rest.split_at_checked(usize::from(length))?;
        row = rest;
        Some((tag, content))
    })
}

fn registers(row: &[u8], word: &[u8]) -> bool {
    descriptors(row).any(|(tag, content)| tag == REGISTRATION && content.starts_with(word))
}

fn is_of_picture(row: &[u8]) -> bool {
    // What is registered otherwise (AC-3, DTS, Opus, SCTE, …) is for the picture's players.
    descriptors(row).any(|(tag, _)| tag == REGISTRATION || OF_PICTURE.contains(&tag))
}
