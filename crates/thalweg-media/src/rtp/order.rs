//! Packets of one source, back in order.
//!
//! The idea: packets ahead of their turn wait; when the window is full the missing ones are given up and counted. A new
//! source id, or a jump too large to be loss, starts anew once two packets in a row agree on it: a stray one does not
//! throw the stream over.
//!
//! Sources: RFC 3550 A.1 (`MAX_DROPOUT`, `MAX_MISORDER`, `bad_seq`).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::PAYLOAD_TYPE_MP2T;
use super::packet::{Packet, RtpError};

/// Packets that wait for a missing one before it is given up: at 1 Mbit/s the wait is 80 ms. A caller with a clock may
/// give up sooner with [`Depacketizer::flush`].
pub const WINDOW_PACKETS: usize = 8;

/// A step forward beyond this is a new sequence, not loss.
const DROPOUT_MAX: u16 = 3000;

/// A step back beyond this is a new sequence, not lateness.
const MISORDER_MAX: u16 = 100;

/// What the depacketizer has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets given on.
    pub packets: u64,
    /// Sequence numbers that did not come in time.
    pub lost: u64,
    /// Packets that came after others of higher number, in time.
    pub reordered: u64,
    /// Packets that came twice, too late, or alone from elsewhere.
    pub late: u64,
    /// Times that a new source or sequence began.
    pub restarts: u64,
}

/// Gives the payloads of RTP packets in order.
#[derive(Debug, Clone, Default)]
pub struct Depacketizer {
    ssrc: Option<u32>,
    /// Source and number that would confirm a new sequence.
    suspect: Option<(u32, u16)>,
    /// The next sequence number due, without wrap.
    due: u64,
    waiting: BTreeMap<u64, Bytes>,
    ready: VecDeque<Bytes>,
    counts: Counts,
}

impl Depacketizer {
    /// Makes a depacketizer that follows the first source it meets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a datagram of MPEG-TS in RTP.
    ///
    /// Fails   [`RtpError`] if it is none; nothing changes then
    pub fn push(&mut self, datagram: &[u8]) -> Result<(), RtpError> {
        let Packet { header, payload } = Packet::read(datagram)?;
        if header.payload_type != PAYLOAD_TYPE_MP2T {
            return Err(RtpError::PayloadType {
                found: header.payload_type,
                expected: PAYLOAD_TYPE_MP2T,
            });
        }
        let sequence = self.place(header.ssrc, header.sequence);
        match sequence {
            Some(sequence) if sequence >= self.due && !self.waiting.contains_key(&sequence) => {
                let after = self
                    .waiting
                    .last_key_value()
                    .is_some_and(|(&n, _)| n > sequence);
                self.counts.reordered += u64::from(after);
                self.waiting
                    .insert(sequence, Bytes::copy_from_slice(payload));
            }
            _ => self.counts.late += 1,
        }
        self.release(WINDOW_PACKETS);
        Ok(())
    }

    /// Says that no more packets come, or that none came for long: what waits is given.
    pub fn flush(&mut self) {
        self.release(0);
    }

    /// Gives the next payload in order.
    pub fn poll_payload(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Packets that wait for a missing one.
    pub fn waiting_packets(&self) -> usize {
        self.waiting.len()
    }

    /// What has been met so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The full sequence number; `None` for one that is not to be taken.
    fn place(&mut self, ssrc: u32, sequence: u16) -> Option<u64> {
        let ahead = sequence.wrapping_sub(self.due as u16);
        let behind = ahead.wrapping_neg();
        let known = self.ssrc == Some(ssrc);
        if known && ahead < DROPOUT_MAX {
            return Some(self.due + u64::from(ahead));
        }
        if known && behind <= MISORDER_MAX {
            return self.due.checked_sub(u64::from(behind));
        }
        let confirmed = self.suspect.take() == Some((ssrc, sequence));
        if self.ssrc.is_some() && !confirmed {
            self.suspect = Some((ssrc, sequence.wrapping_add(1)));
            return None;
        }
        self.release(0);
        self.counts.restarts += u64::from(self.ssrc.is_some());
        self.ssrc = Some(ssrc);
        // A multiple of 2^16 above all that was, so that full numbers keep going up.
        self.due = (self.due | 0xffff) + 1 + u64::from(sequence);
        Some(self.due)
    }

    /// Gives what is in turn, and gives up missing packets while more than `window` wait.
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
