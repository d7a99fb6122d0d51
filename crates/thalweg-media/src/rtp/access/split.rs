//! Access units to RTP packets.

use thalweg_base::adu::MediaTime;

use super::{Carried, FRAGMENT_H264, FRAGMENT_H265};
use crate::nal::nal_units;
use crate::rtp::packet::Header;

/// Bytes of a payload: with all headers, also those of a tunnel, it fits an Ethernet frame.
const PAYLOAD_BYTES_MAX: usize = 1_200;

/// The first dynamic payload type (RFC 3551 §6), as most senders use it.
const PAYLOAD_TYPE: u8 = 96;

/// Puts access units into RTP packets.
#[derive(Debug, Clone)]
pub struct Splitter {
    carried: Carried,
    ssrc: u32,
    sequence: u16,
}

impl Splitter {
    /// Returns a splitter; the caller should draw source id and first sequence number at random
    /// (RFC 3550 §5.1).
    pub fn new(carried: Carried, ssrc: u32, first_sequence: u16) -> Self {
        Self {
            carried,
            ssrc,
            sequence: first_sequence,
        }
    }

    /// Returns the packets of an access unit; none if it holds nothing.
    pub fn split(&mut self, unit: &[u8], time: MediaTime) -> Vec<Vec<u8>> {
        let payloads: Vec<Vec<u8>> = match self.carried {
            Carried::Opus if unit.is_empty() => Vec::new(),
            Carried::Opus => vec![unit.to_vec()],
            Carried::H264 | Carried::H265 => nal_units(unit)
                .flat_map(|unit| self.payloads(unit))
                .collect(),
        };
        let ticks = u128::from(time.as_micros()) * u128::from(self.carried.clock_hz()) + 500_000;
        let timestamp = (ticks / 1_000_000) as u32;
        let last = payloads.len().saturating_sub(1);
        let packets = payloads.into_iter().enumerate();
        packets
            .map(|(at, payload)| self.packet(&payload, timestamp, at == last))
            .collect()
    }

    /// Returns the payloads of one NAL unit: itself, or fragments.
    fn payloads(&self, unit: &[u8]) -> Vec<Vec<u8>> {
        if unit.len() <= PAYLOAD_BYTES_MAX {
            return vec![unit.to_vec()];
        }
        let (indicator, kind, rest): (Vec<u8>, u8, &[u8]) = match (self.carried, unit) {
            (Carried::H264, [first, rest @ ..]) => {
                (vec![first & 0xe0 | FRAGMENT_H264], first & 0x1f, rest)
            }
            (_, [first, second, rest @ ..]) => (
                vec![first & 0x81 | FRAGMENT_H265 << 1, *second],
                first >> 1 & 0x3f,
                rest,
            ),
            _ => return Vec::new(),
        };
        let size = PAYLOAD_BYTES_MAX - indicator.len() - 1;
        let count = rest.len().div_ceil(size);
        let pieces = rest.chunks(size).enumerate();
        pieces
            .map(|(at, piece)| {
                let start = if at == 0 { 0x80 } else { 0 };
                let end = if at + 1 == count { 0x40 } else { 0 };
                [&indicator[..], &[start | end | kind], piece].concat()
            })
            .collect()
    }

    fn packet(&mut self, payload: &[u8], timestamp: u32, is_last: bool) -> Vec<u8> {
        let header = Header {
            // Of Opus it marks the first packet after silence (RFC 7587 §4.1), which is unknown here.
            marker: is_last && self.carried != Carried::Opus,
            payload_type: PAYLOAD_TYPE,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = Vec::with_capacity(12 + payload.len());
        header.write(&mut packet);
        packet.extend_from_slice(payload);
        packet
    }
}
