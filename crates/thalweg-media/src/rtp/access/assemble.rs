//! RTP packets to access units.

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_base::adu::{Flags, MediaTime};
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

use super::{AGGREGATE_H264, AGGREGATE_H265, Carried, FRAGMENT_H264, FRAGMENT_H265, START_CODE};
use crate::Marks;
use crate::nal::{Picture, Role, classify};
use crate::rtp::order::{Counts, Depacketizer};
use crate::rtp::packet::Packet;

/// The counters of an assembler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessCounts {
    /// Access units returned.
    pub units: u64,
    /// Datagrams that are no RTP packets, or of another payload type.
    pub foreign: u64,
    /// Payloads that are malformed, or of a kind that is not read (interleaved).
    pub unreadable: u64,
    /// Access units above the bound of an ADU, which were dropped.
    pub too_long: u64,
    /// The counters of RTP.
    pub rtp: Counts,
}

/// Joins the packets of one source to access units.
#[derive(Debug)]
pub struct Assembler {
    carried: Carried,
    /// The payload type of the first packet; others are foreign.
    payload_type: Option<u8>,
    order: Depacketizer,
    /// The sequence number due, to notice a gap.
    due: Option<u16>,
    unit: Vec<u8>,
    /// The timestamp of `unit`.
    timestamp: Option<u32>,
    /// A NAL unit is being joined at the end of `unit`, from this position on.
    fragment: Option<usize>,
    /// Ticks since the first packet, without wrap.
    ticks: u64,
    last_timestamp: Option<u32>,
    lane: Lane,
    ready: VecDeque<(Marks, Bytes)>,
    counts: AccessCounts,
}

/// What later units depend on.
#[derive(Debug, Default)]
struct Lane {
    /// Units returned.
    given: u64,
    reference: Option<u64>,
    since_key: u32,
}

impl Assembler {
    /// Returns an assembler that follows the first source it meets.
    pub fn new(carried: Carried) -> Self {
        Self {
            carried,
            payload_type: None,
            order: Depacketizer::new(),
            due: None,
            unit: Vec::new(),
            timestamp: None,
            fragment: None,
            ticks: 0,
            last_timestamp: None,
            lane: Lane::default(),
            ready: VecDeque::new(),
            counts: AccessCounts::default(),
        }
    }

    /// Accepts a datagram; one that is no packet of the source is counted.
    pub fn push(&mut self, datagram: &Bytes) {
        let Ok(packet) = Packet::read(datagram) else {
            self.counts.foreign += 1;
            return;
        };
        let kind = packet.header.payload_type;
        // RTCP on the same port (RFC 5761 §4).
        let is_control = (64..96).contains(&kind) && packet.header.marker;
        if is_control || *self.payload_type.get_or_insert(kind) != kind {
            self.counts.foreign += 1;
            return;
        }
        self.order.push_whole(packet.header, datagram.clone());
        self.take_ordered();
    }

    /// Handles the end of the input, or a pause: what waits for missing packets is joined.
    pub fn flush(&mut self) {
        self.order.flush();
        self.take_ordered();
        self.end_unit();
    }

    /// Returns the next access unit with its marks.
    pub fn poll_unit(&mut self) -> Option<(Marks, Bytes)> {
        self.ready.pop_front()
    }

    /// The counters.
    pub fn counts(&self) -> AccessCounts {
        AccessCounts {
            rtp: self.order.counts(),
            ..self.counts
        }
    }

    fn take_ordered(&mut self) {
        while let Some(datagram) = self.order.poll_payload() {
            // It was read before.
            if let Ok(packet) = Packet::read(&datagram) {
                self.handle_packet(&packet);
            }
        }
    }

    fn handle_packet(&mut self, packet: &Packet<'_>) {
        let header = packet.header;
        if self.due.is_some_and(|due| due != header.sequence) {
            self.drop_fragment();
        }
        self.due = Some(header.sequence.wrapping_add(1));
        if self
            .timestamp
            .is_some_and(|timestamp| timestamp != header.timestamp)
        {
            self.end_unit();
        }
        self.timestamp = Some(header.timestamp);
        if self.unit.len() > ADU_PAYLOAD_BYTES_MAX {
            // It is dropped at its end, and takes no more room until then.
            return;
        }
        let read = match self.carried {
            Carried::H264 => self.h264(packet.payload),
            Carried::H265 => self.h265(packet.payload),
            Carried::Opus => {
                self.unit.extend_from_slice(packet.payload);
                Some(())
            }
        };
        if read.is_none() {
            self.counts.unreadable += 1;
            self.drop_fragment();
        }
        if header.marker || self.carried == Carried::Opus {
            self.end_unit();
        }
    }

