//! The streams that this end sends.
//!
//! *The idea.* A stream is a queue of bytes that can still be taken back, and a list of
//! unacknowledged chunks that were handed to the active carrier, each in the pieces in which it was
//! written. When another carrier takes over, the list is sent from its head again. The stream of
//! the highest rank with bytes to send is first in `ready`.
//!
//! *What it does not do.* It knows no carrier.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::ready::Ready;
use super::values::{DatagramError, Event, Written};
use crate::hop::StreamCode;
use crate::outbox::CHUNK_BYTES_MIN;
use crate::tcp_mux::frame::{Frame, StreamNumber, put_data};
use crate::tcp_mux::numbered::Numbered;
use crate::tcp_mux::out::Out;
use crate::tcp_mux::settings::{
    DATAGRAM_BUFFER_BYTES, DATAGRAM_BYTES_MAX, DATAGRAM_OVERHEAD_BYTES, QUEUE_BYTES_MAX,
    SEND_WINDOW_BYTES, SESSION_WINDOW_BYTES, STOPS_KEPT, STREAM_WINDOW_BYTES, STREAMS_MAX,
};

/// A chunk keeps this many pieces, and one more for each [`PIECE_BYTES`] of it; more are joined.
const PIECES_FEW: usize = 4;
const PIECE_BYTES: usize = 512;

/// Empty buffers that are kept for new streams, and the capacity that each may have: that of a
/// short stream.
const SPARES_MAX: usize = 8;
const SPARE_PLACES_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct SendStreams {
    streams: Numbered<StreamNumber, SendStream>,
    ready: Ready,
    stopped: BTreeMap<StreamNumber, StreamCode>,
    next: u64,
    streams_limit: u64,
    total_limit: u64,
    /// Bytes written to all streams and not taken back.
    accepted: u64,
    queued: u64,
    unacknowledged: u64,
    /// The part of `unacknowledged` that is to be handed to the active carrier again.
    to_resend: u64,
    datagrams: VecDeque<Bytes>,
    datagram_bytes: usize,
    wants_room: bool,
    spares: Spares,
}

/// Empty buffers for new streams: allocating and freeing them is half of a short stream's cost.
#[derive(Debug)]
struct Spares {
    pieces: Vec<VecDeque<Bytes>>,
    chunks: Vec<VecDeque<Chunk>>,
}

#[derive(Debug)]
struct SendStream {
    rank: i32,
    queue: VecDeque<Bytes>,
    queued: usize,
    chunks: VecDeque<Chunk>,
    /// How many of `chunks` were handed to the active carrier.
    handed_over: usize,
    /// The offset of the next chunk.
    offset: u64,
    limit: u64,
    end: End,
    wants_room: bool,
}

/// How near the end of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may be written.
    Open,
    /// Nothing more is written; the chunk that ends it is not cut yet.
    Finishing,
    /// Its last chunk is cut.
    Cut,
}

#[derive(Debug)]
struct Chunk {
    offset: u64,
    pieces: VecDeque<Bytes>,
    bytes: usize,
    is_last: bool,
}

impl SendStreams {
    pub(super) const fn new() -> Self {
        Self {
            streams: Numbered::new(),
            ready: Ready::new(),
            stopped: BTreeMap::new(),
            next: 0,
            streams_limit: STREAMS_MAX,
            total_limit: SESSION_WINDOW_BYTES,
            accepted: 0,
            queued: 0,
            unacknowledged: 0,
            to_resend: 0,
            datagrams: VecDeque::new(),
            datagram_bytes: 0,
            wants_room: false,
            spares: Spares {
                pieces: Vec::new(),
                chunks: Vec::new(),
            },
        }
    }

    pub(super) fn open(&mut self, rank: i32) -> Option<StreamNumber> {
        if self.next >= self.streams_limit {
            self.wants_room = true;
            return None;
        }
        let stream = StreamNumber(self.next);
        self.next += 1;
        let outgoing = SendStream::new(rank, &mut self.spares);
        self.streams.insert(stream, outgoing);
        Some(stream)
    }

