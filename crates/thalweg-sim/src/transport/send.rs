//! Sending ADUs: permits, streams, ranks, deadlines, outcomes.
//!
//! *The idea.* What `thalweg-net` writes as one future an ADU is here one entry in a table with a stage:
//!
//! ```text
//! gathering ─► waiting (permit) ─► unopened (stream credit) ─► open ─► finishing ─► acknowledged
//!           └► in a lane, or in one datagram                any stage ─► expired, cancelled, refused, lost
//! ```
//!
//! Only datagrams and ordered ADUs are gathered first; an ADU on a stream of its own sends on each chunk as it comes.
//!
//! *What it does not do.* It does not choose among ADUs, and sends none again on another link.
//!
//! *Sources.* `thalweg-net` `link/send.rs`, step by step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use noq_proto::{Connection, Dir, FinishError, StreamId, VarInt, WriteError};
use thalweg_core::adu::Header;
use thalweg_core::hop::rank::Ranks;
use thalweg_core::hop::{Carriage, KIND_ADU, OrderedId, Outcome, SendOptions, StreamCode};
use thalweg_core::limits::{ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX, ADUS_IN_FLIGHT_MAX};
use thalweg_core::time::Instant;
use thalweg_core::wire::adu::encode_header;

use super::event::{PortEvent, SendId, Source};
use super::live::{Io, Shared};
use super::ordered::Lanes;

/// The ADUs that one connection sends.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) sendings: BTreeMap<SendId, Sending>,
    streams: BTreeMap<StreamId, SendId>,
    /// Of those by stream only.
    deadlines: BTreeSet<(Instant, SendId)>,
    /// Waiting for a permit, first come first served.
    waiting: VecDeque<SendId>,
    /// Waiting until the peer admits another stream.
    unopened: VecDeque<SendId>,
    permits: u32,
    ranks: Ranks,
    pub(super) lanes: Lanes,
}

/// An ADU that has no outcome yet.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) header: Header,
    pub(super) priority: u8,
    carriage: Carriage,
    pub(super) payload_bytes: usize,
    /// What is still to come from whoever has the payload.
    missing: usize,
    /// What QUIC has not taken yet.
    pub(super) unsent: VecDeque<Bytes>,
    pub(super) stage: Stage,
}

/// How far an ADU has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Gathering,
    Waiting,
    /// With the rank that its stream will have.
    Unopened(i32),
    Open(StreamId),
    Finishing(StreamId),
    InLane(OrderedId),
}

/// How far a writing came.
pub(super) enum Written {
    All,
    Blocked,
    Stopped(StreamCode),
    Closed,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            sendings: BTreeMap::new(),
            streams: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            waiting: VecDeque::new(),
            unopened: VecDeque::new(),
            permits: ADUS_IN_FLIGHT_MAX,
            ranks: Ranks::default(),
            lanes: Lanes::default(),
        }
    }
}

impl Sender {
    pub(super) fn in_flight(&self) -> u32 {
        ADUS_IN_FLIGHT_MAX - self.permits
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight() == 0 && self.waiting.is_empty()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        let of = |sending: &Sending| sending.unsent.iter().map(Bytes::len).sum::<usize>();
        self.sendings.values().map(of).sum()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.deadlines
            .first()
            .map_or(Instant::NEVER, |(deadline, _)| *deadline)
    }

    /// Takes an ADU.
    pub(super) fn begin(
        &mut self,
        io: &mut Io<'_>,
        id: SendId,
        header: Header,
        source: Source,
        options: SendOptions,
    ) {
        let (payload_bytes, unsent) = match source {
            Source::Whole(payload) => (payload.len(), VecDeque::from([payload])),
            Source::Arriving(bytes) => (bytes, VecDeque::new()),
        };
        if payload_bytes > ADU_PAYLOAD_BYTES_MAX {
            return io.outcome(id, Outcome::TooLarge);
        }
        if header.is_expired(io.now) {
            return io.outcome(id, Outcome::Expired);
        }
        let missing = payload_bytes - unsent.iter().map(Bytes::len).sum::<usize>();
        let carriage = match options.carriage {
            Carriage::Datagram if !fits_datagram(io.quic, payload_bytes) => Carriage::Stream,
            carriage => carriage,
        };
        let sending = Sending {
            header,
            priority: options.priority,
            carriage,
            payload_bytes,
            missing,
            unsent,
            stage: Stage::Gathering,
        };
        self.sendings.insert(id, sending);
        if carriage == Carriage::Stream || missing == 0 {
            self.set_off(io, id);
        }
    }