    fn h264(&mut self, payload: &[u8]) -> Option<()> {
        let (&first, rest) = payload.split_first()?;
        match first & 0x1f {
            1..=23 => self.add(&[payload]),
            AGGREGATE_H264 => self.add_all(rest)?,
            FRAGMENT_H264 => {
                let (&second, rest) = rest.split_first()?;
                let header = [first & 0xe0 | second & 0x1f];
                self.add_fragment(second, &header, rest)?;
            }
            _ => return None,
        }
        Some(())
    }

    fn h265(&mut self, payload: &[u8]) -> Option<()> {
        let (&[first, second], rest) = payload.split_first_chunk()?;
        match first >> 1 & 0x3f {
            AGGREGATE_H265 => self.add_all(rest)?,
            FRAGMENT_H265 => {
                let (&third, rest) = rest.split_first()?;
                let header = [first & 0x81 | (third & 0x3f) << 1, second];
                self.add_fragment(third, &header, rest)?;
            }
            0..=47 => self.add(&[payload]),
            _ => return None,
        }
        Some(())
    }

    /// Adds a NAL unit in parts.
    fn add(&mut self, parts: &[&[u8]]) {
        self.drop_fragment();
        self.unit.extend_from_slice(&START_CODE);
        for part in parts {
            self.unit.extend_from_slice(part);
        }
    }

    /// Adds NAL units, each behind its length.
    fn add_all(&mut self, mut rest: &[u8]) -> Option<()> {
        while !rest.is_empty() {
            let (length, tail) = rest.split_first_chunk()?;
            let length = usize::from(u16::from_be_bytes(*length));
            let unit = tail.get(..length).filter(|unit| !unit.is_empty())?;
            self.add(&[unit]);
            rest = &tail[length..];
        }
        Some(())
    }

    /// Adds a fragment of a NAL unit; `flags` has the bits of its start and end. One whose start was
    /// lost is left out.
    fn add_fragment(&mut self, flags: u8, header: &[u8], rest: &[u8]) -> Option<()> {
        if flags & 0xc0 == 0xc0 {
            return None;
        }
        if flags & 0x80 != 0 {
            self.drop_fragment();
            let start = self.unit.len();
            self.add(&[header, rest]);
            self.fragment = Some(start);
        } else if self.fragment.is_some() {
            self.unit.extend_from_slice(rest);
        }
        if flags & 0x40 != 0 {
            self.fragment = None;
        }
        Some(())
    }

    /// Leaves out a NAL unit that misses its end.
    fn drop_fragment(&mut self) {
        if let Some(start) = self.fragment.take() {
            self.unit.truncate(start);
        }
    }

    fn end_unit(&mut self) {
        self.drop_fragment();
        let Some(timestamp) = self.timestamp.take() else {
            return;
        };
        let unit = std::mem::take(&mut self.unit);
        if unit.is_empty() {
            return;
        }
        if unit.len() > ADU_PAYLOAD_BYTES_MAX {
            self.counts.too_long += 1;
            return;
        }
        let marks = self.marks(timestamp, &unit);
        self.ready.push_back((marks, unit.into()));
        self.counts.units += 1;
        self.lane.given += 1;
    }

    fn marks(&mut self, timestamp: u32, unit: &[u8]) -> Marks {
        // A step back, as that of a picture shown before others, is a negative one.
        let step = timestamp.wrapping_sub(self.last_timestamp.unwrap_or(timestamp));
        self.ticks = self
            .ticks
            .saturating_add_signed(i64::from(step.cast_signed()));
        self.last_timestamp = Some(timestamp);
        let micros = u128::from(self.ticks) * 1_000_000 / u128::from(self.carried.clock_hz());
        let time = MediaTime::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        let picture = self.carried.codec().map(|codec| classify(codec, unit));
        let Picture { role, temporal } = match picture {
            Some(picture) => picture.unwrap_or(Picture {
                role: Role::Opaque,
                temporal: 0,
            }),
            None => Picture {
                role: Role::Audio,
                temporal: 0,
            },
        };
        self.lane.mark(role, temporal, time)
    }
}

impl Lane {
    fn mark(&mut self, role: Role, temporal: u8, time: MediaTime) -> Marks {
        if role == Role::Key {
            (self.reference, self.since_key) = (None, 0);
        }
        let mut marks = Marks {
            media_time: time,
            decode_time: time,
            importance: role.importance(temporal, self.since_key),
            ..Marks::default()
        };
        match role {
            Role::Key | Role::Audio => marks.flags = Flags::KEY,
            Role::NonReference => marks.flags = Flags::DISCARDABLE,
            _ => {}
        }
        if matches!(role, Role::Reference | Role::NonReference) {
            let back = self.reference.map_or(0, |reference| self.given - reference);
            marks.depends_on = u32::try_from(back).unwrap_or(0);
        }
        if role == Role::Reference {
            self.since_key = self.since_key.saturating_add(1);
        }
        if matches!(role, Role::Key | Role::Reference) {
            self.reference = Some(self.given);
        }
        marks
    }
}
