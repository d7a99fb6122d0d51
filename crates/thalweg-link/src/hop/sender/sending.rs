//! One ADU that has no outcome yet: its header, the payload that has arrived and is unsent, its stream.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use thalweg_base::adu::Header;
use thalweg_base::limits::ADU_HEADER_BYTES_MAX;
use thalweg_base::time::Instant;
use thalweg_base::trace::Trace;
use thalweg_base::wire::adu::{encode_header, encode_traced};

use super::flow::FlowPlace;
use super::transport::{Transport, Written};
use super::{Arrived, Ticket};
use crate::hop::{Carriage, Outcome, Pieces, SendOptions, StreamCode};

/// Pieces written under one lock of the connection: a chunk of 40 kB as it arrived in packets.
const PIECES_MANY: usize = 32;

/// Pieces for an ADU that has few: each slot costs something to create and drop.
const PIECES_FEW: usize = 4;

/// Bytes of headers in one block. While one of them is not acknowledged, its block is kept, so it is
/// small.
const BLOCK_BYTES: usize = 1 << 10;

/// The encoded headers of one link's ADUs.
///
/// Many share a block, so that most cost no allocation, neither here nor when the transport shares
/// them.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Where one is encoded.
    scratch: Vec<u8>,
    /// The unused rest of the present block.
    block: BytesMut,
}

impl Heads {
    /// Returns what `encode` appends.
    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Bytes {
        self.scratch.clear();
        encode(&mut self.scratch);
        if self.block.capacity() < self.scratch.len() {
            self.block = BytesMut::with_capacity(BLOCK_BYTES.max(self.scratch.len()));
        }
        self.block.extend_from_slice(&self.scratch);
        self.block.split().freeze()
    }
}

/// An ADU that is being sent.
#[derive(Debug)]
pub(super) struct PendingAdu<S, D> {
    pub(super) data: D,
    pub(super) header: Header,
    pub(super) payload_bytes: usize,
    pub(super) carriage: Carriage,
    /// QUIC's priority of its unsent bytes.
    pub(super) priority: u8,
    pub(super) ticket: Ticket,
    pub(super) flow: FlowPlace,
    /// Its own stream.
    pub(super) stream: Option<S>,
    /// Its outcome, if it was cancelled for a reason that the outbox cannot express.
    pub(super) outcome_override: Option<Outcome>,
    /// Bytes that have arrived and are not handed over.
    unsent: Pieces,
    /// Bytes still to arrive.
    missing: usize,
    /// The stamps of nodes, if it is traced.
    pub(super) trace: Option<Box<Trace>>,
    head: Head,
}

/// How much of the header has been sent.
#[derive(Debug)]
enum Head {
    /// Not yet encoded, for it carries the remaining time until the deadline.
    Unencoded,
    /// Partly sent; this is the rest.
    Rest(Bytes),
    Sent,
}

/// The result of writing a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The chunk is sent, or its ADU has ended: on to the next.
    Done,
    /// The link takes no more now.
    Blocked,
    /// The stream takes no more now.
    StreamBlocked,
    Stopped(StreamCode),
}

impl<S: Copy, D> PendingAdu<S, D> {
    pub(super) fn new(
        header: Header,
        payload: Arrived,
        options: &SendOptions,
        data: D,
        (ticket, flow): (Ticket, FlowPlace),
    ) -> Self {
        let missing = payload.payload_bytes - payload.available_bytes();
        Self {
            data,
            header,
            payload_bytes: payload.payload_bytes,
            carriage: options.carriage,
            priority: options.priority(&header),
            ticket,
            flow,
            stream: None,
            outcome_override: None,
            unsent: payload.chunks,
            missing,
            trace: payload.trace,
            head: Head::Unencoded,
        }
    }

    /// Returns how many bytes of the payload have arrived.
    pub(super) const fn available_bytes(&self) -> usize {
        self.payload_bytes - self.missing
    }

    /// Appends to the payload, up to the announced length.
    pub(super) fn push(&mut self, mut chunk: Bytes) {
        chunk.truncate(self.missing);
        self.missing -= chunk.len();
        self.unsent.push(chunk);
    }

