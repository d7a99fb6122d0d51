//! ADUs of one sequence, one after the other on one long stream.
//!
//! *The idea.* A lane is a stream and the names of those that are to go on it, in order; the outbox gives them out first
//! in, first out. One may still be arriving: those behind it wait, as they would for its last byte. If it is given up half
//! written, the stream is *cut*: it ends there, for half an ADU would poison those behind it, and those before it still
//! arrive, which a reset would take with it. The next one opens a new stream once the peer has all of the old, for nothing may
//! overtake what is on its way there.
//!
//! ```text
//! stream 1   │ ADU 4 │ ADU 5 │ ADU 6 …  its rest does not come: the end       peer: 4, 5, and 6 was given up
//! stream 2                              once the end is acknowledged │ ADU 7 │ …
//! ```
//!
//! A lane that has been ended and is used again, as by what had waited for room meanwhile, begins like one that was cut: it waits
//! until the peer has all of the stream before.
//!
//! A stream that the peer has stopped is reset: its end would never be acknowledged.
//!
//! *What it does not do.* It does not resend what a reset stream had not delivered.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;

use super::sending::{Sending, Step};
use super::transport::Transport;
use super::{Event, Owner, Sender, Ticket};
use crate::hop::settings::LANES_MAX;
use crate::hop::{KIND_ORDERED, OrderedId, Outcome, StreamCode, rank};
use crate::outbox::Chunk;
use crate::time::Instant;

/// The ordered sequences of one link.
#[derive(Debug)]
pub(super) struct Lanes<S> {
    by_id: BTreeMap<OrderedId, Lane<S>>,
    /// Those that are to be ended when their queue is empty.
    finishing: Vec<OrderedId>,
    /// Streams that have been ended and wait for the peer's word, by number.
    ending: BTreeMap<u64, (OrderedId, S)>,
    numbers: u64,
}

