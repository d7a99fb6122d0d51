//! Sending ADUs: what waits before the sender, and the sender on a virtual connection.
//!
//! *The idea.* [`thalweg_core::hop::sender`] does what the node's does. What the node's tasks wait for outside of it is here
//! two queues: a payload that must be whole first, and room for those that would wait rather than be dropped.
//!
//! ```text
//! gathering ─► waiting (room) ─► the sender ─► an outcome
//! ```
//!
//! *What it does not do.* It does not choose among ADUs, and sends none again on another link.
//!
//! *Sources.* `thalweg-net` `link/sending.rs`, `link/sender.rs`.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use noq_proto::{Connection, StreamId, WriteError};
use thalweg_core::adu::Header;
use thalweg_core::congestion::Carried;
use thalweg_core::hop::sender::room::{ROOM_KIB, may_wait, room_kib};
use thalweg_core::hop::sender::{Arrived, Event, Sender, Ticket};
use thalweg_core::hop::{Carriage, OrderedId, Outcome, SendOptions, StreamCode};
use thalweg_core::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_core::outbox::Settings;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::trace::Trace;
use thalweg_core::units::DataSize;

use super::event::{PortEvent, SendId, Source};
use super::live::{Io, Shared};
use super::quic::Streams;

/// The ADUs that one connection sends.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender<StreamId, SendId>,
    streams: Streams,
    /// Those that are in the sender, and the room that each has there.
    tickets: BTreeMap<SendId, (Ticket, u32)>,
    /// Those that are not.
    before: BTreeMap<SendId, Before>,
    /// Of them, those that wait for room, first come first served.
    waiting: VecDeque<SendId>,
    room_kib: u32,
}

/// An ADU before it is in the sender.
#[derive(Debug)]
struct Before {
    header: Header,
    options: SendOptions,
    arrived: Arrived,
    missing: usize,
}

/// How far a writing came.
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
    /// Returns how many ADUs have no outcome.
    pub(super) fn in_flight(&self) -> u32 {
        (self.tickets.len() + self.before.len()) as u32
    }

    /// Tells the path what an earlier connection over it has left.
    pub(super) fn recall(&mut self, connection: &mut Connection, carried: Carried) {
        self.streams.recall(connection, carried);
    }

    /// Returns what is worth keeping of the path for the connection after this one.
    pub(super) fn to_keep(&self) -> Option<Carried> {
        self.streams.to_keep()
    }

    /// Returns what is in packets that are neither acknowledged nor lost.
    pub(super) fn bytes_in_flight(&self) -> DataSize {
        self.streams.in_flight()
    }

    /// Returns since when it is waited for an acknowledgement.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.streams.waiting_since()
    }

    /// Returns whether the path takes nothing more now.
    pub(super) fn is_full(&self) -> bool {
        self.streams.is_full()
    }

    /// Returns how often the peer has acknowledged anything.
    pub(super) fn heard(&self) -> u64 {
        self.streams.heard()
    }

    /// Returns the shortest round trip of late; zero if none was measured.
    pub(super) fn rtt_min(&self) -> Duration {
        self.streams.rtt_min()
    }

    /// Returns the round trip of the last packet that was acknowledged; zero if there was none.
    pub(super) fn rtt_latest(&self) -> Duration {
        self.streams.rtt_latest()
    }

    /// Returns how much room is left for those that would wait.
    pub(super) const fn room_kib(&self) -> u32 {
        self.room_kib
    }

    pub(super) fn is_idle(&self) -> bool {
        self.before.is_empty() && self.sender.is_empty()
    }

    /// Returns the bytes of those that are not wholly handed over.
    pub(super) fn queued_bytes(&self) -> u64 {
        let here = |before: &Before| before.arrived.payload_bytes - before.missing;
        let before: usize = self.before.values().map(here).sum();
        self.sender.outbox().queued().as_bytes() + before as u64
    }

    /// Gives out how many bytes were given up since this was last asked for want of the path.
    pub(super) fn take_crowded_out(&mut self) -> DataSize {
        self.sender.take_crowded_out()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.sender.poll_timeout()
    }

    /// Takes an ADU.
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
            self.set_off(io, id);
        }
    }

    /// Takes more of a payload; returns whether its ADU is still being sent.
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
            self.set_off(io, id);
        }
        self.tickets.contains_key(&id) || self.before.contains_key(&id)
    }

    /// Gives an ADU up.
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

    /// Ends everything, in the order in which it was given.
    pub(super) fn lose(&mut self, io: &mut Io<'_>) {
        self.sender.lose();
        self.tell(io);
        self.waiting.clear();
        for id in std::mem::take(&mut self.before).into_keys() {
            io.outcome(id, Outcome::LinkLost);
        }
    }

    /// Ends a sequence after what is queued.
    pub(super) fn finish_ordered(&mut self, io: &mut Io<'_>, id: OrderedId) {
        self.sender.finish_ordered(id);
        self.pump(io);
    }

    pub(super) fn finish_all_ordered(&mut self, io: &mut Io<'_>) {
        self.sender.finish_all_ordered();
        self.pump(io);
    }

    /// Puts into the sender what need not be gathered any more.
    fn set_off(&mut self, io: &mut Io<'_>, id: SendId) {
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

    /// Lets those in that wait for room; to be called after whatever may have ended an ADU.
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

    /// Lets the sender hand over what can go, and says what has become of what.
    pub(super) fn pump(&mut self, io: &mut Io<'_>) {
        let mut quic = self.streams.on(io.quic);
        self.sender.pump(io.now, &mut quic);
        if self.tell(io) {
            self.admit(io);
        }
    }

    /// Returns whether an ADU has ended.
    fn tell(&mut self, io: &mut Io<'_>) -> bool {
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

    /// Takes word that a stream can be written again.
    pub(super) fn handle_writable(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(owner) = self.streams.owner(stream) {
            self.sender.handle_writable(owner);
            self.pump(io);
        }
    }

    /// Takes word that the peer has all of a stream.
    pub(super) fn handle_finished(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(owner) = self.streams.owner(stream) {
            let mut quic = self.streams.on(io.quic);
            self.sender.handle_acknowledged(owner, &mut quic);
            self.pump(io);
        }
    }

    /// Takes word that the peer wants no more of a stream.
    pub(super) fn handle_stopped(&mut self, io: &mut Io<'_>, stream: StreamId, code: StreamCode) {
        if let Some(owner) = self.streams.owner(stream) {
            let mut quic = self.streams.on(io.quic);
            self.sender.handle_stopped(owner, code, &mut quic);
            self.pump(io);
        }
    }
}

/// Hands QUIC as much as it takes.
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

impl Io<'_> {
    pub(super) fn outcome(&mut self, send: SendId, outcome: Outcome) {
        self.shared.outcome(send, outcome);
    }
}

impl Shared {
    pub(super) fn outcome(&mut self, send: SendId, outcome: Outcome) {
        self.counters.outcomes[outcome.index()] += 1;
        let event = PortEvent::Outcome { send, outcome };
        self.events.push_back(event);
    }
}