    /// Returns whether it fits a datagram; if only the stamps are too much, it goes without them.
    pub(super) fn fits(&mut self, datagram_bytes_max: usize) -> bool {
        let bytes = self.payload_bytes + ADU_HEADER_BYTES_MAX;
        let is_too_much = |trace: &mut Box<Trace>| bytes + trace.bytes_max() > datagram_bytes_max;
        // Delivery is worth more than a trace.
        self.trace.take_if(is_too_much);
        bytes <= datagram_bytes_max
    }

    /// Returns header and payload in one buffer; the header carries the remaining time as of now.
    pub(super) fn datagram(&self, now: Instant) -> Bytes {
        let stamps = self.trace.as_ref().map_or(0, |trace| trace.bytes_max());
        let mut datagram = Vec::with_capacity(ADU_HEADER_BYTES_MAX + stamps + self.payload_bytes);
        self.append_head(now, &mut datagram);
        for chunk in self.unsent.iter() {
            datagram.extend_from_slice(chunk);
        }
        datagram.into()
    }

    /// Returns whether any byte of it was sent.
    pub(super) const fn has_begun(&self) -> bool {
        !matches!(self.head, Head::Unencoded)
    }

    /// Writes the next bytes of the payload, with the header before the first, and the stream's
    /// kind before that if given.
    ///
    /// Returns how many bytes of the payload were sent.
    pub(super) fn write(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        stream: S,
        kind: Option<u8>,
        bytes: usize,
        heads: &mut Heads,
    ) -> (usize, Step) {
        // One more slot is for the header.
        if self.unsent.len() < PIECES_FEW {
            self.write_by::<PIECES_FEW>(now, transport, stream, kind, bytes, heads)
        } else {
            self.write_by::<PIECES_MANY>(now, transport, stream, kind, bytes, heads)
        }
    }

    /// As [`PendingAdu::write`], with `N` pieces at once.
    fn write_by<const N: usize>(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        stream: S,
        kind: Option<u8>,
        bytes: usize,
        heads: &mut Heads,
    ) -> (usize, Step) {
        let mut gone = 0;
        loop {
            let head = match &self.head {
                Head::Unencoded => heads.add(|out| {
                    out.extend(kind);
                    self.append_head(now, out);
                }),
                Head::Rest(rest) => rest.clone(),
                Head::Sent => Bytes::new(),
            };
            let head_bytes = head.len();
            // On the stack: a vectored write without an allocation.
            let mut pieces = [const { Bytes::new() }; N];
            let count = self.gather(head, bytes - gone, &mut pieces);
            let offered: usize = pieces[..count].iter().map(Bytes::len).sum();
            if offered == 0 {
                return (gone, Step::Done);
            }
            let taken = match transport.write(stream, &mut pieces[..count]) {
                Written::Some(taken) => taken,
                Written::Blocked | Written::Lost => return (gone, Step::Blocked),
                Written::StreamBlocked => return (gone, Step::StreamBlocked),
                Written::Stopped(code) => return (gone, Step::Stopped(code)),
            };
            if head_bytes > 0 {
                self.advance_head(head_bytes, taken, &pieces[0]);
            }
            // The header goes first, so it takes the first of the bytes written.
            let of_payload = taken.saturating_sub(head_bytes);
            self.unsent.advance(of_payload);
            gone += of_payload;
        }
    }

    /// Lays out the header and the next bytes of the payload, without a copy; returns the number of
    /// pieces.
    fn gather(&self, head: Bytes, bytes: usize, pieces: &mut [Bytes]) -> usize {
        let mut count = 0;
        if !head.is_empty() {
            pieces[0] = head;
            count = 1;
        }
        let mut left = bytes;
        for chunk in self.unsent.iter() {
            if left == 0 || count == pieces.len() {
                break;
            }
            let bytes = chunk.len().min(left);
            pieces[count] = chunk.slice(..bytes);
            left -= bytes;
            count += 1;
        }
        count
    }

    fn advance_head(&mut self, head_bytes: usize, taken: usize, first: &Bytes) {
        if taken >= head_bytes {
            self.head = Head::Sent;
        } else {
            // The transport leaves the unwritten rest in the piece.
            self.head = Head::Rest(first.slice(first.len() - (head_bytes - taken)..));
        }
    }

    /// Appends the header; it carries the remaining time as of now.
    fn append_head(&self, now: Instant, out: &mut Vec<u8>) {
        match &self.trace {
            None => encode_header(&self.header, self.payload_bytes, now, out),
            Some(trace) => encode_traced(&self.header, trace, self.payload_bytes, now, out),
        }
    }
}
