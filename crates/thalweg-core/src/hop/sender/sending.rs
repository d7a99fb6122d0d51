//! One ADU that has no outcome yet: its header, what is here of its payload and not yet handed over, its stream.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

use super::transport::{Transport, Written};
use super::{Arrived, Ticket};
use crate::adu::Header;
use crate::hop::{Carriage, Outcome, Pieces, SendOptions, StreamCode};
use crate::limits::ADU_HEADER_BYTES_MAX;
use crate::time::Instant;
use crate::trace::Trace;
use crate::wire::adu::{encode_header, encode_traced};

/// Pieces written under one lock of the connection: a chunk of 40 kB as it arrived in packets.
const PIECES_MANY: usize = 32;

/// Places for an ADU that is in few pieces: each costs something to make and to let go.
const PIECES_FEW: usize = 4;

/// An ADU that is being sent.
#[derive(Debug)]
pub(super) struct Sending<S, D> {
    pub(super) data: D,
    pub(super) header: Header,
    pub(super) payload_bytes: usize,
    pub(super) carriage: Carriage,
    /// The priority that QUIC has for what it has not sent yet.
    pub(super) priority: u8,
    pub(super) ticket: Option<Ticket>,
    /// Its own stream.
    pub(super) stream: Option<S>,
    /// What it ends as, if it is given up for a reason that the outbox has no word for.
    pub(super) verdict: Option<Outcome>,
    /// What is here and not handed over.
    unsent: Pieces,
    /// What is still to come.
    missing: usize,
    /// What nodes say of it, if it is traced.
    pub(super) trace: Option<Box<Trace>>,
    head: Head,
}

/// How far the bytes before a payload have come.
#[derive(Debug)]
enum Head {
    /// Not yet made, for it says what is left of the deadline.
    Unmade,
    /// Some of it has gone; this has not.
    Rest(Bytes),
    Gone,
}

/// What follows from a writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All of the chunk has gone, or its ADU has ended: on to the next.
    Went,
    /// Nothing more can go now.
    Blocked,
    /// Nothing more of this ADU can go now.
    StreamBlocked,
    Stopped(StreamCode),
}

impl<S: Copy, D> Sending<S, D> {
    pub(super) fn new(header: Header, payload: Arrived, options: &SendOptions, data: D) -> Self {
        let here = payload.chunks.bytes();
        Self {
            data,
            header,
            payload_bytes: payload.payload_bytes,
            carriage: options.carriage,
            priority: options.priority(&header),
            ticket: None,
            stream: None,
            verdict: None,
            unsent: payload.chunks,
            missing: payload.payload_bytes.saturating_sub(here),
            trace: payload.trace,
            head: Head::Unmade,
        }
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// Returns how many bytes of the payload have come.
    pub(super) const fn available_bytes(&self) -> usize {
        self.payload_bytes - self.missing
    }

    /// Takes more of the payload, no more than was announced.
    pub(super) fn push(&mut self, mut chunk: Bytes) {
        chunk.truncate(self.missing);
        self.missing -= chunk.len();
        self.unsent.push(chunk);
    }

    /// Returns whether it fits a datagram; one that does not with its stamps goes without.
    pub(super) fn fits(&mut self, datagram_bytes_max: usize) -> bool {
        let bytes = self.payload_bytes + ADU_HEADER_BYTES_MAX;
        let is_too_much = |trace: &mut Box<Trace>| bytes + trace.bytes_max() > datagram_bytes_max;
        self.trace.take_if(is_too_much);
        bytes <= datagram_bytes_max
    }

    /// Returns header and payload in one buffer; what is left of the deadline is reckoned now.
    pub(super) fn datagram(&self, now: Instant) -> Bytes {
        let stamps = self.trace.as_ref().map_or(0, |trace| trace.bytes_max());
        let mut datagram = Vec::with_capacity(ADU_HEADER_BYTES_MAX + stamps + self.payload_bytes);
        self.append_head(now, &mut datagram);
        for chunk in self.unsent.iter() {
            datagram.extend_from_slice(chunk);
        }
        datagram.into()
    }

    /// Returns whether any byte of it has gone.
    pub(super) const fn has_begun(&self) -> bool {
        !matches!(self.head, Head::Unmade)
    }

    /// Writes the next bytes of the payload, the header before the first; before that the stream's kind, if it has none.
    ///
    /// In `scratch` the header is laid down, to be copied at its length: what is let go of later is one place and not two.
    ///
    /// Returns how many bytes of the payload have gone.
    pub(super) fn write(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        stream: S,
        kind: Option<u8>,
        bytes: usize,
        scratch: &mut Vec<u8>,
    ) -> (usize, Step) {
        // One more is for the head.
        if self.unsent.len() < PIECES_FEW {
            self.write_by::<PIECES_FEW>(now, transport, stream, kind, bytes, scratch)
        } else {
            self.write_by::<PIECES_MANY>(now, transport, stream, kind, bytes, scratch)
        }
    }

    /// Writes as [`Sending::write`], so many pieces at once.
    fn write_by<const N: usize>(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        stream: S,
        kind: Option<u8>,
        bytes: usize,
        scratch: &mut Vec<u8>,
    ) -> (usize, Step) {
        let mut gone = 0;
        loop {
            let head = match &self.head {
                Head::Unmade => self.head(kind, now, scratch),
                Head::Rest(rest) => rest.clone(),
                Head::Gone => Bytes::new(),
            };
            let head_bytes = head.len();
            let mut pieces = [const { Bytes::new() }; N];
            let count = self.gather(head, bytes - gone, &mut pieces);
            let offered: usize = pieces[..count].iter().map(Bytes::len).sum();
            if offered == 0 {
                return (gone, Step::Went);
            }
            let taken = match transport.write(stream, &mut pieces[..count]) {
                Written::Some(taken) => taken,
                Written::Blocked | Written::Lost => return (gone, Step::Blocked),
                Written::StreamBlocked => return (gone, Step::StreamBlocked),
                Written::Stopped(code) => return (gone, Step::Stopped(code)),
            };
            if head_bytes > 0 {
                self.take_head(head_bytes, taken, &pieces[0]);
            }
            let of_payload = taken.saturating_sub(head_bytes);
            self.unsent.advance(of_payload);
            gone += of_payload;
        }
    }

    /// Lays out the head and the next bytes of the payload, without a copy; returns in how many pieces.
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

    fn take_head(&mut self, head_bytes: usize, taken: usize, first: &Bytes) {
        if taken >= head_bytes {
            self.head = Head::Gone;
        } else {
            // The transport leaves in a piece what it did not take of it.
            self.head = Head::Rest(first.slice(first.len() - (head_bytes - taken)..));
        }
    }

    /// Returns the bytes before a payload; what is left of the deadline is reckoned now.
    fn head(&self, kind: Option<u8>, now: Instant, scratch: &mut Vec<u8>) -> Bytes {
        scratch.clear();
        scratch.extend(kind);
        self.append_head(now, scratch);
        Bytes::copy_from_slice(scratch)
    }

    fn append_head(&self, now: Instant, out: &mut Vec<u8>) {
        match &self.trace {
            None => encode_header(&self.header, self.payload_bytes, now, out),
            Some(trace) => encode_traced(&self.header, trace, self.payload_bytes, now, out),
        }
    }
}