    /// Takes more of a payload; returns whether its ADU is still being sent.
    pub(super) fn push_chunk(&mut self, io: &mut Io<'_>, id: SendId, chunk: Bytes) -> bool {
        let Some(sending) = self.sendings.get_mut(&id) else {
            return false;
        };
        assert!(
            chunk.len() <= sending.missing,
            "{} bytes follow where {} were announced",
            chunk.len(),
            sending.missing
        );
        sending.missing -= chunk.len();
        sending.unsent.push_back(chunk);
        match sending.stage {
            Stage::Open(_) => self.write(io, id),
            Stage::Gathering if sending.missing == 0 => self.set_off(io, id),
            _ => {}
        }
        self.sendings.contains_key(&id)
    }

    /// Gives an ADU up.
    pub(super) fn cancel(&mut self, io: &mut Io<'_>, id: SendId, code: StreamCode) {
        let Some(sending) = self.sendings.get(&id) else {
            return;
        };
        let (outcome, code) = match code {
            StreamCode::Expired => (Outcome::Expired, StreamCode::Expired),
            _ => (Outcome::Cancelled, StreamCode::Cancelled),
        };
        if let Stage::InLane(lane) = sending.stage {
            self.leave_lane(io, lane, id);
            self.end(io, id, outcome, None);
            self.run_lane(io, lane);
        } else {
            self.end(io, id, outcome, Some(code));
        }
    }

    /// Gives up what has not arrived at its deadline.
    pub(super) fn expire(&mut self, io: &mut Io<'_>) {
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= io.now
        {
            self.end(io, id, Outcome::Expired, Some(StreamCode::Expired));
        }
    }

    /// Ends everything, in the order in which it was given.
    pub(super) fn lose(&mut self, io: &mut Io<'_>) {
        for id in std::mem::take(&mut self.sendings).into_keys() {
            io.outcome(id, Outcome::LinkLost);
        }
        self.lose_lanes(io);
    }

    /// Sends what need not be gathered any more.
    fn set_off(&mut self, io: &mut Io<'_>, id: SendId) {
        let Some(sending) = self.sendings.get_mut(&id) else {
            return;
        };
        if sending.carriage == Carriage::Datagram {
            return self.send_datagram(io, id);
        }
        // What has a deadline would rather be dropped and counted than be late; the rest has all the time there is.
        let deadline = sending.header.deadline;
        let may_wait = deadline.is_never() || sending.carriage != Carriage::Stream;
        if self.permits > 0 {
            if sending.carriage == Carriage::Stream && !deadline.is_never() {
                self.deadlines.insert((deadline, id));
            }
            self.permit(io, id);
        } else if may_wait && self.waiting.len() < ADUS_IN_FLIGHT_MAX as usize {
            sending.stage = Stage::Waiting;
            self.waiting.push_back(id);
        } else {
            self.end(io, id, Outcome::Overflow, None);
        }
    }

    /// Uses a permit for an ADU.
    fn permit(&mut self, io: &mut Io<'_>, id: SendId) {
        let Some(sending) = self.sendings.get_mut(&id) else {
            return;
        };
        self.permits -= 1;
        if let Carriage::Ordered(lane) = sending.carriage {
            sending.stage = Stage::InLane(lane);
            return self.enter_lane(io, lane, id);
        }
        sending.stage = Stage::Unopened(self.ranks.next(sending.priority));
        self.unopened.push_back(id);
        self.open(io);
    }

    /// Opens streams as far as the peer admits.
    pub(super) fn open(&mut self, io: &mut Io<'_>) {
        while let Some(id) = self.unopened.front().copied() {
            let Some(sending) = self.sendings.get_mut(&id) else {
                self.unopened.pop_front();
                continue;
            };
            let Stage::Unopened(rank) = sending.stage else {
                self.unopened.pop_front();
                continue;
            };
            let Some(stream) = open(io.quic, rank) else {
                return;
            };
            self.unopened.pop_front();
            let head = head(
                Some(KIND_ADU),
                &sending.header,
                sending.payload_bytes,
                io.now,
            );
            sending.unsent.push_front(head);
            sending.stage = Stage::Open(stream);
            self.streams.insert(stream, id);
            self.write(io, id);
        }
    }

    /// Hands QUIC what it takes of an ADU on a stream of its own.
    fn write(&mut self, io: &mut Io<'_>, id: SendId) {
        let Some(sending) = self.sendings.get_mut(&id) else {
            return;
        };
        let Stage::Open(stream) = sending.stage else {
            return;
        };
        match write(io.quic, stream, &mut sending.unsent) {
            Written::All if sending.missing > 0 => {}
            Written::All => match io.quic.send_stream(stream).finish() {
                Ok(()) => sending.stage = Stage::Finishing(stream),
                Err(FinishError::Stopped(code)) => self.refused(io, id, code.into()),
                Err(FinishError::ClosedStream) => self.end(io, id, Outcome::LinkLost, None),
            },
            Written::Blocked => {}
            Written::Stopped(code) => self.refused(io, id, code.number()),
            Written::Closed => self.end(io, id, Outcome::LinkLost, None),
        }
    }

