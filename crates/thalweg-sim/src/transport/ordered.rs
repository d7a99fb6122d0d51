//! ADUs of one sequence, one after the other on one long stream.
//!
//! *The idea.* A lane is a stream and a queue; the front of the queue is written whole before the next is looked at, and
//! waits while QUIC has no room, which is the back-pressure. If the front is given up in the middle the stream is reset,
//! for half an ADU would poison those behind it; the next one opens a new stream.
//!
//! *What it does not do.* It does not resend what a reset stream had not delivered.
//!
//! *Sources.* `thalweg-net` `link/ordered.rs`.

use std::collections::{BTreeMap, VecDeque};

use noq_proto::{FinishError, StreamId};
use thalweg_core::hop::settings::LANES_MAX;
use thalweg_core::hop::{KIND_ORDERED, OrderedId, Outcome, StreamCode, rank};

use super::event::{PortEvent, SendId};
use super::live::Io;
use super::send::{Sender, Written, head, open, varint, write};

/// The ordered sequences of one connection.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_id: BTreeMap<OrderedId, Lane>,
    streams: BTreeMap<StreamId, OrderedId>,
    /// Streams that have been ended and wait for the peer's word.
    ending: BTreeMap<StreamId, OrderedId>,
}

#[derive(Debug, Default)]
struct Lane {
    stream: Option<StreamId>,
    queue: VecDeque<SendId>,
    /// Whether the front of the queue has its header in `unsent`, or further.
    is_begun: bool,
    /// The peer has stopped the stream since the last ADU.
    stopped: Option<StreamCode>,
    is_finishing: bool,
}

impl Lanes {
    /// Returns whether nothing waits for the peer.
    pub(super) fn is_idle(&self) -> bool {
        self.ending.is_empty() && self.by_id.values().all(|lane| lane.queue.is_empty())
    }
}

