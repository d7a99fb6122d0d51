//! Sending ADUs: the queues before the sender, and the sender on a virtual connection.
//!
//! [`thalweg_link::hop::sender`] does the same as in the node. What the node's tasks wait for outside
//! of it is two queues here: ADUs that must be whole first, and ADUs that wait for room rather than
//! being dropped.
//!
//! ```text
//! gathering ─► waiting (room) ─► the sender ─► an outcome
//! ```
//!
//! *Sources.* `thalweg-net` `link/sending.rs`, `link/sender.rs`.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use noq_proto::{Connection, StreamId, WriteError};
use thalweg_base::adu::Header;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::DataSize;
use thalweg_link::congestion::Carried;
use thalweg_link::hop::sender::room::{ROOM_KIB, may_wait, room_kib};
use thalweg_link::hop::sender::{Arrived, Event, Sender, Ticket};
use thalweg_link::hop::{Carriage, OrderedId, Outcome, SendOptions, StreamCode};
use thalweg_link::outbox::Settings;

use super::event::{PortEvent, SendId, Source};
use super::io::Io;
use super::quic::Streams;

/// The sending side of one connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender<StreamId, SendId>,
    streams: Streams,
    /// ADUs in the sender, each with the room that it occupies there, in KiB.
    tickets: BTreeMap<SendId, (Ticket, u32)>,
    /// ADUs that are not in the sender yet.
    before: BTreeMap<SendId, Before>,
    /// Of these, the ADUs that wait for room, first come first served.
    waiting: VecDeque<SendId>,
    room_kib: u32,
}

/// An ADU that is not in the sender yet.
#[derive(Debug)]
struct Before {
    header: Header,
    options: SendOptions,
    arrived: Arrived,
    missing: usize,
}

/// The result of writing to a stream.
pub(super) enum Written {
    All,
    Blocked,
    Closed,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            sender: Sender::new(Settings::default()),
            streams: Streams::default(),
            tickets: BTreeMap::new(),
            before: BTreeMap::new(),
            waiting: VecDeque::new(),
            room_kib: ROOM_KIB,
        }
    }
}

impl Outgoing {
    /// Returns the number of ADUs without an outcome.
    pub(super) fn in_flight(&self) -> u32 {
        (self.tickets.len() + self.before.len()) as u32
    }

    /// Primes the congestion controller with what an earlier connection on this path has learned.
    pub(super) fn recall(&mut self, connection: &mut Connection, carried: Carried) {
        self.streams.recall(connection, carried);
    }

    /// Returns what is worth keeping of the path for the next connection.
    pub(super) fn to_keep(&self) -> Option<Carried> {
        self.streams.to_keep()
    }

    /// Returns the bytes in packets that are neither acknowledged nor lost.
    pub(super) fn bytes_in_flight(&self) -> DataSize {
        self.streams.in_flight()
    }