    pub(super) fn write(&mut self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        if let Some(code) = self.stopped.get(&stream) {
            return Written::Stopped(*code);
        }
        // Before the stream is borrowed.
        let link_room = self.room();
        let outgoing = match self.streams.get_mut(stream) {
            Some(outgoing) if outgoing.end == End::Open => outgoing,
            _ => return Written::Lost,
        };
        let stream_room = outgoing.room();
        let take = (bytes.len() as u64).min(link_room).min(stream_room) as usize;
        if take > 0 {
            outgoing.queue.push_back(split_to(bytes, take));
            outgoing.queued += take;
            self.queued += take as u64;
            self.accepted += take as u64;
            self.ready.insert(outgoing.rank, stream);
        }
        if bytes.is_empty() {
            Written::All
        } else if link_room <= stream_room {
            self.wants_room = true;
            Written::Blocked
        } else {
            outgoing.wants_room = true;
            Written::StreamBlocked
        }
    }

    pub(super) fn finish(&mut self, stream: StreamNumber) {
        if let Some(outgoing) = self.streams.get_mut(stream)
            && outgoing.end != End::Cut
        {
            outgoing.end = End::Finishing;
            self.ready.insert(outgoing.rank, stream);
        }
    }

    /// Removes a stream; returns how many of its bytes were handed to a carrier, `None` if there is
    /// no such stream.
    pub(super) fn reset(&mut self, stream: StreamNumber) -> Option<u64> {
        self.stopped.remove(&stream);
        let outgoing = self.streams.remove(stream)?;
        self.ready.remove(outgoing.rank, stream);
        // Queued bytes never left, so they are taken back from the common window; handed-over ones
        // are not.
        self.queued -= outgoing.queued as u64;
        self.accepted -= outgoing.queued as u64;
        self.unacknowledged -= outgoing.chunks.iter().map(Chunk::size).sum::<u64>();
        self.to_resend -= outgoing
            .chunks
            .iter()
            .skip(outgoing.handed_over)
            .map(Chunk::size)
            .sum::<u64>();
        Some(outgoing.offset)
    }

    /// Handles that the peer stopped a stream; returns how many of its bytes were handed to a carrier.
    pub(super) fn handle_stop(&mut self, stream: StreamNumber, code: StreamCode) -> Option<u64> {
        let offset = self.reset(stream)?;
        self.stopped.insert(stream, code);
        // The oldest stream is the least likely to be written again.
        if self.stopped.len() > STOPS_KEPT {
            self.stopped.pop_first();
        }
        Some(offset)
    }

    /// Handles that the peer has the oldest chunk of a stream; returns whether that was its last.
    pub(super) fn handle_acknowledged(&mut self, stream: StreamNumber) -> bool {
        // The stream may have been reset since.
        let Some(outgoing) = self.streams.get_mut(stream) else {
            return false;
        };
        let Some(chunk) = outgoing.chunks.pop_front() else {
            return false;
        };
        outgoing.handed_over = outgoing.handed_over.saturating_sub(1);
        self.unacknowledged -= chunk.size();
        let is_last = chunk.is_last;
        self.spares.keep_pieces(chunk.pieces);
        if is_last && let Some(outgoing) = self.streams.remove(stream) {
            self.spares.keep_chunks(outgoing.chunks);
        }
        is_last
    }

    pub(super) fn handle_window(&mut self, stream: StreamNumber, limit: u64) -> Option<Event> {
        let outgoing = self.streams.get_mut(stream)?;
        outgoing.limit = outgoing.limit.max(limit);
        outgoing.take_writable(stream)
    }

    pub(super) fn handle_total(&mut self, limit: u64) {
        self.total_limit = self.total_limit.max(limit);
    }

    pub(super) fn handle_streams(&mut self, limit: u64) {
        self.streams_limit = self.streams_limit.max(limit);
    }

    /// Returns whether a stream of this number was opened.
    pub(super) const fn is_known(&self, stream: StreamNumber) -> bool {
        stream.0 < self.next
    }

    /// Returns once whether a blocked writer can go on, because the link has room.
    pub(super) fn poll_room(&mut self) -> bool {
        // Require room for a whole queue, so that no writer is woken for a byte.
        let has_room = self.room() >= QUEUE_BYTES_MAX as u64 && self.next < self.streams_limit;
        let is_reported = self.wants_room && has_room;
        self.wants_room &= !is_reported;
        is_reported
    }

