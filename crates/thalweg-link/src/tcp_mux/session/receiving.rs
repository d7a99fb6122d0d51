//! The streams that this end receives.
//!
//! *The idea.* Each stream has a receive window, and all streams together have another. Both are
//! extended when half of them has been read, so that an unread stream costs the others nothing
//! until the common window is full. A stream below `next` that is not in the table is over, and a
//! frame for it is a duplicate.
//!
//! *What it does not do.* It never blocks.
//!
//! *Sources.* RFC 9000 §4.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::values::{Read, SessionError};
use crate::hop::StreamCode;
use crate::outbox::CHUNK_BYTES_MIN;
use crate::tcp_mux::frame::{Frame, StreamNumber};
use crate::tcp_mux::numbered::Numbered;
use crate::tcp_mux::settings::{
    DATAGRAM_BUFFER_BYTES, DATAGRAM_OVERHEAD_BYTES, SESSION_WINDOW_BYTES, STREAM_WINDOW_BYTES,
    STREAMS_MAX,
};

#[derive(Debug)]
pub(super) struct ReceiveStreams {
    streams: Numbered<StreamNumber, ReceiveStream>,
    next: u64,
    streams_advertised: u64,
    ended: u64,
    received: u64,
    consumed: u64,
    advertised: u64,
    datagrams: VecDeque<Bytes>,
    datagram_bytes: usize,
    datagrams_dropped: u64,
    duplicate_bytes: u64,
}

#[derive(Debug)]
struct ReceiveStream {
    pieces: VecDeque<BytesMut>,
    received: u64,
    consumed: u64,
    advertised: u64,
    last: Option<u64>,
    end: Option<EarlyEnd>,
}

/// Why a stream ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyEnd {
    Reset(StreamCode),
    Stopped,
}

impl ReceiveStreams {
    pub(super) const fn new() -> Self {
        Self {
            streams: Numbered::new(),
            next: 0,
            streams_advertised: STREAMS_MAX,
            ended: 0,
            received: 0,
            consumed: 0,
            advertised: SESSION_WINDOW_BYTES,
            datagrams: VecDeque::new(),
            datagram_bytes: 0,
            datagrams_dropped: 0,
            duplicate_bytes: 0,
        }
    }

    /// Handles the opening of a stream; returns whether it is new.
    pub(super) fn handle_open(&mut self, stream: StreamNumber) -> Result<bool, SessionError> {
        // A duplicate after a fail-over.
        if stream.0 < self.next {
            return Ok(false);
        }
        if stream.0 > self.next {
            let expected = self.next;
            return Err(SessionError::Order { stream, expected });
        }
        check(
            "the number of streams",
            stream.0 + 1,
            self.streams_advertised,
        )?;
        self.next += 1;
        self.streams.insert(stream, ReceiveStream::new());
        Ok(true)
    }

    /// Handles bytes of a stream; returns whether it became readable.
    pub(super) fn handle_data(
        &mut self,
        stream: StreamNumber,
        offset: u64,
        is_last: bool,
        bytes: &[u8],
    ) -> Result<bool, SessionError> {
        let Some(incoming) = self.open_stream(stream)? else {
            self.duplicate_bytes += bytes.len() as u64;
            return Ok(false);
        };
        let end = offset.saturating_add(bytes.len() as u64);
        if offset > incoming.received {
            let expected = incoming.received;
            return Err(SessionError::Gap {
                stream,
                offset,
                expected,
            });
        }
        // A stream ends once: no byte beyond its end, and no second end elsewhere.
        let is_beyond = incoming.last.is_some_and(|last| end > last);
        if is_beyond
            || (is_last
                && (end < incoming.received || incoming.last.is_some_and(|last| last != end)))
        {
            return Err(SessionError::TwoEnds(stream));
        }
        check("a stream", end, incoming.advertised)?;
        let was_readable = incoming.is_readable();
        // Bytes that a resent chunk repeats are skipped by offset.
        let known = incoming.received - offset;
        let news = bytes.get(known as usize..).unwrap_or_default();
        let fresh = news.len() as u64;
        incoming.received += fresh;
        if is_last {
            incoming.last = Some(end);
        }
        let is_stopped = incoming.end == Some(EarlyEnd::Stopped);
        if is_stopped {
            incoming.consumed += fresh;
        } else {
            incoming.append(news);
        }
        let is_readable = !was_readable && incoming.is_readable();
        let is_done = is_stopped && incoming.is_consumed();
        self.duplicate_bytes += bytes.len() as u64 - fresh;
        self.received += fresh;
        check("the bytes of all streams", self.received, self.advertised)?;
        if is_stopped {
            self.consumed += fresh;
        }
        if is_done {
            self.forget(stream);
        }
        Ok(is_readable && !is_stopped)
    }

    /// Handles a reset by the sender; returns whether the stream became readable.
    pub(super) fn handle_reset(
        &mut self,
        stream: StreamNumber,
        code: StreamCode,
        offset: u64,
    ) -> Result<bool, SessionError> {
        let Some(incoming) = self.open_stream(stream)? else {
            return Ok(false);
        };
        if offset < incoming.received || incoming.last.is_some_and(|last| offset > last) {
            return Err(SessionError::TwoEnds(stream));
        }
        check("a stream", offset, incoming.advertised)?;
        // A duplicate after a fail-over.
        if matches!(incoming.end, Some(EarlyEnd::Reset(_))) {
            return Ok(false);
        }
        let (skipped, unread) = (offset - incoming.received, offset - incoming.consumed);
        let was_stopped = incoming.end.is_some();
        incoming.received = offset;
        incoming.consumed = offset;
        incoming.last = Some(offset);
        incoming.pieces = VecDeque::new();
        incoming.end = Some(EarlyEnd::Reset(code));
        self.received += skipped;
        check("the bytes of all streams", self.received, self.advertised)?;
        self.consumed += unread;
        if was_stopped {
            self.forget(stream);
        }
        Ok(!was_stopped)
    }