    /// Returns since when an acknowledgement is awaited.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.streams.waiting_since()
    }

    /// Returns whether the congestion window is full.
    pub(super) fn is_full(&self) -> bool {
        self.streams.is_full()
    }

    /// Returns the number of acknowledgements from the peer.
    pub(super) fn heard(&self) -> u64 {
        self.streams.heard()
    }

    /// Returns the recent minimum round-trip time; zero if none was measured.
    pub(super) fn rtt_min(&self) -> Duration {
        self.streams.rtt_min()
    }

    /// Returns the round-trip time of the last acknowledged packet; zero if none.
    pub(super) fn rtt_latest(&self) -> Duration {
        self.streams.rtt_latest()
    }

    /// Returns the room left for ADUs that would wait.
    pub(super) const fn room_kib(&self) -> u32 {
        self.room_kib
    }

    pub(super) fn is_idle(&self) -> bool {
        self.before.is_empty() && self.sender.is_empty()
    }

    /// Returns the bytes of ADUs that are not wholly handed to QUIC.
    pub(super) fn queued_bytes(&self) -> u64 {
        let here = |before: &Before| before.arrived.payload_bytes - before.missing;
        let before: usize = self.before.values().map(here).sum();
        self.sender.outbox().queued().as_bytes() + before as u64
    }

    /// Returns the bytes dropped because the path was full, since the last call.
    pub(super) fn take_crowded_out(&mut self) -> DataSize {
        self.sender.take_crowded_out()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.sender.poll_timeout()
    }

    /// Takes an ADU to send.
    pub(super) fn begin(
        &mut self,
        io: &mut Io<'_>,
        id: SendId,
        (header, trace): (Header, Option<Box<Trace>>),
        source: Source,
        options: SendOptions,
    ) {
        let mut arrived = match source {
            Source::Whole(payload) => payload.into(),
            Source::Arriving(payload_bytes) => Arrived {
                payload_bytes,
                ..Arrived::default()
            },
        };
        arrived.trace = trace;
        if arrived.payload_bytes > ADU_PAYLOAD_BYTES_MAX {
            return io.outcome(id, Outcome::TooLarge);
        }
        if header.is_expired(io.now) {
            return io.outcome(id, Outcome::Expired);
        }
        let before = Before {
            missing: arrived.payload_bytes - arrived.chunks.bytes(),
            header,
            options,
            arrived,
        };
        let is_ready = before.missing == 0 || options.carriage != Carriage::Datagram;
        self.before.insert(id, before);
        if is_ready {
            self.dispatch(io, id);
        }
    }

    /// Adds a chunk to a payload; returns whether its ADU is still being sent.
    pub(super) fn push_chunk(&mut self, io: &mut Io<'_>, id: SendId, chunk: Bytes) -> bool {
        if let Some((ticket, _)) = self.tickets.get(&id).copied() {
            let is_wanted = self.sender.push_chunk(ticket, chunk);
            self.pump(io);
            return is_wanted;
        }
        let Some(before) = self.before.get_mut(&id) else {
            return false;
        };
        assert!(
            chunk.len() <= before.missing,
            "{} bytes follow where {} were announced",
            chunk.len(),
            before.missing
        );
        before.missing -= chunk.len();
        before.arrived.chunks.push(chunk);
        if before.missing == 0 && !self.waiting.contains(&id) {
            self.dispatch(io, id);
        }
        self.tickets.contains_key(&id) || self.before.contains_key(&id)
    }

    /// Cancels an ADU.
    pub(super) fn cancel(&mut self, io: &mut Io<'_>, id: SendId, code: StreamCode) {
        let outcome = match code {
            StreamCode::Expired => Outcome::Expired,
            _ => Outcome::Cancelled,
        };
        if let Some((ticket, _)) = self.tickets.get(&id) {
            self.sender.cancel(*ticket, outcome);
            return self.pump(io);
        }
        if self.before.remove(&id).is_some() {
            self.waiting.retain(|waiting| *waiting != id);
            io.outcome(id, outcome);
        }
    }

    /// Ends everything with `LinkLost`, in the order of sending.
    pub(super) fn lose(&mut self, io: &mut Io<'_>) {
        self.sender.lose();
        self.report_events(io);
        self.waiting.clear();
        for id in std::mem::take(&mut self.before).into_keys() {
            io.outcome(id, Outcome::LinkLost);
        }
    }

    /// Ends an ordered sequence after what is queued.
    pub(super) fn finish_ordered(&mut self, io: &mut Io<'_>, id: OrderedId) {
        self.sender.finish_ordered(id);
        self.pump(io);
    }

    pub(super) fn finish_all_ordered(&mut self, io: &mut Io<'_>) {
        self.sender.finish_all_ordered();
        self.pump(io);
    }

    /// Passes an ADU to the sender, or to the queue for room.
    fn dispatch(&mut self, io: &mut Io<'_>, id: SendId) {
        let Some(before) = self.before.get(&id) else {
            return;
        };
        if may_wait(&before.header, &before.options) {
            self.waiting.push_back(id);
            return self.admit(io);
        }
        self.enter(io, id, 0);
        self.pump(io);
    }

    /// Admits ADUs that wait for room; called whenever an ADU may have ended.
    fn admit(&mut self, io: &mut Io<'_>) {
        let mut has_entered = false;
        while let Some(id) = self.waiting.front().copied() {
            let wanted = self
                .before
                .get(&id)
                .map_or(0, |before| room_kib(before.arrived.payload_bytes));
            if wanted > self.room_kib {
                break;
            }
            self.waiting.pop_front();
            self.room_kib -= wanted;
            self.enter(io, id, wanted);
            has_entered = true;
        }
        if has_entered {
            self.pump(io);
        }
    }

    fn enter(&mut self, io: &mut Io<'_>, id: SendId, room: u32) {
        let Some(before) = self.before.remove(&id) else {
            return;
        };
        let ticket = self
            .sender
            .push(io.now, before.header, before.arrived, before.options, id);
        match ticket {
            Some(ticket) => {
                self.tickets.insert(id, (ticket, room));
            }
            None => self.room_kib += room,
        }
    }

    /// Lets the sender hand over what it can, and reports outcomes.
    pub(super) fn pump(&mut self, io: &mut Io<'_>) {
        let mut quic = self.streams.on(io.quic);
        self.sender.pump(io.now, &mut quic);
        if self.report_events(io) {
            self.admit(io);
        }
    }

    /// Reports the sender's events; returns whether an ADU has ended.
    fn report_events(&mut self, io: &mut Io<'_>) -> bool {
        let mut has_ended = false;
        while let Some(event) = self.sender.poll_event() {
            match event {
                Event::Outcome { data, outcome, .. } => {
                    if let Some((_, room)) = self.tickets.remove(&data) {
                        self.room_kib += room;
                    }
                    has_ended = true;
                    io.outcome(data, outcome);
                }
                Event::OrderedEnded { id, outcome } => {
                    let event = PortEvent::OrderedEnded { id, outcome };
                    io.shared.events.push_back(event);
                }
            }
        }
        has_ended
    }

    /// Handles a stream that is writable again.
    pub(super) fn handle_writable(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(owner) = self.streams.owner(stream) {
            self.sender.handle_writable(owner);
            self.pump(io);
        }
    }

    /// Handles a stream of which the peer has acknowledged everything.
    pub(super) fn handle_finished(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(owner) = self.streams.owner(stream) {
            let mut quic = self.streams.on(io.quic);
            self.sender.handle_acknowledged(owner, &mut quic);
            self.pump(io);
        }
    }

    /// Handles a stream that the peer has stopped.
    pub(super) fn handle_stopped(&mut self, io: &mut Io<'_>, stream: StreamId, code: StreamCode) {
        if let Some(owner) = self.streams.owner(stream) {
            let mut quic = self.streams.on(io.quic);
            self.sender.handle_stopped(owner, code, &mut quic);
            self.pump(io);
        }
    }
}

/// Writes to a QUIC stream as much as it takes.
pub(super) fn write(
    quic: &mut Connection,
    stream: StreamId,
    unsent: &mut VecDeque<Bytes>,
) -> Written {
    loop {
        while unsent.front().is_some_and(Bytes::is_empty) {
            unsent.pop_front();
        }
        if unsent.is_empty() {
            return Written::All;
        }
        let mut chunks = unsent.make_contiguous();
        match quic.send_stream(stream).write_chunks(&mut chunks) {
            Ok(_) => {}
            Err(WriteError::Blocked) => return Written::Blocked,
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return Written::Closed,
        }
    }
}
