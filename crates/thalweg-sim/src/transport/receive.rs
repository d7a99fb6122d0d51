//! Reception of a peer's streams and datagrams.
//!
//! Each stream is read as far as it has come. Its first byte names its kind, and every whole part of it
//! becomes an event: a frame, a header, a chunk. The port buffers only pieces of a header or a frame; a
//! held ADU stays in QUIC, where flow control bounds it.
//!
//! A bad stream is stopped and counted, and does not end the connection. Only a broken control stream
//! ends the link, because the ends can no longer agree on anything.
//!
//! *Sources.* `thalweg-net` `link/receive.rs`, `link/body.rs` and `link/reader.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use noq_proto::{Dir, ReadError, StreamId};
use thalweg_base::limits::{ADU_HEADER_BYTES_MAX, CONTROL_BYTES_MAX};
use thalweg_base::time::Instant;
use thalweg_base::trace::Trace;
use thalweg_base::wire::adu::{decode_header, decode_trace, window};
use thalweg_link::hop::{BodyError, KIND_ADU, KIND_CONTROL, KIND_ORDERED, StreamCode};

use super::event::{PortEvent, RecvId};
use super::io::Io;
use super::quic::varint;

/// The receiving side of one connection.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    streams: BTreeMap<StreamId, Incoming>,
    /// The stream on which each ADU arrives.
    arriving: BTreeMap<RecvId, StreamId>,
    deadlines: BTreeSet<(Instant, RecvId)>,
    /// Whether the peer's control stream has begun; before that, only this stream is read.
    is_greeted: bool,
    /// Whether other streams may be accepted.
    is_begun: bool,
}

/// A stream opened by the peer.
#[derive(Debug, Default)]
struct Incoming {
    kind: Option<u8>,
    chunks: VecDeque<Bytes>,
    buffered_bytes: usize,
    is_ended: bool,
    current: Option<Current>,
    is_held: bool,
}

/// The ADU that is arriving on a stream.
#[derive(Clone, Copy, Debug)]
struct Current {
    recv: RecvId,
    missing: usize,
    deadline: Instant,
    /// Refused on an ordered stream: the rest is read and discarded.
    is_skipped: bool,
}

/// The result of one parsing step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Something was taken; there may be more.
    On,
    /// More bytes are needed.
    Wait,
    /// The stream is over.
    Over,
}

