//! ADUs of one ordered sequence, one after the other on one long stream.
//!
//! *The idea.* A lane is a stream and a queue of the ADUs that are to go on it; the outbox serves
//! them first in, first out. The first may still be arriving: the ADUs behind it wait for its last
//! byte. If it is cancelled half written, the stream is *cut*: it is finished there. Half an ADU
//! would corrupt the ADUs behind it, and a reset would take those before it along. The next ADU
//! opens a new stream once the peer has all of the old, so that it overtakes nothing.
//!
//! ```text
//! stream 1   │ ADU 4 │ ADU 5 │ ADU 6 …  its rest does not arrive: finish    peer: 4, 5, and 6 was cancelled
//! stream 2                              once the end is acknowledged │ ADU 7 │ …
//! ```
//!
//! A lane that was finished and is used again, for instance by an ADU that had waited for room,
//! starts like a cut one: it waits until the peer has all of the stream before.
//!
//! A stream that the peer has stopped is reset: its end would never be acknowledged.
//!
//! *What it does not do.* It does not resend what a reset stream had not delivered.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;

use thalweg_base::time::Instant;

use super::sending::{PendingAdu, Step};
use super::transport::Transport;
use super::{Event, Owner, Sender, Ticket};
use crate::hop::settings::LANES_MAX;
use crate::hop::{KIND_ORDERED, OrderedId, Outcome, StreamCode, rank};
use crate::outbox::Chunk;

/// The ordered sequences of one link.
#[derive(Debug)]
pub(super) struct Lanes<S> {
    by_id: BTreeMap<OrderedId, Lane<S>>,
    /// Lanes to finish once their queue is empty.
    finishing: Vec<OrderedId>,
    /// Finished streams that the peer has not acknowledged, by number.
    ending: BTreeMap<u64, (OrderedId, S)>,
    numbers: u64,
}

#[derive(Debug)]
struct Lane<S> {
    stream: Option<S>,
    number: u64,
    /// Whether the stream's kind byte was sent.
    has_kind: bool,
    queue: VecDeque<Ticket>,
    /// The lane's previous stream: finished within an ADU, while idle, or to end the lane, and not
    /// yet acknowledged.
    draining: Option<S>,
    /// The peer has stopped the stream since the last ADU.
    stopped: Option<StreamCode>,
}

impl<S> Default for Lanes<S> {
    fn default() -> Self {
        Self {
            by_id: BTreeMap::new(),
            finishing: Vec::new(),
            ending: BTreeMap::new(),
            numbers: 0,
        }
    }
}

impl<S> Default for Lane<S> {
    fn default() -> Self {
        Self {
            stream: None,
            number: 0,
            has_kind: false,
            queue: VecDeque::new(),
            draining: None,
            stopped: None,
        }
    }
}

impl<S> Lanes<S> {
    pub(super) fn admits(&self, id: OrderedId) -> bool {
        self.by_id.len() < LANES_MAX || self.by_id.contains_key(&id)
    }

    pub(super) fn push(&mut self, id: OrderedId, ticket: Ticket)
    where
        S: Copy,
    {
        let ending = &self.ending;
        let lane = self.by_id.entry(id).or_insert_with(|| {
            // A finished stream of the same lane may still be unacknowledged: the new one must wait
            // for it.
            let mut before = ending.iter().filter(|(_, (of, _))| *of == id);
            let before = before
                .next()
                .map(|(number, (_, stream))| (*number, *stream));
            Lane {
                number: before.map_or(0, |(number, _)| number),
                draining: before.map(|(_, stream)| stream),
                ..Lane::default()
            }
        });
        lane.queue.push_back(ticket);
    }

    /// Returns the first ADU of the queue.
    pub(super) fn front(&self, id: OrderedId) -> Option<Ticket> {
        self.by_id.get(&id)?.queue.front().copied()
    }

    /// Finishes a lane after its queued ADUs; returns whether it exists.
    pub(super) fn finish(&mut self, id: OrderedId) -> bool {
        let is_known = self.by_id.contains_key(&id);
        if is_known && !self.finishing.contains(&id) {
            self.finishing.push(id);
        }
        is_known
    }