    /// Marks all chunks to be resent; returns how many bytes they have.
    pub(super) fn rewind(&mut self) -> u64 {
        let before = self.to_resend;
        let mut ready = Vec::new();
        for (stream, outgoing) in self.streams.iter_mut() {
            let given = outgoing.chunks.iter().take(outgoing.handed_over);
            self.to_resend += given.map(Chunk::size).sum::<u64>();
            outgoing.handed_over = 0;
            if outgoing.has_more() {
                ready.push((outgoing.rank, stream));
            }
        }
        self.ready.extend(ready);
        self.to_resend - before
    }

    pub(super) fn send_datagram(&mut self, datagram: Bytes) -> Result<(), (DatagramError, Bytes)> {
        let bytes = datagram.len();
        if bytes > DATAGRAM_BYTES_MAX {
            let limit = DATAGRAM_BYTES_MAX;
            return Err((DatagramError::TooLarge { bytes, limit }, datagram));
        }
        let size = bytes + DATAGRAM_OVERHEAD_BYTES;
        if self.datagram_bytes + size > DATAGRAM_BUFFER_BYTES {
            return Err((DatagramError::Full, datagram));
        }
        self.datagram_bytes += size;
        self.datagrams.push_back(datagram);
        Ok(())
    }

    /// Returns the next datagram, if the credit suffices.
    pub(super) fn poll_datagram(&mut self, credit: u64) -> Option<Frame> {
        let bytes = self.datagrams.front()?;
        if (bytes.len() as u64) > credit {
            return None;
        }
        let bytes = self.datagrams.pop_front()?;
        self.datagram_bytes -= bytes.len() + DATAGRAM_OVERHEAD_BYTES;
        Some(Frame::Datagram { bytes })
    }

    /// Appends the next chunk of the stream with the highest rank, if the credit suffices; returns
    /// that stream.
    pub(super) fn poll_chunk(
        &mut self,
        credit: u64,
        chunk_bytes: usize,
        out: &mut Out,
    ) -> Option<StreamNumber> {
        let (rank, stream) = self.ready.first()?;
        let outgoing = self.streams.get_mut(stream)?;
        // Half a packet suffices, so that the headers of earlier frames do not cost a whole one.
        let least = outgoing
            .next_bytes()
            .clamp(1, u64::from(CHUNK_BYTES_MIN) / 2);
        if credit < least {
            return None;
        }
        let bytes_max = chunk_bytes.min(usize::try_from(credit).unwrap_or(usize::MAX));
        // Nothing to resend: cut a new chunk, as late as possible.
        if outgoing.handed_over == outgoing.chunks.len() {
            let chunk = outgoing.cut(bytes_max);
            self.queued -= chunk.size();
            self.unacknowledged += chunk.size();
            outgoing.chunks.push_back(chunk);
        } else {
            outgoing.split(bytes_max);
            self.to_resend -= outgoing.chunks[outgoing.handed_over].size();
        }
        let chunk = outgoing.chunks.get(outgoing.handed_over)?;
        put_data(
            out.words(),
            stream,
            chunk.offset,
            chunk.is_last,
            chunk.bytes,
        );
        for piece in &chunk.pieces {
            out.push(piece);
        }
        outgoing.handed_over += 1;
        if !outgoing.has_more() {
            self.ready.remove(rank, stream);
        }
        Some(stream)
    }

    /// Returns once that a stream has room again, after a chunk left.
    pub(super) fn poll_writable(&mut self, stream: StreamNumber) -> Option<Event> {
        self.streams.get_mut(stream)?.take_writable(stream)
    }

    /// Returns whether anything waits for credit.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.datagrams.is_empty()
    }

    /// Returns how many bytes wait to be cut into chunks, or to be resent.
    pub(super) const fn queued(&self) -> u64 {
        self.queued + self.to_resend + self.datagram_bytes as u64
    }

    pub(super) fn is_settled(&self) -> bool {
        let is_sent = self.ready.is_empty() && self.datagrams.is_empty();
        is_sent
            && self
                .streams
                .iter()
                .all(|(_, outgoing)| outgoing.chunks.is_empty())
    }

    fn room(&self) -> u64 {
        let peers = self.total_limit.saturating_sub(self.accepted);
        peers.min(SEND_WINDOW_BYTES.saturating_sub(self.queued + self.unacknowledged))
    }
}

impl Spares {
    fn keep_pieces(&mut self, mut pieces: VecDeque<Bytes>) {
        pieces.clear();
        keep(&mut self.pieces, pieces);
    }

    fn keep_chunks(&mut self, mut chunks: VecDeque<Chunk>) {
        chunks.clear();
        keep(&mut self.chunks, chunks);
    }
}

