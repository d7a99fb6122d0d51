//! Restores the order of one source's packets.
//!
//! The idea: early packets wait; when the window is full, the missing ones are given up and
//! counted. A new source id, or a jump too large to be loss, is followed once two packets in a row
//! agree on it, so that one stray packet does not disrupt the stream. Until then its packets are
//! held, at most a window of them, and released in order when it is confirmed: a source that begins
//! with a key picture loses nothing of it.
//!
//! ```text
//!   A1 A2 A3 │ B7 (held) · B8 (confirms)  ─►  A1 A2 A3 B7 B8
//!   A1 A2 A3 │ B7 (held) · A4 · A5        ─►  A1 A2 A3 A4 A5      B7 is counted as stray
//! ```
//!
//! Sources: RFC 3550 A.1 (`MAX_DROPOUT`, `MAX_MISORDER`, `bad_seq`).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::packet::{Header, Packet, RtpError};
use super::{PAYLOAD_TYPE_MP2T, is_transport};

/// Maximum number of packets that wait for a missing one before it is given up: at 1 Mbit/s the
/// wait is 80 ms. A caller with a clock may give up sooner with [`Depacketizer::flush`].
pub const WINDOW_PACKETS: usize = 8;

/// A step forward beyond this is a new sequence, not loss.
const DROPOUT_MAX: u16 = 3000;

/// A step back beyond this is a new sequence, not a late packet.
const MISORDER_MAX: u16 = 100;

/// The counters of a depacketizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets returned.
    pub packets: u64,
    /// Sequence numbers that did not arrive in time.
    pub lost: u64,
    /// Packets that arrived in time, but after packets of higher number.
    pub reordered: u64,
    /// Packets that arrived twice or too late.
    pub late: u64,
    /// Packets of another source, or far out of sequence, that nothing confirmed.
    pub stray: u64,
    /// Number of times that a new source or sequence began.
    pub restarts: u64,
}

/// Returns the payloads of RTP packets in order.
#[derive(Debug, Clone, Default)]
pub struct Depacketizer {
    ssrc: Option<u32>,
    /// A payload type other than 33 that carries transport packets here.
    dynamic_type: Option<u8>,
    suspect: Option<Suspect>,
    /// The next sequence number due, without wrap.
    due: u64,
    waiting: BTreeMap<u64, Bytes>,
    ready: VecDeque<Bytes>,
    counts: Counts,
}

/// A source or sequence that may replace the present one.
#[derive(Debug, Clone)]
struct Suspect {
    ssrc: u32,
    /// Sequence numbers and payloads, in order of arrival.
    held: VecDeque<(u16, Bytes)>,
    /// How many of them arrived since the last packet of the source being followed.
    streak: u32,
}

/// Where a packet belongs.
enum Place {
    /// To the source being followed, with its full number.
    Known(u64),
    /// To that source, but too old.
    Over,
    /// To another source or sequence.
    Foreign,
}

impl Depacketizer {
    /// Returns a depacketizer that follows the first source it meets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts a datagram of MPEG-TS in RTP: of payload type 33, or of any other with payloads of
    /// whole transport packets.
    ///
    /// Fails   [`RtpError`] if it is not one; nothing changes then
    pub fn push(&mut self, datagram: &[u8]) -> Result<(), RtpError> {
        let Packet { header, payload } = Packet::read(datagram)?;
        let kind = header.payload_type;
        if kind != PAYLOAD_TYPE_MP2T && is_transport(payload) {
            self.dynamic_type = Some(kind);
        }
        if kind != PAYLOAD_TYPE_MP2T && self.dynamic_type != Some(kind) {
            return Err(RtpError::PayloadType {
                found: kind,
                expected: PAYLOAD_TYPE_MP2T,
            });
        }
        self.arrange(header, Bytes::copy_from_slice(payload));
        Ok(())
    }

    /// Accepts an RTP packet of any payload type, whose whole datagram is returned in its order.
    pub(super) fn push_whole(&mut self, header: Header, datagram: Bytes) {
        self.arrange(header, datagram);
    }

    fn arrange(&mut self, header: Header, payload: Bytes) {
        match self.place(header.ssrc, header.sequence) {
            Place::Known(sequence) => {
                if let Some(suspect) = &mut self.suspect {
                    suspect.streak = 0;
                }
                self.wait(sequence, payload);
            }
            Place::Over => self.counts.late += 1,
            Place::Foreign if self.ssrc.is_none() => {
                self.follow(header.ssrc, [(header.sequence, payload)].into());
            }
            Place::Foreign => self.hold(header.ssrc, header.sequence, payload),
        }
        self.release(WINDOW_PACKETS);
    }