    /// Finishes the streams of idle lanes, and forgets lanes once the peer has acknowledged that.
    /// Nothing signals the end of a plan, so idleness does. A lane that is used again goes on with
    /// a new stream, once the peer has all of the old.
    pub(super) fn finish_idle(
        &mut self,
        is_used: impl Fn(OrderedId) -> bool,
        transport: &mut impl Transport<Stream = S>,
    ) where
        S: Copy,
    {
        self.by_id.retain(|id, lane| {
            if is_used(*id) || !lane.queue.is_empty() {
                return true;
            }
            if let Some(stream) = lane.stream.take() {
                transport.finish(stream);
                lane.draining = Some(stream);
            }
            lane.draining.is_some()
        });
    }

    pub(super) fn finish_all(&mut self) {
        self.finishing = self.by_id.keys().copied().collect();
    }

    /// Returns whether a lane waits for its queue or for the peer to finish.
    pub(super) fn is_finishing(&self) -> bool {
        !self.finishing.is_empty() || !self.ending.is_empty()
    }

    /// Returns the lanes that are to finish.
    pub(super) fn into_finishing(self) -> Vec<OrderedId> {
        let ending = self.ending.into_values().map(|(id, _)| id);
        self.finishing.into_iter().chain(ending).collect()
    }
}