/// Keeps an empty buffer for reuse, unless it is large or there are enough.
fn keep<T>(spares: &mut Vec<VecDeque<T>>, place: VecDeque<T>) {
    let is_fit = (1..=SPARE_PLACES_MAX).contains(&place.capacity());
    if is_fit && spares.len() < SPARES_MAX {
        spares.push(place);
    }
}

impl SendStream {
    fn new(rank: i32, spares: &mut Spares) -> Self {
        Self {
            rank,
            queue: spares.pieces.pop().unwrap_or_default(),
            queued: 0,
            chunks: spares.chunks.pop().unwrap_or_default(),
            handed_over: 0,
            offset: 0,
            limit: STREAM_WINDOW_BYTES,
            end: End::Open,
            wants_room: false,
        }
    }

    fn room(&self) -> u64 {
        let peers = self.limit.saturating_sub(self.offset + self.queued as u64);
        peers.min((QUEUE_BYTES_MAX - self.queued) as u64)
    }

    fn take_writable(&mut self, stream: StreamNumber) -> Option<Event> {
        let has_room = self.wants_room && self.room() >= QUEUE_BYTES_MAX as u64 / 2;
        has_room.then(|| {
            self.wants_room = false;
            Event::Writable(stream)
        })
    }

    fn has_more(&self) -> bool {
        self.handed_over < self.chunks.len() || self.queued > 0 || self.end == End::Finishing
    }

    /// Returns the largest size of the next chunk.
    fn next_bytes(&self) -> u64 {
        self.chunks
            .get(self.handed_over)
            .map_or(self.queued as u64, Chunk::size)
    }

    /// Cuts a chunk off the queue.
    fn cut(&mut self, bytes_max: usize) -> Chunk {
        let bytes = bytes_max.min(self.queued);
        let pieces = if bytes == self.queued {
            core::mem::take(&mut self.queue)
        } else {
            take(&mut self.queue, bytes)
        };
        let pieces = compact(pieces, bytes);
        self.queued -= bytes;
        let chunk = Chunk {
            offset: self.offset,
            is_last: self.end == End::Finishing && self.queued == 0,
            pieces,
            bytes,
        };
        self.offset += chunk.size();
        if chunk.is_last {
            self.end = End::Cut;
        }
        chunk
    }

    /// Splits the next chunk to resend if it exceeds this size: it was cut for another carrier.
    fn split(&mut self, bytes_max: usize) {
        let Some(chunk) = self.chunks.get_mut(self.handed_over) else {
            return;
        };
        if chunk.bytes <= bytes_max {
            return;
        }
        let head = take(&mut chunk.pieces, bytes_max);
        let tail = Chunk {
            offset: chunk.offset + bytes_max as u64,
            pieces: core::mem::replace(&mut chunk.pieces, head),
            bytes: chunk.bytes - bytes_max,
            is_last: core::mem::take(&mut chunk.is_last),
        };
        chunk.bytes = bytes_max;
        self.chunks.insert(self.handed_over + 1, tail);
    }
}

impl Chunk {
    const fn size(&self) -> u64 {
        self.bytes as u64
    }
}

/// Takes the first `bytes`, or all, in the pieces in which they lie.
fn take(queue: &mut VecDeque<Bytes>, mut bytes: usize) -> VecDeque<Bytes> {
    let mut taken = VecDeque::new();
    while bytes > 0
        && let Some(first) = queue.front_mut()
    {
        let piece = split_to(first, bytes.min(first.len()));
        bytes -= piece.len();
        taken.push_back(piece);
        if first.is_empty() {
            queue.pop_front();
        }
    }
    taken
}

/// Joins many small pieces: keeping each until it is acknowledged costs more than its bytes.
fn compact(pieces: VecDeque<Bytes>, bytes: usize) -> VecDeque<Bytes> {
    if pieces.len() <= PIECES_FEW + bytes / PIECE_BYTES {
        return pieces;
    }
    let mut whole = BytesMut::with_capacity(bytes);
    whole.extend(pieces);
    VecDeque::from([whole.freeze()])
}

/// Splits off the first bytes; all of them without another reference, for a shared reference count
/// costs a contended access.
fn split_to(bytes: &mut Bytes, count: usize) -> Bytes {
    if count == bytes.len() {
        core::mem::take(bytes)
    } else {
        bytes.split_to(count)
    }
}