    /// Flushes the window, when no more packets come or none came for long: waiting packets are
    /// released, and a candidate source that nothing contradicted is followed.
    pub fn flush(&mut self) {
        self.release(0);
        if let Some(suspect) = self.suspect.take_if(|suspect| suspect.streak > 0) {
            self.follow(suspect.ssrc, suspect.held);
            self.release(0);
        }
    }

    /// Returns the next payload in order.
    pub fn poll_payload(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Number of packets that wait for a missing one.
    pub fn waiting_packets(&self) -> usize {
        self.waiting.len()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn place(&self, ssrc: u32, sequence: u16) -> Place {
        let ahead = sequence.wrapping_sub(self.due as u16);
        let behind = ahead.wrapping_neg();
        if self.ssrc != Some(ssrc) {
            Place::Foreign
        } else if ahead < DROPOUT_MAX {
            Place::Known(self.due + u64::from(ahead))
        } else if behind <= MISORDER_MAX {
            Place::Over
        } else {
            Place::Foreign
        }
    }

    fn wait(&mut self, sequence: u64, payload: Bytes) {
        if self.waiting.contains_key(&sequence) {
            self.counts.late += 1;
            return;
        }
        let last = self.waiting.last_key_value();
        self.counts.reordered += u64::from(last.is_some_and(|(&n, _)| n > sequence));
        self.waiting.insert(sequence, payload);
    }

    /// Holds a packet of another source, and follows that source if the packet confirms it.
    fn hold(&mut self, ssrc: u32, sequence: u16, payload: Bytes) {
        let mut suspect = match self.suspect.take() {
            Some(suspect) if suspect.is_near(ssrc, sequence) => suspect,
            before => {
                self.counts.stray += before.map_or(0, |before| before.held.len() as u64);
                Suspect {
                    ssrc,
                    held: VecDeque::new(),
                    streak: 0,
                }
            }
        };
        suspect.held.push_back((sequence, payload));
        suspect.streak += 1;
        if suspect.held.len() > WINDOW_PACKETS {
            suspect.held.pop_front();
            self.counts.stray += 1;
        }
        if suspect.streak >= 2 {
            self.follow(ssrc, suspect.held);
        } else {
            self.suspect = Some(suspect);
        }
    }

    /// Follows another source, from the first of these packets on.
    fn follow(&mut self, ssrc: u32, packets: VecDeque<(u16, Bytes)>) {
        self.release(0);
        self.counts.restarts += u64::from(self.ssrc.is_some());
        self.ssrc = Some(ssrc);
        let Some(&(origin, _)) = packets.front() else {
            return;
        };
        let offset = |sequence: u16| i64::from(sequence.wrapping_sub(origin).cast_signed());
        let first = packets.iter().map(|&(n, _)| offset(n)).min().unwrap_or(0);
        // A multiple of 2^16 above all earlier numbers, so that full numbers keep increasing, and
        // one more for numbers before the first that arrived.
        let base = (self.due | 0xffff) + 1 + (1 << 16) + u64::from(origin);
        self.due = base.saturating_add_signed(first);
        for (sequence, payload) in packets {
            self.wait(base.saturating_add_signed(offset(sequence)), payload);
        }
    }

    /// Releases packets in order, and gives up missing ones while more than `window` wait.
    fn release(&mut self, window: usize) {
        while let Some((&sequence, _)) = self.waiting.first_key_value() {
            if sequence != self.due && self.waiting.len() <= window {
                return;
            }
            self.counts.lost += sequence - self.due;
            self.due = sequence + 1;
            if let Some((_, payload)) = self.waiting.pop_first() {
                self.counts.packets += 1;
                self.ready.push_back(payload);
            }
        }
    }
}

impl Suspect {
    /// Returns whether a packet is of this source, and within a window of the last one held.
    fn is_near(&self, ssrc: u32, sequence: u16) -> bool {
        let last = self.held.back().map_or(sequence, |&(last, _)| last);
        let step = sequence.wrapping_sub(last).cast_signed().unsigned_abs();
        // The same packet twice confirms nothing.
        self.ssrc == ssrc && step > 0 && usize::from(step) <= WINDOW_PACKETS
    }
}
