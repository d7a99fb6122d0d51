//! RTP, and MPEG-TS, H.264, H.265 and Opus within it.
//!
//! The idea: [`Header`] reads and writes the fixed header; [`Depacketizer`] restores the order of
//! packets within a small window and returns their payloads; [`Packetizer`] puts seven transport
//! packets in each datagram; [`Port`] classifies the datagrams at a UDP port and joins them.
//! [`Assembler`] and [`Splitter`] do the same for the access units of other codecs.
//!
//! What it does not do: read RTCP or SDP; jitter buffering by time (the window counts packets,
//! since there is no clock here).
//!
//! Sources: RFC 3550 §5.1, A.1; RFC 2250 §2 (payload type 33); RFC 3551 §6.

mod access;
mod order;
mod packet;
mod port;

#[cfg(test)]
mod tests;

pub use access::{AccessCounts, Assembler, Carried, Splitter};
pub use order::{Counts, Depacketizer, WINDOW_PACKETS};
pub use packet::{Header, Packet, RtpError};
pub use port::{Port, PortCounts};

use crate::ts::PACKET_BYTES;

/// The payload type of MPEG-TS.
pub const PAYLOAD_TYPE_MP2T: u8 = 33;

/// Transport packets in a datagram: seven make 1316 bytes, which fits an Ethernet frame with all
/// headers.
pub const PACKETS_PER_DATAGRAM: usize = 7;

/// Returns whether the bytes are whole transport packets and nothing else.
fn is_transport(bytes: &[u8]) -> bool {
    let mut packets = bytes.chunks_exact(PACKET_BYTES);
    !bytes.is_empty() && packets.remainder().is_empty() && packets.all(|packet| packet[0] == 0x47)
}

/// Puts transport packets into RTP packets.
#[derive(Debug, Clone)]
pub struct Packetizer {
    ssrc: u32,
    sequence: u16,
    rest: Vec<u8>,
}

impl Packetizer {
    /// Returns a packetizer; the caller should draw source id and first sequence number at random
    /// (RFC 3550 §5.1).
    pub fn new(ssrc: u32, first_sequence: u16) -> Self {
        Self {
            ssrc,
            sequence: first_sequence,
            rest: Vec::new(),
        }
    }

    /// Appends whole transport packets with their time on the 90 kHz clock; returns the datagrams
    /// that are full.
    pub fn push(&mut self, packets: &[u8], time_90khz: u32) -> Vec<Vec<u8>> {
        self.rest.extend_from_slice(packets);
        let full = self.rest.len() - self.rest.len() % (PACKETS_PER_DATAGRAM * PACKET_BYTES);
        let packets: Vec<u8> = self.rest.drain(..full).collect();
        packets
            .chunks(PACKETS_PER_DATAGRAM * PACKET_BYTES)
            .map(|payload| self.datagram(payload, time_90khz))
            .collect()
    }

    /// Returns the remaining packets as a shorter datagram.
    pub fn flush(&mut self, time_90khz: u32) -> Option<Vec<u8>> {
        let payload = core::mem::take(&mut self.rest);
        (!payload.is_empty()).then(|| self.datagram(&payload, time_90khz))
    }

    fn datagram(&mut self, payload: &[u8], timestamp: u32) -> Vec<u8> {
        let header = Header {
            marker: false,
            payload_type: PAYLOAD_TYPE_MP2T,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut out = Vec::with_capacity(packet::FIXED_BYTES + payload.len());
        header.write(&mut out);
        out.extend_from_slice(payload);
        out
    }
}
