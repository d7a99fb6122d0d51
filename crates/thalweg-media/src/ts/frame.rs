//! Cuts transport packets from a stream of bytes.
//!
//! The idea: a row of equally spaced sync bytes marks packet starts. The spacing determines the
//! format: 188 bytes; 192 with an arrival time of 4 bytes before each packet (M2TS, as in Blu-ray
//! and AVCHD); or 204 with 16 bytes of Reed-Solomon code after it (DVB). Once a row is found,
//! packets follow without a search until one does not begin with a sync byte. The output is
//! independent of how the bytes were sliced, so slices need not end at packet boundaries: pieces of
//! a datagram, a pipe or a file are joined.
//!
//! ```text
//!   188   │47 …………………│47 …………………│47 …………………│
//!   192   │time│47 …………………│time│47 …………………│time│47 …………………│
//!   204   │47 …………………│code│47 …………………│code│47 …………………│code│
//! ```
//!
//! What it does not do: correct errors by the Reed-Solomon code; read the arrival times.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3.2; ETSI EN 300 421 §4.4.2 (204 bytes); the Blu-ray Disc format,
//! AV basics (192 bytes).

use super::packet::{PACKET_BYTES, SYNC};

/// Bytes from one sync byte to the next, in the order in which they are tried.
const STRIDES: [usize; 3] = [PACKET_BYTES, 192, 204];

/// The longest of them.
const STRIDE_BYTES_MAX: usize = 204;

/// Bytes before the first packet that belong to its frame: the arrival time of a 192-byte packet.
const STAMP_BYTES: usize = 4;

/// Sync bytes in a row that make a start.
const SYNCS: usize = 3;

/// The counters of the framer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FrameCounts {
    /// Bytes skipped in search of packets.
    pub(super) skipped_bytes: u64,
    /// Bytes after the last whole packet.
    pub(super) truncated_bytes: u64,
    /// Arrival times and error correction between packets.
    pub(super) framing_bytes: u64,
    /// Number of packets that did not begin where the one before it ended.
    pub(super) sync_losses: u64,
}

/// Cuts packets off a stream of bytes.
#[derive(Debug, Clone)]
pub(super) struct Framer {
    buffer: Vec<u8>,
    start: usize,
    synced: bool,
    stride: usize,
    /// Bytes between the last packet and the next that have not arrived yet.
    gap_bytes: usize,
    counts: FrameCounts,
}

impl Default for Framer {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            synced: false,
            stride: PACKET_BYTES,
            gap_bytes: 0,
            counts: FrameCounts::default(),
        }
    }
}

impl Framer {
    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next packet.
    pub(super) fn poll_packet(&mut self) -> Option<[u8; PACKET_BYTES]> {
        self.poll(SYNCS)
    }

    /// Returns the next packet after the end of the input, where fewer sync bytes in a row must
    /// suffice.
    pub(super) fn poll_last(&mut self) -> Option<[u8; PACKET_BYTES]> {
        (1..SYNCS).rev().find_map(|syncs| self.poll(syncs))
    }

    /// Marks the end of the input; call it after all packets were polled.
    pub(super) fn finish(&mut self) {
        self.counts.truncated_bytes += (self.buffer.len() - self.start) as u64;
        self.start = self.buffer.len();
        self.synced = false;
    }

    /// The counters.
    pub(super) fn counts(&self) -> FrameCounts {
        self.counts
    }

    fn poll(&mut self, syncs: usize) -> Option<[u8; PACKET_BYTES]> {
        loop {
            if !self.synced && !self.search(syncs) {
                return None;
            }
            let gap = self.gap_bytes.min(self.buffer.len() - self.start);
            self.gap_bytes -= gap;
            self.start += gap;
            self.counts.framing_bytes += gap as u64;
            let rest = &self.buffer[self.start..];
            if rest.first().is_some_and(|&byte| byte != SYNC) {
                self.synced = false;
                self.counts.sync_losses += 1;
                continue;
            }
            let raw = *rest.first_chunk()?;
            self.start += PACKET_BYTES;
            self.gap_bytes = self.stride - PACKET_BYTES;
            return Some(raw);
        }
    }

    /// Moves to the next row of sync bytes; skips bytes that can no longer begin one.
    fn search(&mut self, syncs: usize) -> bool {
        let rest = &self.buffer[self.start..];
        let found = find_row(rest, syncs, self.stride);
        let skip = if let Some((at, stride)) = found {
            self.stride = stride;
            // The frame of a 192-byte packet begins before its sync byte.
            let stamp = STAMP_BYTES.min(if stride == 192 { at } else { 0 });
            self.counts.framing_bytes += stamp as u64;
            self.start += stamp;
            at - stamp
        } else {
            let keep = (syncs - 1) * STRIDE_BYTES_MAX + STAMP_BYTES;
            rest.len().saturating_sub(keep)
        };
        self.counts.skipped_bytes += skip as u64;
        self.start += skip;
        self.synced = found.is_some();
        self.gap_bytes = 0;
        self.synced
    }
}

/// Returns the position and the spacing of the first row of sync bytes; `likely` is tried first.
fn find_row(bytes: &[u8], syncs: usize, likely: usize) -> Option<(usize, usize)> {
    // Search only where every spacing is decidable, or the result would depend on the slicing.
    let last = bytes.len().checked_sub((syncs - 1) * STRIDE_BYTES_MAX)?;
    let is_row = |at: usize, stride: usize| (1..syncs).all(|n| bytes[at + n * stride] == SYNC);
    let starts = (0..last).filter(|&at| bytes[at] == SYNC);
    starts
        .flat_map(|at| [likely].into_iter().chain(STRIDES).map(move |s| (at, s)))
        .find(|&(at, stride)| is_row(at, stride))
}