impl Receiver {
    pub(super) fn is_greeted(&self) -> bool {
        self.is_greeted
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.deadlines
            .first()
            .map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// Accepts everything from now on.
    pub(super) fn begin(&mut self, io: &mut Io<'_>) {
        self.is_begun = true;
        self.accept(io);
        let streams: Vec<_> = self.streams.keys().copied().collect();
        for stream in streams {
            self.advance(io, stream);
        }
    }

    /// Accepts the streams that the peer has opened.
    pub(super) fn accept(&mut self, io: &mut Io<'_>) {
        while self.is_begun || self.streams.is_empty() && !self.is_greeted {
            let Some(stream) = io.quic.streams().accept(Dir::Uni) else {
                return;
            };
            self.streams.insert(stream, Incoming::default());
            self.read(io, stream);
        }
    }

    /// Reads a stream as far as it has come.
    pub(super) fn read(&mut self, io: &mut Io<'_>, stream: StreamId) {
        let Some(incoming) = self.streams.get_mut(&stream) else {
            return;
        };
        if incoming.is_held {
            return;
        }
        let reset = incoming.fill(io, stream);
        self.advance(io, stream);
        if let Some(code) = reset {
            self.handle_reset(io, stream, code);
        }
    }

    /// Stops ADUs that are past their deadline and not whole.
    pub(super) fn expire(&mut self, io: &mut Io<'_>) {
        while let Some((deadline, recv)) = self.deadlines.first().copied()
            && deadline <= io.now
        {
            self.stop_adu(io, recv, StreamCode::Expired);
            io.failed(recv, BodyError::Expired);
        }
    }

    pub(super) fn refuse(&mut self, io: &mut Io<'_>, recv: RecvId, code: StreamCode) {
        let Some(stream) = self.arriving.get(&recv).copied() else {
            return;
        };
        let Some(incoming) = self.streams.get_mut(&stream) else {
            return;
        };
        if incoming.kind == Some(KIND_ADU) {
            return self.stop_adu(io, recv, code);
        }
        if let Some(current) = &mut incoming.current {
            current.is_skipped = true;
            incoming.is_held = false;
            self.arriving.remove(&recv);
            self.read(io, stream);
        }
    }

    pub(super) fn hold(&mut self, recv: RecvId) {
        if let Some(incoming) = self.incoming(recv) {
            incoming.is_held = true;
        }
    }

    pub(super) fn resume(&mut self, io: &mut Io<'_>, recv: RecvId) {
        if let Some(incoming) = self.incoming(recv) {
            incoming.is_held = false;
            let stream = self.arriving[&recv];
            self.read(io, stream);
        }
    }

    fn incoming(&mut self, recv: RecvId) -> Option<&mut Incoming> {
        let stream = self.arriving.get(&recv)?;
        self.streams.get_mut(stream)
    }

    /// Ends everything that is still arriving, in order of arrival.
    pub(super) fn lose(&mut self, io: &mut Io<'_>) {
        for recv in std::mem::take(&mut self.arriving).into_keys() {
            io.failed(recv, BodyError::LinkLost);
        }
        self.streams.clear();
        self.deadlines.clear();
    }

    /// Stops the stream of one ADU.
    fn stop_adu(&mut self, io: &mut Io<'_>, recv: RecvId, code: StreamCode) {
        let Some(stream) = self.arriving.get(&recv).copied() else {
            return;
        };
        self.forget(stream);
        // An error means that the stream is over already.
        let _ = io.quic.recv_stream(stream).stop(varint(code));
    }

    fn forget(&mut self, stream: StreamId) {
        let current = self.streams.remove(&stream).and_then(|s| s.current);
        if let Some(current) = current {
            self.arriving.remove(&current.recv);
            self.deadlines.remove(&(current.deadline, current.recv));
        }
    }

    fn handle_reset(&mut self, io: &mut Io<'_>, stream: StreamId, code: StreamCode) {
        let Some(incoming) = self.streams.get(&stream) else {
            return;
        };
        match incoming.kind {
            Some(KIND_CONTROL) => io.fault("control stream broken"),
            None if !self.is_greeted => io.fault("control stream broken"),
            _ => match incoming.current {
                Some(current) if !current.is_skipped => {
                    io.failed(current.recv, BodyError::Reset(code));
                }
                Some(_) => {}
                None => io.shared.counters.abandoned += 1,
            },
        }
        self.forget(stream);
    }

    /// Turns the buffered bytes of a stream into events.
    fn advance(&mut self, io: &mut Io<'_>, stream: StreamId) {
        loop {
            let Some(incoming) = self.streams.get_mut(&stream) else {
                return;
            };
            if incoming.is_held {
                return;
            }
            let step = match incoming.kind {
                None => self.take_kind(io, stream),
                // Control frames wait until the link is up.
                Some(KIND_CONTROL) if !self.is_begun => Step::Wait,
                Some(KIND_CONTROL) => incoming.take_frame(io),
                Some(_) if incoming.current.is_some() => self.take_payload(io, stream),
                Some(_) => self.take_header(io, stream),
            };
            match step {
                Step::On => {}
                Step::Wait => return,
                Step::Over => return self.forget(stream),
            }
        }
    }

    fn take_kind(&mut self, io: &mut Io<'_>, stream: StreamId) -> Step {
        let Some(incoming) = self.streams.get_mut(&stream) else {
            return Step::Over;
        };
        let Some(kind) = incoming.take(1).first().copied() else {
            if !incoming.is_ended {
                return Step::Wait;
            }
            if self.is_greeted {
                io.shared.counters.malformed += 1;
            } else {
                io.fault("the first stream is empty");
            }
            return Step::Over;
        };
        match kind {
            KIND_CONTROL if !self.is_greeted => self.is_greeted = true,
            _ if !self.is_greeted => {
                io.fault("the first stream is not the control stream");
                return Step::Over;
            }
            KIND_ADU | KIND_ORDERED => {}
            _ => {
                io.shared.counters.unknown_kinds += 1;
                let _ = io
                    .quic
                    .recv_stream(stream)
                    .stop(varint(StreamCode::Protocol));
                return Step::Over;
            }
        }
        incoming.kind = Some(kind);
        Step::On
    }

    fn take_header(&mut self, io: &mut Io<'_>, stream: StreamId) -> Step {
        let Some(incoming) = self.streams.get_mut(&stream) else {
            return Step::Over;
        };
        let mut head = [0; ADU_HEADER_BYTES_MAX];
        let mut bytes = incoming.peek(&mut head);
        // Only a traced header needs a larger buffer.
        let mut traced = Vec::new();
        let mut head = &head[..];
        if window(&head[..bytes]) > head.len() {
            traced.resize(window(&head[..bytes]), 0);
            bytes = incoming.peek(&mut traced);
            head = &traced;
        }
        let head = &head[..bytes];
        let decoded = match decode_header(head, io.now) {
            Ok(Some(decoded)) => decoded,
            Ok(None) if !incoming.is_ended => return Step::Wait,
            // An ordered stream ends after its last ADU, or within one that its sender cancelled.
            Ok(None) if incoming.kind == Some(KIND_ORDERED) => return Step::Over,
            _ => {
                io.shared.counters.malformed += 1;
                let _ = io
                    .quic
                    .recv_stream(stream)
                    .stop(varint(StreamCode::Protocol));
                return Step::Over;
            }
        };
        incoming.skip(decoded.header_bytes);
        let recv = io.shared.next_recv();
        let trace = decode_trace(head, &decoded, io.now);
        let is_alone = incoming.kind == Some(KIND_ADU);
        let current = Current {
            recv,
            missing: decoded.payload_bytes,
            deadline: decoded.header.deadline,
            is_skipped: false,
        };
        incoming.current = Some(current);
        self.arriving.insert(recv, stream);
        if is_alone && !current.deadline.is_never() {
            self.deadlines.insert((current.deadline, recv));
        }
        io.shared.counters.received += 1;
        io.shared.events.push_back(PortEvent::Adu {
            recv,
            header: decoded.header,
            payload_bytes: decoded.payload_bytes,
        });
        io.shared.events.extend(stamps(recv, trace));
        Step::On
    }

    fn take_payload(&mut self, io: &mut Io<'_>, stream: StreamId) -> Step {
        let Some(incoming) = self.streams.get_mut(&stream) else {
            return Step::Over;
        };
        let Some(mut current) = incoming.current else {
            return Step::Over;
        };
        while current.missing > 0 && incoming.buffered_bytes > 0 {
            let bytes = incoming.take(current.missing);
            current.missing -= bytes.len();
            if !current.is_skipped {
                let recv = current.recv;
                io.shared.events.push_back(PortEvent::Chunk { recv, bytes });
            }
        }
        incoming.current = Some(current);
        let is_alone = incoming.kind == Some(KIND_ADU);
        if current.missing == 0 {
            if !current.is_skipped {
                let recv = current.recv;
                io.shared.events.push_back(PortEvent::End { recv });
            }
            self.arriving.remove(&current.recv);
            self.deadlines.remove(&(current.deadline, current.recv));
            incoming.current = None;
            if !is_alone {
                return Step::On;
            }
            if incoming.buffered_bytes > 0 || !incoming.is_ended {
                let code = match incoming.buffered_bytes {
                    0 => StreamCode::Whole,
                    _ => StreamCode::Protocol,
                };
                let _ = io.quic.recv_stream(stream).stop(varint(code));
            }
            return Step::Over;
        }
        if !incoming.is_ended {
            return Step::Wait;
        }
        if !current.is_skipped {
            let missing = current.missing;
            let cause = if is_alone {
                BodyError::Truncated { missing }
            } else {
                BodyError::Reset(StreamCode::Cancelled)
            };
            io.failed(current.recv, cause);
        }
        Step::Over
    }
}

impl Incoming {
    /// Moves arrived bytes out of QUIC; returns the code if the peer has reset the stream.
    fn fill(&mut self, io: &mut Io<'_>, stream: StreamId) -> Option<StreamCode> {
        let mut incoming = io.quic.recv_stream(stream);
        let Ok(mut chunks) = incoming.read(true) else {
            return None;
        };
        let reset = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.buffered_bytes += chunk.bytes.len();
                    self.chunks.push_back(chunk.bytes);
                }
                Ok(None) => {
                    self.is_ended = true;
                    break None;
                }
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => {
                    break Some(StreamCode::from_number(code.into_inner()));
                }
            }
        };
        // Flow-control updates go out at the next `poll_datagram`, like everything else.
        let _ = chunks.finalize();
        reset
    }

    /// Returns the next bytes, at most `bytes_max` of them; empty if there are none.
    fn take(&mut self, bytes_max: usize) -> Bytes {
        let Some(first) = self.chunks.front_mut() else {
            return Bytes::new();
        };
        let bytes = if first.len() > bytes_max {
            first.split_to(bytes_max)
        } else {
            self.chunks.pop_front().unwrap_or_default()
        };
        self.buffered_bytes -= bytes.len();
        bytes
    }

    /// Copies the next bytes without consuming them; returns how many there were.
    fn peek(&self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        for chunk in &self.chunks {
            let bytes = chunk.len().min(out.len() - filled);
            out[filled..filled + bytes].copy_from_slice(&chunk[..bytes]);
            filled += bytes;
            if filled == out.len() {
                break;
            }
        }
        filled
    }

    fn skip(&mut self, mut bytes: usize) {
        while bytes > 0 {
            bytes -= self.take(bytes).len();
        }
    }

    /// Takes a control frame.
    fn take_frame(&mut self, io: &mut Io<'_>) -> Step {
        let mut length = [0; 4];
        let is_known = self.peek(&mut length) == length.len();
        let bytes = u32::from_be_bytes(length) as usize;
        if is_known && bytes > CONTROL_BYTES_MAX {
            io.shared.counters.malformed += 1;
            io.fault("control frame above the limit");
            return Step::Over;
        }
        if is_known && self.buffered_bytes >= length.len() + bytes {
            self.skip(length.len());
            let mut frame = BytesMut::with_capacity(bytes);
            while frame.len() < bytes {
                frame.extend_from_slice(&self.take(bytes - frame.len()));
            }
            let event = PortEvent::Control(frame.freeze());
            io.shared.events.push_back(event);
            return Step::On;
        }
        if !self.is_ended {
            return Step::Wait;
        }
        io.shared.events.push_back(PortEvent::PeerDone);
        Step::Over
    }
}