    pub(super) fn handle_datagram(&mut self, datagram: Bytes) {
        self.datagram_bytes += datagram.len() + DATAGRAM_OVERHEAD_BYTES;
        self.datagrams.push_back(datagram);
        // Drop the oldest: it is the most likely to be too late.
        while self.datagram_bytes > DATAGRAM_BUFFER_BYTES {
            self.poll_datagram();
            self.datagrams_dropped += 1;
        }
    }

    pub(super) fn poll_datagram(&mut self) -> Option<Bytes> {
        let datagram = self.datagrams.pop_front()?;
        self.datagram_bytes -= datagram.len() + DATAGRAM_OVERHEAD_BYTES;
        Some(datagram)
    }

    /// Returns the next bytes of a stream; window updates are appended to `control`.
    pub(super) fn read(&mut self, stream: StreamNumber, control: &mut VecDeque<Frame>) -> Read {
        let Some(incoming) = self.streams.get_mut(stream) else {
            return Read::Unknown;
        };
        match incoming.end {
            Some(EarlyEnd::Stopped) => return Read::Unknown,
            Some(EarlyEnd::Reset(code)) => {
                self.forget(stream);
                self.advertise(control);
                return Read::Reset(code);
            }
            None => {}
        }
        let Some(piece) = incoming.pieces.pop_front() else {
            if !incoming.is_consumed() {
                return Read::Blocked;
            }
            self.forget(stream);
            self.advertise(control);
            return Read::Finished;
        };
        incoming.consumed += piece.len() as u64;
        self.consumed += piece.len() as u64;
        // A stream with a known end needs no more window.
        if incoming.last.is_none()
            && incoming.advertised - incoming.consumed <= STREAM_WINDOW_BYTES / 2
        {
            incoming.advertised = incoming.consumed + STREAM_WINDOW_BYTES;
            let limit = incoming.advertised;
            control.push_back(Frame::Window { stream, limit });
        }
        self.advertise(control);
        Read::Bytes(piece.freeze())
    }

    /// Stops a stream; returns whether the sender is to be notified.
    pub(super) fn stop(&mut self, stream: StreamNumber, control: &mut VecDeque<Frame>) -> bool {
        let Some(incoming) = self.streams.get_mut(stream) else {
            return false;
        };
        match incoming.end {
            Some(EarlyEnd::Stopped) => return false,
            Some(EarlyEnd::Reset(_)) => {
                self.forget(stream);
                self.advertise(control);
                return false;
            }
            None => {}
        }
        // Dropped bytes count as read, so that the window for other streams grows.
        self.consumed += incoming.received - incoming.consumed;
        incoming.consumed = incoming.received;
        incoming.pieces = VecDeque::new();
        incoming.end = Some(EarlyEnd::Stopped);
        let is_whole = incoming.is_consumed();
        if is_whole {
            self.forget(stream);
        }
        self.advertise(control);
        !is_whole
    }

    /// Returns how many bytes of a stream have arrived and are unread.
    #[cfg(test)]
    pub(super) fn unread_bytes(&self, stream: StreamNumber) -> u64 {
        let incoming = self.streams.get(stream);
        incoming.map_or(0, |incoming| incoming.received - incoming.consumed)
    }

    /// Returns whether no stream is open.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) const fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    pub(super) const fn datagrams_dropped(&self) -> u64 {
        self.datagrams_dropped
    }

    /// Extends the common window and the stream limit, once half of each is used.
    pub(super) fn advertise(&mut self, control: &mut VecDeque<Frame>) {
        if self.advertised - self.consumed <= SESSION_WINDOW_BYTES / 2 {
            self.advertised = self.consumed + SESSION_WINDOW_BYTES;
            control.push_back(Frame::Total {
                limit: self.advertised,
            });
        }
        if self.streams_advertised - self.ended <= STREAMS_MAX / 2 {
            self.streams_advertised = self.ended + STREAMS_MAX;
            let limit = self.streams_advertised;
            control.push_back(Frame::Streams { limit });
        }
    }

    /// Returns a stream that is not over; an error if it was never opened.
    fn open_stream(
        &mut self,
        stream: StreamNumber,
    ) -> Result<Option<&mut ReceiveStream>, SessionError> {
        if stream.0 >= self.next {
            return Err(SessionError::NeverOpened(stream));
        }
        Ok(self.streams.get_mut(stream))
    }

    fn forget(&mut self, stream: StreamNumber) {
        if self.streams.remove(stream).is_some() {
            self.ended += 1;
        }
    }
}

impl ReceiveStream {
    const fn new() -> Self {
        Self {
            pieces: VecDeque::new(),
            received: 0,
            consumed: 0,
            advertised: STREAM_WINDOW_BYTES,
            last: None,
            end: None,
        }
    }

    fn is_readable(&self) -> bool {
        !self.pieces.is_empty() || self.last.is_some()
    }

    fn is_consumed(&self) -> bool {
        self.last == Some(self.consumed)
    }

    /// Stores bytes; small pieces are joined, for each piece has an overhead above its size.
    fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.pieces.back_mut() {
            Some(last) if last.len() + bytes.len() <= CHUNK_BYTES_MIN as usize => {
                last.extend_from_slice(bytes);
            }
            _ => self.pieces.push_back(BytesMut::from(bytes)),
        }
    }
}

fn check(what: &'static str, value: u64, limit: u64) -> Result<(), SessionError> {
    if value <= limit {
        Ok(())
    } else {
        Err(SessionError::AboveLimit { what, value, limit })
    }
}