impl Sender {
    pub(super) fn enter_lane(&mut self, io: &mut Io<'_>, id: OrderedId, send: SendId) {
        let lanes = &mut self.lanes.by_id;
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&id) {
            return self.end(io, send, Outcome::Overflow, None);
        }
        lanes.entry(id).or_default().queue.push_back(send);
        self.run_lane(io, id);
    }

    /// Takes an ADU out of its lane; half written, it takes the stream with it.
    pub(super) fn leave_lane(&mut self, io: &mut Io<'_>, id: OrderedId, send: SendId) {
        let Some(lane) = self.lanes.by_id.get_mut(&id) else {
            return;
        };
        if lane.is_begun && lane.queue.front() == Some(&send) {
            lane.is_begun = false;
            if let Some(stream) = lane.stream.take() {
                self.lanes.streams.remove(&stream);
                // An error says that the stream is over already.
                let _ = io
                    .quic
                    .send_stream(stream)
                    .reset(varint(StreamCode::Cancelled));
            }
        }
        lane.queue.retain(|queued| *queued != send);
    }

    /// Ends a lane after what is queued.
    pub(super) fn finish_ordered(&mut self, io: &mut Io<'_>, id: OrderedId) {
        match self.lanes.by_id.get_mut(&id) {
            Some(lane) => {
                lane.is_finishing = true;
                self.run_lane(io, id);
            }
            None => io.ordered_ended(id, Outcome::Acknowledged),
        }
    }

    pub(super) fn finish_all_lanes(&mut self, io: &mut Io<'_>) {
        let ids: Vec<_> = self.lanes.by_id.keys().copied().collect();
        for id in ids {
            self.finish_ordered(io, id);
        }
    }

    /// Tries again those lanes that have no stream.
    pub(super) fn open_lanes(&mut self, io: &mut Io<'_>) {
        let closed = |(id, lane): (&OrderedId, &Lane)| lane.stream.is_none().then_some(*id);
        let ids: Vec<_> = self.lanes.by_id.iter().filter_map(closed).collect();
        for id in ids {
            self.run_lane(io, id);
        }
    }

    pub(super) fn lose_lanes(&mut self, io: &mut Io<'_>) {
        let lanes = std::mem::take(&mut self.lanes);
        let finishing = lanes
            .by_id
            .into_iter()
            .filter(|(_, lane)| lane.is_finishing);
        let mut ids: Vec<_> = finishing.map(|(id, _)| id).collect();
        ids.extend(lanes.ending.into_values());
        for id in ids {
            io.ordered_ended(id, Outcome::LinkLost);
        }
    }

    /// Writes what QUIC takes, one ADU after the other.
    pub(super) fn run_lane(&mut self, io: &mut Io<'_>, id: OrderedId) {
        while let Some(lane) = self.lanes.by_id.get_mut(&id) {
            let Some(send) = lane.queue.front().copied() else {
                if lane.is_finishing {
                    self.end_lane(io, id);
                }
                return;
            };
            let Some(outcome) = self.write_front(io, id, send) else {
                return;
            };
            if let Some(lane) = self.lanes.by_id.get_mut(&id) {
                lane.queue.pop_front();
                lane.is_begun = false;
            }
            self.end(io, send, outcome, None);
        }
    }

    /// Writes the front of a lane; `None` if it must wait.
    fn write_front(&mut self, io: &mut Io<'_>, id: OrderedId, send: SendId) -> Option<Outcome> {
        let Lanes { by_id, streams, .. } = &mut self.lanes;
        let lane = by_id.get_mut(&id)?;
        let Some(sending) = self.sendings.get_mut(&send) else {
            return Some(Outcome::Cancelled);
        };
        if !lane.is_begun {
            if sending.header.is_expired(io.now) {
                return Some(Outcome::Expired);
            }
            if let Some(code) = lane.stopped.take() {
                return Some(Outcome::Refused(code));
            }
            let kind = if lane.stream.is_some() {
                None
            } else {
                let stream = open(io.quic, rank::sequence(sending.priority))?;
                lane.stream = Some(stream);
                streams.insert(stream, id);
                Some(KIND_ORDERED)
            };
            let head = head(kind, &sending.header, sending.payload_bytes, io.now);
            sending.unsent.push_front(head);
            lane.is_begun = true;
        }
        let stream = lane.stream?;
        let outcome = match write(io.quic, stream, &mut sending.unsent) {
            Written::All => return Some(Outcome::Departed),
            Written::Blocked => return None,
            Written::Stopped(code) => Outcome::Refused(code),
            Written::Closed => Outcome::LinkLost,
        };
        lane.stream = None;
        streams.remove(&stream);
        let _ = io
            .quic
            .send_stream(stream)
            .reset(varint(StreamCode::Cancelled));
        Some(outcome)
    }

    /// Ends the stream of an empty lane.
    fn end_lane(&mut self, io: &mut Io<'_>, id: OrderedId) {
        let stream = self.lanes.by_id.remove(&id).and_then(|lane| lane.stream);
        let Some(stream) = stream else {
            return io.ordered_ended(id, Outcome::Acknowledged);
        };
        self.lanes.streams.remove(&stream);
        match io.quic.send_stream(stream).finish() {
            Ok(()) => {
                self.lanes.ending.insert(stream, id);
            }
            Err(FinishError::Stopped(code)) => {
                let _ = io
                    .quic
                    .send_stream(stream)
                    .reset(varint(StreamCode::Cancelled));
                let code = StreamCode::from_number(code.into_inner());
                io.ordered_ended(id, ended(code));
            }
            Err(FinishError::ClosedStream) => io.ordered_ended(id, Outcome::LinkLost),
        }
    }

    pub(super) fn handle_lane_writable(&mut self, io: &mut Io<'_>, stream: StreamId) {
        if let Some(id) = self.lanes.streams.get(&stream).copied() {
            self.run_lane(io, id);
        }
    }

    pub(super) fn handle_lane_ended(
        &mut self,
        io: &mut Io<'_>,
        stream: StreamId,
        outcome: Outcome,
    ) {
        if let Some(id) = self.lanes.ending.remove(&stream) {
            io.ordered_ended(id, outcome);
        }
    }

    pub(super) fn handle_lane_stopped(
        &mut self,
        io: &mut Io<'_>,
        stream: StreamId,
        code: StreamCode,
    ) {
        if self.lanes.ending.contains_key(&stream) {
            let _ = io
                .quic
                .send_stream(stream)
                .reset(varint(StreamCode::Cancelled));
            return self.handle_lane_ended(io, stream, ended(code));
        }
        let Some(id) = self.lanes.streams.get(&stream).copied() else {
            return;
        };
        let Some(lane) = self.lanes.by_id.get_mut(&id) else {
            return;
        };
        if lane.is_begun {
            // The next write says so, and to whom.
            return self.run_lane(io, id);
        }
        lane.stopped = Some(code);
        lane.stream = None;
        self.lanes.streams.remove(&stream);
        let _ = io
            .quic
            .send_stream(stream)
            .reset(varint(StreamCode::Cancelled));
    }
}

/// Says what a stopped stream that was ended means.
fn ended(code: StreamCode) -> Outcome {
    match code {
        StreamCode::Whole => Outcome::Acknowledged,
        code => Outcome::Refused(code),
    }
}

impl Io<'_> {
    fn ordered_ended(&mut self, id: OrderedId, outcome: Outcome) {
        let event = PortEvent::OrderedEnded { id, outcome };
        self.shared.events.push_back(event);
    }
}
