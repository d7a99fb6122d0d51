//! Classifies the datagrams at one UDP port: plain transport packets, or RTP.
//!
//! The idea: certain datagrams decide about uncertain ones. Certain are whole transport packets,
//! alone or after an RTP header of any payload type. Nearly certain are a row of sync bytes within
//! a datagram, and an RTP header with the number after the last of its source. Any other datagram
//! is a piece of the stream before it: senders cut a transport stream anywhere, as ffmpeg does at
//! 1,472 bytes. So pieces are passed on and joined by the reader, and a piece may begin with any
//! bytes, even those of an RTP header.
//!
//! ```text
//!                        plain so far           RTP so far           nothing yet
//!   whole packets        plain                  plain                plain
//!   RTP, whole packets   RTP                    RTP                  RTP
//!   RTP, another payload plain, unless it       RTP if of a known    RTP if of type 33, plain with a row
//!                        follows on the last    type, else foreign   of sync bytes, else foreign
//!   RTCP                 plain                  control              control
//!   anything else        plain                  plain with a row,    plain
//!                                               else unknown
//! ```
//!
//! What it does not do: read a socket or a clock; cut packets (`ts` does).
//!
//! Sources: RFC 3550 §5.1, §6.4; RFC 5761 §4 (RTCP beside RTP); RFC 2250 §2.

use std::collections::VecDeque;

use bytes::Bytes;

use super::order::{self, Depacketizer};
use super::packet::{Header, Packet, RtpError};
use super::{PAYLOAD_TYPE_MP2T, is_transport};
use crate::ts::PACKET_BYTES;

/// Sync bytes in a row that identify a datagram as a piece of a transport stream.
const SYNCS: usize = 3;

/// The counters of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortCounts {
    /// Datagrams of any kind.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// RTP packets with a payload other than MPEG-TS.
    pub foreign: u64,
    /// The payload type of the last of these.
    pub foreign_type: Option<u8>,
    /// Datagrams beside RTP that are neither RTP nor MPEG-TS.
    pub unknown: u64,
    /// Datagrams of RTCP.
    pub control: u64,
    /// The counters of RTP.
    pub rtp: order::Counts,
}

/// One port.
#[derive(Debug, Clone, Default)]
pub struct Port {
    carriage: Option<Carriage>,
    order: Depacketizer,
    ready: VecDeque<Bytes>,
    /// Source and number of the RTP header that would follow the last doubtful one in a plain
    /// stream.
    doubtful: Option<(u32, u16)>,
    counts: PortCounts,
}

/// How transport packets arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carriage {
    Plain,
    Rtp,
}

/// The kind of a datagram by itself.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Whole transport packets.
    Transport,
    /// Whole transport packets behind an RTP header.
    RtpTransport,
    /// Something else behind an RTP header.
    OtherRtp(Header),
    /// RTCP.
    Control,
    /// None of these.
    Unknown,
}

impl Port {
    /// Returns a port without datagrams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts a datagram.
    pub fn push(&mut self, datagram: &[u8]) {
        self.counts.datagrams += 1;
        self.counts.bytes += datagram.len() as u64;
        match classify(datagram) {
            Kind::RtpTransport => self.push_rtp(datagram),
            Kind::OtherRtp(header) if self.is_rtp(&header, datagram) => self.push_rtp(datagram),
            kind if self.is_plain(kind, datagram) => self.push_plain(datagram),
            Kind::Control => self.counts.control += 1,
            _ => self.counts.unknown += 1,
        }
    }

    /// Returns whether a packet that looks like RTP is RTP, rather than a piece of a plain stream.
    fn is_rtp(&mut self, header: &Header, datagram: &[u8]) -> bool {
        match self.carriage {
            Some(Carriage::Plain) => self.follows(header),
            Some(Carriage::Rtp) => true,
            None => header.payload_type == PAYLOAD_TYPE_MP2T || !has_row(datagram),
        }
    }

    /// Returns whether a datagram that is not RTP is a piece of a plain stream.
    fn is_plain(&self, kind: Kind, datagram: &[u8]) -> bool {
        match (kind, self.carriage) {
            (Kind::Transport, _)
            | (_, Some(Carriage::Plain))
            | (Kind::OtherRtp(_) | Kind::Unknown, None) => true,
            (Kind::Unknown, _) => has_row(datagram),
            _ => false,
        }
    }

    /// Releases packets that wait for a missing one, when none came for long.
    pub fn flush(&mut self) {
        self.order.flush();
        self.take_rtp();
    }

    /// Returns the next bytes of the transport stream.
    pub fn poll_bytes(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// The counters.
    pub fn counts(&self) -> PortCounts {
        PortCounts {
            rtp: self.order.counts(),
            ..self.counts
        }
    }

    /// Returns whether a packet follows the last one that looked like RTP.
    fn follows(&mut self, header: &Header) -> bool {
        let next = (header.ssrc, header.sequence.wrapping_add(1));
        self.doubtful.replace(next) == Some((header.ssrc, header.sequence))
    }

    fn push_plain(&mut self, datagram: &[u8]) {
        self.carriage = Some(Carriage::Plain);
        self.ready.push_back(Bytes::copy_from_slice(datagram));
    }

    fn push_rtp(&mut self, datagram: &[u8]) {
        match self.order.push(datagram) {
            Ok(()) => {
                self.carriage = Some(Carriage::Rtp);
                self.take_rtp();
            }
            Err(RtpError::PayloadType { found, .. }) => {
                self.counts.foreign += 1;
                self.counts.foreign_type = Some(found);
            }
            Err(_) => self.counts.unknown += 1,
        }
    }

    fn take_rtp(&mut self) {
        self.ready
            .extend(core::iter::from_fn(|| self.order.poll_payload()));
    }
}

/// Classifies a datagram by itself. `0x47` in the first byte would be RTP version 1.
fn classify(datagram: &[u8]) -> Kind {
    match Packet::read(datagram) {
        _ if is_transport(datagram) => Kind::Transport,
        Ok(packet) if is_transport(packet.payload) => Kind::RtpTransport,
        _ if is_control(datagram) => Kind::Control,
        Ok(packet) => Kind::OtherRtp(packet.header),
        Err(_) => Kind::Unknown,
    }
}

/// RTCP packets have types from 200 to 204 where RTP has marker and payload type.
fn is_control(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 200..=204, ..] if first >> 6 == 2)
}

/// Returns whether there is a row of sync bytes, at the distance of any packet format.
fn has_row(datagram: &[u8]) -> bool {
    [PACKET_BYTES, 192, 204].into_iter().any(|stride| {
        let last = datagram.len().saturating_sub((SYNCS - 1) * stride);
        (0..last).any(|at| (0..SYNCS).all(|n| datagram[at + n * stride] == 0x47))
    })
}
