//! The streams that this end sends.
//!
//! *The idea.* A stream is a queue of bytes that can still be taken back, and a row of chunks, each in the pieces in which it
//! came, that were given to the active carrier and are not acknowledged. When another carrier takes over, the row is begun
//! again from its head. Whoever has the highest rank and something to send is first in `ready`.
//!
//! *What it does not do.* It knows no carrier.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::ready::Ready;
use super::values::{DatagramError, Event, Written};
use crate::hop::StreamCode;
use crate::outbox::CHUNK_BYTES_MIN;
use crate::pace::frame::{Frame, StreamNumber, put_data};
use crate::pace::numbered::Numbered;
use crate::pace::out::Out;
use crate::pace::settings::{
    DATAGRAM_BUFFER_BYTES, DATAGRAM_BYTES_MAX, DATAGRAM_OVERHEAD_BYTES, QUEUE_BYTES_MAX,
    SEND_WINDOW_BYTES, SESSION_WINDOW_BYTES, STOPS_KEPT, STREAM_WINDOW_BYTES, STREAMS_MAX,
};

/// A chunk is kept as it came in so many pieces, and one more for each so many bytes of it.
const PIECES_FEW: usize = 4;
const PIECE_BYTES: usize = 512;

/// Places that are kept for streams to come, and how much each may hold: those of a few short ones.
const SPARES_MAX: usize = 8;
const SPARE_PLACES_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Sending {
    streams: Numbered<StreamNumber, Outgoing>,
    ready: Ready,
    stopped: BTreeMap<StreamNumber, StreamCode>,
    next: u64,
    streams_limit: u64,
    total_limit: u64,
    /// What was taken of all streams and not taken back.
    taken: u64,
    queued: u64,
    unacknowledged: u64,
    /// What of that is to be given to the active carrier again.
    again: u64,
    datagrams: VecDeque<Bytes>,
    datagram_bytes: usize,
    wants_room: bool,
    spares: Spares,
}

/// Places without a use, for streams to come: a short one costs as much to find its places and let go of them as all else of it.
#[derive(Debug)]
struct Spares {
    pieces: Vec<VecDeque<Bytes>>,
    chunks: Vec<VecDeque<Chunk>>,
}

#[derive(Debug)]
struct Outgoing {
    rank: i32,
    queue: VecDeque<Bytes>,
    queued: usize,
    chunks: VecDeque<Chunk>,
    /// How many of `chunks` were given to the active carrier.
    given: usize,
    /// Where the next chunk begins.
    offset: u64,
    limit: u64,
    is_finished: bool,
    is_last_cut: bool,
    wants_room: bool,
}

#[derive(Debug)]
struct Chunk {
    offset: u64,
    pieces: VecDeque<Bytes>,
    bytes: usize,
    is_last: bool,
}