#[derive(Debug)]
struct Lane<S> {
    stream: Option<S>,
    number: u64,
    /// Whether its stream's first byte has gone.
    has_kind: bool,
    queue: VecDeque<Ticket>,
    /// The stream before, which has been ended and is not acknowledged: within an ADU, or because nobody used it, or to end the lane.
    cut: Option<S>,
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
            cut: None,
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
            let mut before = ending.iter().filter(|(_, (of, _))| *of == id);
            let before = before
                .next()
                .map(|(number, (_, stream))| (*number, *stream));
            Lane {
                number: before.map_or(0, |(number, _)| number),
                cut: before.map(|(_, stream)| stream),
                ..Lane::default()
            }
        });
        lane.queue.push_back(ticket);
    }

    /// Returns the ADU whose turn it is.
    pub(super) fn front(&self, id: OrderedId) -> Option<Ticket> {
        self.by_id.get(&id)?.queue.front().copied()
    }

    /// Ends a lane after what is queued of it; returns whether there is one.
    pub(super) fn finish(&mut self, id: OrderedId) -> bool {
        let is_known = self.by_id.contains_key(&id);
        if is_known && !self.finishing.contains(&id) {
            self.finishing.push(id);
        }
        is_known
    }

    /// Ends the streams of lanes that nobody has used for long, and forgets those whose end the peer has: a plan that is over says
    /// so to nobody. One that is used again goes on with a new stream, once the peer has all of the old.
    pub(super) fn rest(
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
                lane.cut = Some(stream);
            }
            lane.cut.is_some()
        });
    }

    pub(super) fn finish_all(&mut self) {
        self.finishing = self.by_id.keys().copied().collect();
    }

    /// Returns whether the word of the peer, or of the outbox, is awaited for a lane that is to end.
    pub(super) fn is_finishing(&self) -> bool {
        !self.finishing.is_empty() || !self.ending.is_empty()
    }

    /// Returns the lanes whose end is awaited.
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
            return Step::Went;
        };
        if let Some(code) = lane.stopped.take() {
            self.cancel(chunk.ticket, Outcome::Refused(code));
            return Step::Went;
        }
        if lane.cut.is_some() {
            self.outbox.handle_unsent(chunk.ticket, chunk.range.len());
            self.outbox.set_blocked(chunk.ticket, true);
            return Step::Went;
        }
        let Some(sending) = self.sendings[chunk.ticket.index()].as_mut() else {
            return Step::Went;
        };
        if lane.stream.is_none() {
            let number = self.lanes.numbers + 1;
            let rank = rank::sequence(sending.priority);
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
        let (written, step) = sending.write(now, transport, stream, kind, bytes, &mut self.scratch);
        if sending.has_begun() {
            lane.has_kind = true;
            // From here on those behind it wait for it.
            self.outbox.set_deadline(chunk.ticket, Instant::NEVER);
        }
        let unsent = bytes - written;
        match step {
            Step::Went => {
                if chunk.is_last {
                    lane.queue.pop_front();
                    self.outbox.finish(chunk.ticket);
                    self.end_at(chunk.ticket, Outcome::Departed);
                }
                Step::Went
            }
            Step::Blocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                Step::Blocked
            }
            Step::StreamBlocked => {
                self.outbox.handle_unsent(chunk.ticket, unsent);
                self.outbox.set_blocked(chunk.ticket, true);
                Step::Went
            }
            Step::Stopped(code) => {
                self.cancel(chunk.ticket, Outcome::Refused(code));
                // Half written or not: the stream is of no use any more.
                self.reset_lane(id, transport);
                Step::Went
            }
        }
    }

    /// Takes an ADU out of its lane; half written, it is the last of its stream.
    pub(super) fn leave_lane(
        &mut self,
        id: OrderedId,
        ticket: Ticket,
        transport: &mut impl Transport<Stream = S>,
    ) {
        let has_begun = self
            .sending(ticket)
            .is_some_and(|sending| sending.has_begun());
        let Some(lane) = self.lanes.by_id.get_mut(&id) else {
            return;
        };
        if let Some(stream) = lane.stream.take_if(|_| has_begun) {
            transport.finish(stream);
            lane.cut = Some(stream);
        }
        lane.queue.retain(|queued| *queued != ticket);
    }

    fn reset_lane(&mut self, id: OrderedId, transport: &mut impl Transport<Stream = S>) {
        let lane = self.lanes.by_id.get_mut(&id);
        if let Some(stream) = lane.and_then(|lane| lane.stream.take()) {
            transport.reset(stream, StreamCode::Cancelled);
        }
    }

    /// Ends those lanes that are to end and have nothing queued.
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
            } else if let Some(stream) = lane.cut {
                self.lanes.ending.insert(lane.number, (id, stream));
            } else {
                let outcome = Outcome::Acknowledged;
                self.events.push_back(Event::OrderedEnded { id, outcome });
            }
        }
    }

    /// Takes word of the end of a stream that was finished.
    pub(super) fn lane_ended(
        &mut self,
        id: OrderedId,
        number: u64,
        outcome: Outcome,
        transport: &mut impl Transport<Stream = S>,
    ) {
        if let Some((id, stream)) = self.lanes.ending.remove(&number) {
            // The same stream, if the lane was begun again meanwhile.
            self.heal_lane(id, number);
            transport.forget(stream);
            self.events.push_back(Event::OrderedEnded { id, outcome });
        } else if let Some(stream) = self.heal_lane(id, number) {
            transport.forget(stream);
        }
    }

    /// Lets a lane go on whose stream was cut, if it is this one that has ended now; returns it.
    fn heal_lane(&mut self, id: OrderedId, number: u64) -> Option<S> {
        let lane = self.lanes.by_id.get_mut(&id)?;
        let stream = lane.cut.take_if(|_| lane.number == number)?;
        if let Some(front) = lane.queue.front() {
            self.outbox.set_blocked(*front, false);
        }
        Some(stream)
    }

    /// Takes word that the peer wants no more of a lane's stream.
    pub(super) fn lane_stopped(
        &mut self,
        id: OrderedId,
        number: u64,
        code: StreamCode,
        transport: &mut impl Transport<Stream = S>,
    ) {
        if let Some((id, stream)) = self.lanes.ending.remove(&number) {
            self.heal_lane(id, number);
            transport.reset(stream, StreamCode::Cancelled);
            let outcome = match code {
                StreamCode::Whole => Outcome::Acknowledged,
                code => Outcome::Refused(code),
            };
            return self.events.push_back(Event::OrderedEnded { id, outcome });
        }
        // A word about a stream that was reset since is of no interest.
        let Some(lane) = self
            .lanes
            .by_id
            .get_mut(&id)
            .filter(|lane| lane.number == number)
        else {
            return;
        };
        if lane.cut.is_some() {
            lane.stopped = Some(code).filter(|code| *code != StreamCode::Whole);
            if let Some(stream) = self.heal_lane(id, number) {
                transport.reset(stream, StreamCode::Cancelled);
            }
            return;
        }
        let front = lane.queue.front().copied();
        let begun = front.filter(|front| {
            let sending = self.sendings.get(front.index()).and_then(Option::as_ref);
            sending.is_some_and(Sending::has_begun)
        });
        if begun.is_none() {
            lane.stopped = Some(code);
        }
        self.reset_lane(id, transport);
        if let Some(front) = begun {
            self.cancel(front, Outcome::Refused(code));
            self.settle(transport);
        }
    }
}