    fn refused(&mut self, io: &mut Io<'_>, id: SendId, code: u64) {
        let code = StreamCode::from_number(code);
        self.end(io, id, Outcome::Refused(code), Some(StreamCode::Cancelled));
    }

    fn send_datagram(&mut self, io: &mut Io<'_>, id: SendId) {
        let Some(sending) = self.sendings.get(&id) else {
            return;
        };
        let mut datagram = Vec::with_capacity(ADU_HEADER_BYTES_MAX + sending.payload_bytes);
        encode_header(
            &sending.header,
            sending.payload_bytes,
            io.now,
            &mut datagram,
        );
        for chunk in &sending.unsent {
            datagram.extend_from_slice(chunk);
        }
        let mut datagrams = io.quic.datagrams();
        // QUIC would make room by dropping older datagrams without a word.
        let outcome = if datagrams.send_buffer_space() < datagram.len() {
            Outcome::Overflow
        } else if datagrams.send(datagram.into(), true).is_ok() {
            Outcome::Departed
        } else {
            Outcome::TooLarge
        };
        self.end(io, id, outcome, None);
    }

    /// Takes out an ADU with what became of it.
    pub(super) fn end(
        &mut self,
        io: &mut Io<'_>,
        id: SendId,
        outcome: Outcome,
        reset: Option<StreamCode>,
    ) {
        let Some(sending) = self.sendings.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(sending.header.deadline, id));
        match sending.stage {
            Stage::Gathering => {}
            Stage::Waiting => self.waiting.retain(|waiting| *waiting != id),
            Stage::Unopened(_) | Stage::InLane(_) => self.permits += 1,
            Stage::Open(stream) | Stage::Finishing(stream) => {
                self.permits += 1;
                self.streams.remove(&stream);
                if let Some(code) = reset {
                    // An error says that the stream is over already.
                    let _ = io.quic.send_stream(stream).reset(varint(code));
                }
            }
        }
        io.outcome(id, outcome);
    }

    /// Lets those go that wait for a permit; to be called after whatever may have ended an ADU.
    pub(super) fn admit(&mut self, io: &mut Io<'_>) {
        while self.permits > 0
            && let Some(next) = self.waiting.pop_front()
        {
            self.permit(io, next);
        }
    }

    /// Takes word that a stream can be written again.
    pub(super) fn handle_writable(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(id) = self.streams.get(&stream) {
            self.write(io, *id);
        } else {
            self.handle_lane_writable(io, stream);
        }
    }

    /// Takes word that the peer has all of a stream.
    pub(super) fn handle_finished(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(id) = self.streams.get(&stream) {
            self.end(io, *id, Outcome::Acknowledged, None);
        } else {
            self.handle_lane_ended(io, stream, Outcome::Acknowledged);
        }
    }

    /// Takes word that the peer wants no more of a stream.
    pub(super) fn handle_stopped(&mut self, io: &mut Io<'_>, stream: StreamId, code: StreamCode) {
        let Some(id) = self.streams.get(&stream).copied() else {
            return self.handle_lane_stopped(io, stream, code);
        };
        let is_finishing = self
            .sendings
            .get(&id)
            .is_some_and(|sending| sending.stage == Stage::Finishing(stream));
        let outcome = match code {
            StreamCode::Whole if is_finishing => Outcome::Acknowledged,
            code => Outcome::Refused(code),
        };
        self.end(io, id, outcome, Some(StreamCode::Cancelled));
    }
}

fn fits_datagram(quic: &mut Connection, payload_bytes: usize) -> bool {
    let bytes_max = quic.datagrams().max_size().unwrap_or(0);
    payload_bytes + ADU_HEADER_BYTES_MAX <= bytes_max
}

/// Opens a stream of a rank, if the peer admits another.
pub(super) fn open(quic: &mut Connection, rank: i32) -> Option<StreamId> {
    let stream = quic.streams().open(Dir::Uni)?;
    // A stream that was just opened can fail only with its connection, which the next write says.
    let _ = quic.send_stream(stream).set_priority(rank);
    Some(stream)
}

/// Returns the bytes before a payload; what is left of the deadline is reckoned now.
pub(super) fn head(kind: Option<u8>, header: &Header, payload_bytes: usize, now: Instant) -> Bytes {
    let mut head = Vec::with_capacity(1 + ADU_HEADER_BYTES_MAX);
    head.extend(kind);
    encode_header(header, payload_bytes, now, &mut head);
    head.into()
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
            Err(WriteError::Stopped(code)) => {
                return Written::Stopped(StreamCode::from_number(code.into_inner()));
            }
            Err(WriteError::ClosedStream) => return Written::Closed,
        }
    }
}

pub(super) fn varint(code: StreamCode) -> VarInt {
    VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX)
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