/// Returns the event with the stamps of an ADU, if it is traced.
fn stamps(recv: RecvId, trace: Option<Trace>) -> Option<PortEvent> {
    let trace = trace.map(Box::new);
    trace.map(|trace| PortEvent::Stamps { recv, trace })
}

/// Takes a datagram: one whole ADU.
pub(super) fn take_datagram(io: &mut Io<'_>, mut datagram: Bytes) {
    let decoded = match decode_header(&datagram, io.now) {
        Ok(Some(decoded)) if decoded.header_bytes + decoded.payload_bytes == datagram.len() => {
            decoded
        }
        _ => {
            io.shared.counters.malformed += 1;
            return;
        }
    };
    io.shared.counters.received += 1;
    let recv = io.shared.next_recv();
    let payload = datagram.split_off(decoded.header_bytes);
    let trace = decode_trace(&datagram, &decoded, io.now);
    let events = &mut io.shared.events;
    events.push_back(PortEvent::Adu {
        recv,
        header: decoded.header,
        payload_bytes: decoded.payload_bytes,
    });
    events.extend(stamps(recv, trace));
    if !payload.is_empty() {
        let bytes = payload;
        events.push_back(PortEvent::Chunk { recv, bytes });
    }
    events.push_back(PortEvent::End { recv });
}