impl<S: Copy, D> Sender<S, D> {
    /// Writes a chunk of an ADU in its lane.
    pub(super) fn write_in_lane(
        &mut self,
        now: Instant,
        transport: &mut impl Transport<Stream = S>,
        chunk: &Chunk,
        id: OrderedId,
    ) -> Step {
        let Some(lane) = self.lanes.by_id.get_mut(&id) else {
            return Step::Done;
        };
        // The peer stopped the stream between two ADUs: the next one is refused, and the one after
        // opens a new stream.
        if let Some(code) = lane.stopped.take() {
            self.cancel(chunk.ticket, Outcome::Refused(code));
            return Step::Done;
        }
        if lane.draining.is_some() {
            self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
            self.outbox.set_blocked(chunk.ticket, true);
            return Step::Done;
        }
        let Some(adu) = self.pending[chunk.ticket.index()].as_mut() else {
            return Step::Done;
        };
        if lane.stream.is_none() {
            let number = self.lanes.numbers + 1;
            let rank = rank::sequence(adu.priority);
            let Some(stream) = transport.open(Owner::Lane(id, number), rank) else {
                self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
                return Step::Blocked;
            };
            self.lanes.numbers = number;
            lane.stream = Some(stream);
            lane.number = number;
            lane.has_kind = false;
        }
        let Some(stream) = lane.stream else {
            return Step::Blocked;
        };
        let kind = (!lane.has_kind).then_some(KIND_ORDERED);
        let bytes = chunk.range.len();
        let (written, step) = adu.write(now, transport, stream, kind, bytes, &mut self.heads);
        if adu.has_begun() {
            lane.has_kind = true;
            // From here on the ADUs behind it wait for it.
            self.outbox.set_deadline(chunk.ticket, Instant::NEVER);
        }
        let unsent = bytes - written;
        match step {
            Step::Done => {
                if chunk.is_last {
                    lane.queue.pop_front();
                    self.outbox.finish(chunk.ticket);
                    self.end_ticket(chunk.ticket, Outcome::Departed);
                }
                Step::Done
            }
            Step::Blocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                Step::Blocked
            }
            Step::StreamBlocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                self.outbox.set_blocked(chunk.ticket, true);
                Step::Done
            }
            Step::Stopped(code) => {
                self.cancel(chunk.ticket, Outcome::Refused(code));
                // Half written or not, the stream is of no use any more.
                self.reset_lane(id, transport);
                Step::Done
            }
        }
    }

    /// Removes an ADU from its lane; if it is half written, it ends the stream.
    pub(super) fn leave_lane(
        &mut self,
        id: OrderedId,
        ticket: Ticket,
        transport: &mut impl Transport<Stream = S>,
    ) {
        let has_begun = self.pending_adu(ticket).is_some_and(|adu| adu.has_begun());
        let Some(lane) = self.lanes.by_id.get_mut(&id) else {
            return;
        };
        if let Some(stream) = lane.stream.take_if(|_| has_begun) {
            transport.finish(stream);
            lane.draining = Some(stream);
        }
        lane.queue.retain(|queued| *queued != ticket);
    }

    fn reset_lane(&mut self, id: OrderedId, transport: &mut impl Transport<Stream = S>) {
        let lane = self.lanes.by_id.get_mut(&id);
        if let Some(stream) = lane.and_then(|lane| lane.stream.take()) {
            transport.reset(stream, StreamCode::Cancelled);
        }
    }

    /// Finishes the lanes that are to finish and have an empty queue.
    pub(super) fn finish_lanes(&mut self, transport: &mut impl Transport<Stream = S>) {
        let finishing = mem::take(&mut self.lanes.finishing);
        for id in finishing {
            let is_empty = self.lanes.front(id).is_none();
            if !is_empty {
                self.lanes.finishing.push(id);
                continue;
            }
            let lane = self.lanes.by_id.remove(&id).unwrap_or_default();
            if let Some(stream) = lane.stream {
                transport.finish(stream);
                self.lanes.ending.insert(lane.number, (id, stream));
            } else if let Some(stream) = lane.draining {
                self.lanes.ending.insert(lane.number, (id, stream));
            } else {
                let outcome = Outcome::Acknowledged;
                self.events.push_back(Event::OrderedEnded { id, outcome });
            }
        }
    }

    /// Handles the end of a finished stream.
    pub(super) fn lane_ended(
        &mut self,
        id: OrderedId,
        number: u64,
        outcome: Outcome,
        transport: &mut impl Transport<Stream = S>,
    ) {
        if let Some((id, stream)) = self.lanes.ending.remove(&number) {
            // It is also the previous stream, if the lane was used again meanwhile.
            self.resume_lane(id, number);
            transport.forget(stream);
            self.events.push_back(Event::OrderedEnded { id, outcome });
        } else if let Some(stream) = self.resume_lane(id, number) {
            transport.forget(stream);
        }
    }

    /// Lets a lane go on if its previous stream is the one that has ended; returns that stream.
    fn resume_lane(&mut self, id: OrderedId, number: u64) -> Option<S> {
        let lane = self.lanes.by_id.get_mut(&id)?;
        let stream = lane.draining.take_if(|_| lane.number == number)?;
        if let Some(front) = lane.queue.front() {
            self.outbox.set_blocked(*front, false);
        }
        Some(stream)
    }

    /// Handles that the peer stopped a lane's stream.
    pub(super) fn lane_stopped(
        &mut self,
        id: OrderedId,
        number: u64,
        code: StreamCode,
        transport: &mut impl Transport<Stream = S>,
    ) {
        if let Some((id, stream)) = self.lanes.ending.remove(&number) {
            self.resume_lane(id, number);
            transport.reset(stream, StreamCode::Cancelled);
            let outcome = match code {
                StreamCode::Whole => Outcome::Acknowledged,
                code => Outcome::Refused(code),
            };
            return self.events.push_back(Event::OrderedEnded { id, outcome });
        }
        // Ignore a stop of a stream that was reset since.
        let Some(lane) = self
            .lanes
            .by_id
            .get_mut(&id)
            .filter(|lane| lane.number == number)
        else {
            return;
        };
        if lane.draining.is_some() {
            lane.stopped = Some(code).filter(|code| *code != StreamCode::Whole);
            if let Some(stream) = self.resume_lane(id, number) {
                transport.reset(stream, StreamCode::Cancelled);
            }
            return;
        }
        let front = lane.queue.front().copied();
        // The stop concerns the ADU in progress, if there is one, else the next.
        let begun = front.filter(|front| {
            let adu = self.pending.get(front.index()).and_then(Option::as_ref);
            adu.is_some_and(PendingAdu::has_begun)
        });
        if begun.is_none() {
            lane.stopped = Some(code);
        }
        self.reset_lane(id, transport);
        if let Some(front) = begun {
            self.cancel(front, Outcome::Refused(code));
            self.report_drops(transport);
        }
    }
}