impl Sending {
    pub(super) const fn new() -> Self {
        Self {
            streams: Numbered::new(),
            ready: Ready::new(),
            stopped: BTreeMap::new(),
            next: 0,
            streams_limit: STREAMS_MAX,
            total_limit: SESSION_WINDOW_BYTES,
            taken: 0,
            queued: 0,
            unacknowledged: 0,
            again: 0,
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
        let outgoing = Outgoing::new(rank, &mut self.spares);
        self.streams.insert(stream, outgoing);
        Some(stream)
    }

    pub(super) fn write(&mut self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        if let Some(code) = self.stopped.get(&stream) {
            return Written::Stopped(*code);
        }
        let link_room = self.room();
        let outgoing = match self.streams.get_mut(stream) {
            Some(outgoing) if !outgoing.is_finished => outgoing,
            _ => return Written::Lost,
        };
        let stream_room = outgoing.room();
        let take = (bytes.len() as u64).min(link_room).min(stream_room) as usize;
        if take > 0 {
            outgoing.queue.push_back(split_to(bytes, take));
            outgoing.queued += take;
            self.queued += take as u64;
            self.taken += take as u64;
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
        if let Some(outgoing) = self.streams.get_mut(stream) {
            outgoing.is_finished = true;
            if !outgoing.is_last_cut {
                self.ready.insert(outgoing.rank, stream);
            }
        }
    }

    /// Forgets a stream; returns how many of its bytes were given to a carrier, nothing if there is no such stream.
    pub(super) fn reset(&mut self, stream: StreamNumber) -> Option<u64> {
        self.stopped.remove(&stream);
        let outgoing = self.streams.remove(stream)?;
        self.ready.remove(outgoing.rank, stream);
        self.queued -= outgoing.queued as u64;
        self.taken -= outgoing.queued as u64;
        self.unacknowledged -= outgoing.chunks.iter().map(Chunk::size).sum::<u64>();
        self.again -= outgoing
            .chunks
            .iter()
            .skip(outgoing.given)
            .map(Chunk::size)
            .sum::<u64>();
        Some(outgoing.offset)
    }

    /// Takes in that the peer wants no more of a stream; returns how many of its bytes were given to a carrier.
    pub(super) fn handle_stop(&mut self, stream: StreamNumber, code: StreamCode) -> Option<u64> {
        let offset = self.reset(stream)?;
        self.stopped.insert(stream, code);
        if self.stopped.len() > STOPS_KEPT {
            self.stopped.pop_first();
        }
        Some(offset)
    }

    /// Takes in that the peer has the oldest chunk of a stream; returns whether that was its last.
    pub(super) fn handle_acknowledged(&mut self, stream: StreamNumber) -> bool {
        // A stream that was reset since is no longer here.
        let Some(outgoing) = self.streams.get_mut(stream) else {
            return false;
        };
        let Some(chunk) = outgoing.chunks.pop_front() else {
            return false;
        };
        outgoing.given = outgoing.given.saturating_sub(1);
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
        outgoing.told_room(stream)
    }

    pub(super) fn handle_total(&mut self, limit: u64) {
        self.total_limit = self.total_limit.max(limit);
    }

    pub(super) fn handle_streams(&mut self, limit: u64) {
        self.streams_limit = self.streams_limit.max(limit);
    }

    /// Returns whether a stream number was given out.
    pub(super) const fn is_known(&self, stream: StreamNumber) -> bool {
        stream.0 < self.next
    }

    /// Returns whether someone waits for room on the link and there is some; he is told once.
    pub(super) fn poll_room(&mut self) -> bool {
        // A whole queue, so that a writer is not woken for a byte.
        let has_room = self.room() >= QUEUE_BYTES_MAX as u64 && self.next < self.streams_limit;
        let is_told = self.wants_room && has_room;
        self.wants_room &= !is_told;
        is_told
    }

    /// Begins every row of chunks again; returns how many bytes are in them.
    pub(super) fn rewind(&mut self) -> u64 {
        let before = self.again;
        let mut ready = Vec::new();
        for (stream, outgoing) in self.streams.iter_mut() {
            let given = outgoing.chunks.iter().take(outgoing.given);
            self.again += given.map(Chunk::size).sum::<u64>();
            outgoing.given = 0;
            if outgoing.has_more() {
                ready.push((outgoing.rank, stream));
            }
        }
        self.ready.extend(ready);
        self.again - before
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

    /// Gives out the next datagram, if the credit is enough for it.
    pub(super) fn poll_datagram(&mut self, credit: u64) -> Option<Frame> {
        let bytes = self.datagrams.front()?;
        if (bytes.len() as u64) > credit {
            return None;
        }
        let bytes = self.datagrams.pop_front()?;
        self.datagram_bytes -= bytes.len() + DATAGRAM_OVERHEAD_BYTES;
        Some(Frame::Datagram { bytes })
    }

    /// Appends the next chunk of the stream with the highest rank, if the credit is worth it; returns of which it is.
    pub(super) fn poll_chunk(
        &mut self,
        credit: u64,
        chunk_bytes: usize,
        out: &mut Out,
    ) -> Option<StreamNumber> {
        let (rank, stream) = self.ready.first()?;
        let outgoing = self.streams.get_mut(stream)?;
        // Half a packet, so that the headers of the frames before it do not cost a whole one.
        let least = outgoing
            .next_bytes()
            .clamp(1, u64::from(CHUNK_BYTES_MIN) / 2);
        if credit < least {
            return None;
        }
        let bytes_max = chunk_bytes.min(usize::try_from(credit).unwrap_or(usize::MAX));
        if outgoing.given == outgoing.chunks.len() {
            let chunk = outgoing.cut(bytes_max);
            self.queued -= chunk.size();
            self.unacknowledged += chunk.size();
            outgoing.chunks.push_back(chunk);
        } else {
            outgoing.split(bytes_max);
            self.again -= outgoing.chunks[outgoing.given].size();
        }
        let chunk = outgoing.chunks.get(outgoing.given)?;
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
        outgoing.given += 1;
        if !outgoing.has_more() {
            self.ready.remove(rank, stream);
        }
        Some(stream)
    }

    /// Says once that a stream has room again after a chunk left.
    pub(super) fn poll_writable(&mut self, stream: StreamNumber) -> Option<Event> {
        self.streams.get_mut(stream)?.told_room(stream)
    }

    /// Returns whether anything waits for credit.
    pub(super) fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.datagrams.is_empty()
    }

    /// Returns how many bytes wait to be cut into chunks, or sent again.
    pub(super) const fn queued(&self) -> u64 {
        self.queued + self.again + self.datagram_bytes as u64
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
        let peers = self.total_limit.saturating_sub(self.taken);
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

/// Keeps an empty place for later, unless it is large or there are enough.
fn keep<T>(spares: &mut Vec<VecDeque<T>>, place: VecDeque<T>) {
    let is_fit = (1..=SPARE_PLACES_MAX).contains(&place.capacity());
    if is_fit && spares.len() < SPARES_MAX {
        spares.push(place);
    }
}

impl Outgoing {
    fn new(rank: i32, spares: &mut Spares) -> Self {
        Self {
            rank,
            queue: spares.pieces.pop().unwrap_or_default(),
            queued: 0,
            chunks: spares.chunks.pop().unwrap_or_default(),
            given: 0,
            offset: 0,
            limit: STREAM_WINDOW_BYTES,
            is_finished: false,
            is_last_cut: false,
            wants_room: false,
        }
    }

    fn room(&self) -> u64 {
        let peers = self.limit.saturating_sub(self.offset + self.queued as u64);
        peers.min((QUEUE_BYTES_MAX - self.queued) as u64)
    }

    fn told_room(&mut self, stream: StreamNumber) -> Option<Event> {
        let has_room = self.wants_room && self.room() >= QUEUE_BYTES_MAX as u64 / 2;
        has_room.then(|| {
            self.wants_room = false;
            Event::Writable(stream)
        })
    }

    fn has_more(&self) -> bool {
        self.given < self.chunks.len() || self.queued > 0 || (self.is_finished && !self.is_last_cut)
    }

    /// Returns how many bytes the next chunk has at most.
    fn next_bytes(&self) -> u64 {
        self.chunks
            .get(self.given)
            .map_or(self.queued as u64, Chunk::size)
    }

    /// Takes a chunk off the queue.
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
            is_last: self.is_finished && self.queued == 0,
            pieces,
            bytes,
        };
        self.offset += chunk.size();
        self.is_last_cut = chunk.is_last;
        chunk
    }

    /// Makes the next chunk to be given again no longer than this: it was cut for another carrier.
    fn split(&mut self, bytes_max: usize) {
        let Some(chunk) = self.chunks.get_mut(self.given) else {
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
        self.chunks.insert(self.given + 1, tail);
    }
}

impl Chunk {
    const fn size(&self) -> u64 {
        self.bytes as u64
    }
}

/// Takes the first so many bytes, or all, in the pieces in which they lie.
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

/// Puts many small pieces together: to keep each until it is acknowledged costs more than its bytes.
fn compact(pieces: VecDeque<Bytes>, bytes: usize) -> VecDeque<Bytes> {
    if pieces.len() <= PIECES_FEW + bytes / PIECE_BYTES {
        return pieces;
    }
    let mut whole = BytesMut::with_capacity(bytes);
    whole.extend(pieces);
    VecDeque::from([whole.freeze()])
}

/// Takes the first bytes; all of them without one more owner, whom to count costs something where many share them.
fn split_to(bytes: &mut Bytes, count: usize) -> Bytes {
    if count == bytes.len() {
        core::mem::take(bytes)
    } else {
        bytes.split_to(count)
    }
}
