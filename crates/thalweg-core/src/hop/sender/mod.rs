//! What one link sends: the outbox, and the streams and datagrams of its transport.
//!
//! *The idea.* The [`Outbox`] says which bytes go next, the transport takes them, and this brings the two together: it
//! keeps payloads, opens a stream for an ADU when its first chunk goes, and knows what became of each. It is asked again
//! before every chunk, so that what is handed over is decided as late as can be.
//!
//! ```text
//! push ─► outbox ─► chunk ─► a stream of its own ─► acknowledged, refused
//!                        └─► one datagram        ─► departed
//!                        └─► its sequence's lane ─► departed; finishing the lane says whether all has arrived
//!            any time ─► expired · pre-empted · dependant · cancelled: what was begun is reset
//! ```
//!
//! Two drivers run it: `thalweg-net` on a real connection, `thalweg-sim` on a virtual one. What they say of time and of
//! the transport is all it knows.
//!
//! | file | idea |
//! |---|---|
//! | `sending` | one ADU that has no outcome yet |
//! | `chunk` | handing over a chunk |
//! | `flow` | who shares the link with whom |
//! | `lane` | ordered sequences |
//! | [`room`] | those that would wait rather than be dropped |
//! | `transport` | what is needed of the connection |
//!
//! *What it does not do.* It does not choose among ADUs (the outbox does), sends none again on another link, and makes no
//! producer wait.
//!
//! *Sources.* docs/outbox.md; docs/protocol.md §2.2; spec PL-2 to PL-10.

mod chunk;
mod flow;
pub mod knock;
mod lane;
pub mod room;
mod sending;
#[cfg(test)]
mod tests;
mod transport;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;

pub use self::transport::{Datagram, PathRate, StreamEvent, Transport, Written};
pub use crate::outbox::Ticket;

use self::flow::{Flow, FlowKey};
use self::knock::Knock;
use self::lane::Lanes;
use self::sending::{Sending, Step};
use super::rank::Ranks;
use super::{Carriage, OrderedId, Outcome, Pieces, SendOptions, StreamCode};
use crate::adu::Header;
use crate::event::DropCause;
use crate::limits::ADU_PAYLOAD_BYTES_MAX;
use crate::needs::Order;
use crate::outbox::{Entry, Outbox, Settings};
use crate::time::{Duration, Instant};
use crate::trace::Trace;
use crate::units::{Bitrate, DataSize};

/// How often the path's rate is asked for: chunks of 2 ms follow it soon enough.
const PATH_LOOK: Duration = Duration::from_millis(10);

/// What the path may turn out to carry, over the estimate: an estimate is low after a loss that was an accident.
const CEILING_FACTOR: u64 = 2;

/// How long it takes until a rate that was measured is forgotten.
const CEILING_FADE: Duration = Duration::from_secs(10);

/// What one link sends.
///
/// `D` is what the driver keeps with each ADU and gets back with its outcome.
#[derive(Debug)]
pub struct Sender<S, D> {
    outbox: Outbox,
    flows: BTreeMap<FlowKey, Flow>,
    /// By the index of the ticket.
    sendings: Vec<Option<Sending<S, D>>>,
    lanes: Lanes<S>,
    ranks: Ranks,
    /// Streams of one ADU whose end the peer has not acknowledged.
    streams: u32,
    /// When the path's rate was last asked for.
    looked: Instant,
    /// The highest rate of late, with something on top.
    ceiling: Bitrate,
    /// How long a byte is on its way at least.
    transit: Duration,
    knock: Knock,
    events: VecDeque<Event<D>>,
    /// Where headers are laid down.
    scratch: Vec<u8>,
}

/// Whose a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// One ADU's.
    Adu(Ticket),
    /// An ordered sequence's; the number tells its streams apart, for one that was reset is followed by another.
    Lane(OrderedId, u64),
}

/// What a sender has to say.
#[derive(Debug)]
pub enum Event<D> {
    /// What became of an ADU; exactly one for each that was pushed.
    Outcome {
        /// What was pushed with it.
        data: D,
        /// Its header.
        header: Header,
        /// What became of it.
        outcome: Outcome,
    },
    /// An ordered sequence that was finished: `Acknowledged` if the peer has all of it.
    OrderedEnded {
        /// Which.
        id: OrderedId,
        /// What became of it.
        outcome: Outcome,
    },
}

/// Why a sender hands over nothing more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing waits that can be sent.
    Idle,
    /// There is not credit enough for what is next.
    Credit,
    /// The transport takes no more, whatever the credit.
    Blocked,
}

/// A payload, as far as it is here.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// How many bytes it will have.
    pub payload_bytes: usize,
    /// Those that are here.
    pub chunks: Pieces,
    /// What the nodes before say of it, if it is traced; this one's stamp follows when its first chunk goes.
    pub trace: Option<Box<Trace>>,
}

impl From<Bytes> for Arrived {
    fn from(payload: Bytes) -> Self {
        Self {
            payload_bytes: payload.len(),
            chunks: payload.into(),
            trace: None,
        }
    }
}

impl<S: Copy, D> Sender<S, D> {
    /// Returns a sender with nothing to send.
    pub fn new(settings: Settings) -> Self {
        Self {
            outbox: Outbox::new(settings),
            flows: BTreeMap::new(),
            sendings: Vec::new(),
            lanes: Lanes::default(),
            ranks: Ranks::default(),
            streams: 0,
            looked: Instant::ZERO,
            ceiling: Bitrate::ZERO,
            transit: Duration::ZERO,
            knock: Knock::NONE,
            events: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes an ADU; what becomes of it is an [`Event::Outcome`], perhaps at once.
    ///
    /// The header's deadline is on the clock of `now`; what is left of it goes on the wire when its first chunk does. An ADU
    /// that goes on a stream, its own or a lane's, may still be arriving.
    ///
    /// Returns the name of the ADU, unless it has ended already.
    /// Cost    O(log n) for n ADUs of its flow, and O(log flows)
    /// Fails   panics if an ADU for a datagram is not whole (a caller's bug)
    pub fn push(
        &mut self,
        now: Instant,
        header: Header,
        payload: Arrived,
        options: SendOptions,
        data: D,
    ) -> Option<Ticket> {
        let is_lane = matches!(options.carriage, Carriage::Ordered(_));
        let mut sending = Sending::new(header, payload, &options, data);
        if let Some(trace) = &mut sending.trace {
            trace.queue(now, self.transit);
        }
        assert!(
            sending.is_whole() || options.carriage != Carriage::Datagram,
            "what goes in a datagram must be here"
        );
        if sending.payload_bytes > ADU_PAYLOAD_BYTES_MAX {
            self.end(sending, Outcome::TooLarge);
            return None;
        }
        if let Carriage::Ordered(id) = options.carriage
            && !self.lanes.admits(id)
        {
            self.end(sending, Outcome::Overflow);
            return None;
        }
        let key = FlowKey::of(&header, options.carriage);
        let order = if is_lane {
            Order::Sequence
        } else {
            options.order
        };
        let Some(flow) = self.flow(now, key, order, options.weight) else {
            self.end(sending, Outcome::Overflow);
            return None;
        };
        let entry = Entry {
            available_bytes: sending.available_bytes(),
            ..Entry::arriving(&header, sending.payload_bytes)
        };
        match self.outbox.push(now, flow, entry) {
            Ok(ticket) => {
                self.enter(now, key, ticket, sending);
                Some(ticket)
            }
            Err(refused) => {
                self.end(sending, Outcome::dropped(refused.drop_cause()));
                None
            }
        }
    }

    /// Takes more of a payload that arrives; returns whether its ADU is still being sent.
    ///
    /// More than was announced is not taken.
    pub fn push_chunk(&mut self, ticket: Ticket, chunk: Bytes) -> bool {
        let Some(sending) = self.sending(ticket) else {
            return false;
        };
        sending.push(chunk);
        let available = sending.available_bytes();
        self.outbox.handle_available(ticket, available)
    }

    /// Gives an ADU up because whoever has its payload does not want it sent any more, or cannot give the rest.
    ///
    /// Returns whether it had not ended.
    pub fn cancel(&mut self, ticket: Ticket, outcome: Outcome) -> bool {
        let Some(sending) = self.sending(ticket) else {
            return false;
        };
        sending.verdict = Some(outcome);
        let cause = outcome.drop_cause().unwrap_or(DropCause::Cancelled);
        self.outbox.cancel(ticket, cause)
    }

    /// Hands the transport what it can send now, and settles with it what has ended; returns why that was all.
    ///
    /// Cost    O(log n) a chunk
    pub fn pump(&mut self, now: Instant, transport: &mut impl Transport<Stream = S>) -> Pause {
        self.look_at_path(now, transport);
        if self.knock.is_due(now, transport.heard()) {
            transport.let_one_through();
        }
        let pause = loop {
            let chunk = if self.outbox.has_chunk(now) {
                self.outbox.poll_chunk(now, transport.credit())
            } else {
                None
            };
            // Those that have expired make way, on the line too.
            self.settle(transport);
            let Some(chunk) = chunk else {
                break if self.outbox.is_waiting() {
                    Pause::Credit
                } else {
                    Pause::Idle
                };
            };
            if self.hand_over(now, transport, &chunk) == Step::Blocked {
                break Pause::Blocked;
            }
        };
        self.settle(transport);
        self.finish_lanes(transport);
        let waits = pause == Pause::Credit;
        self.knock.handle_pause(now, waits, self.transit);
        pause
    }

    /// Takes what the transport says of a stream.
    pub fn handle_stream_event(
        &mut self,
        owner: Owner,
        event: StreamEvent,
        transport: &mut impl Transport<Stream = S>,
    ) {
        match event {
            StreamEvent::Acknowledged => self.handle_acknowledged(owner, transport),
            StreamEvent::Stopped(code) => self.handle_stopped(owner, code, transport),
            StreamEvent::Writable => self.handle_writable(owner),
        }
    }

    /// Takes word that the peer has all of a stream that was finished.
    pub fn handle_acknowledged(
        &mut self,
        owner: Owner,
        transport: &mut impl Transport<Stream = S>,
    ) {
        match owner {
            Owner::Adu(ticket) => self.arrived(ticket, transport),
            Owner::Lane(id, number) => {
                self.lane_ended(id, number, Outcome::Acknowledged, transport);
            }
        }
    }

    /// Takes word that the peer wants no more of a stream.
    pub fn handle_stopped(
        &mut self,
        owner: Owner,
        code: StreamCode,
        transport: &mut impl Transport<Stream = S>,
    ) {
        match owner {
            // With every byte there, the peer needs no end of the stream.
            Owner::Adu(ticket) if code == StreamCode::Whole && self.outbox.has_departed(ticket) => {
                self.arrived(ticket, transport);
            }
            Owner::Adu(ticket) => {
                self.cancel(ticket, Outcome::Refused(code));
                self.settle(transport);
            }
            Owner::Lane(id, number) => self.lane_stopped(id, number, code, transport),
        }
    }

    /// Takes word that a stream whose reader did not read can be written again.
    pub fn handle_writable(&mut self, owner: Owner) {
        let ticket = match owner {
            Owner::Adu(ticket) => Some(ticket),
            Owner::Lane(id, _) => self.lanes.front(id),
        };
        if let Some(ticket) = ticket {
            self.outbox.set_blocked(ticket, false);
        }
    }

    /// Ends a sequence after what is queued of it; [`Event::OrderedEnded`] says when the peer has it.
    pub fn finish_ordered(&mut self, id: OrderedId) {
        if !self.lanes.finish(id) {
            let outcome = Outcome::Acknowledged;
            self.events.push_back(Event::OrderedEnded { id, outcome });
        }
    }

    /// Ends every sequence.
    pub fn finish_all_ordered(&mut self) {
        self.lanes.finish_all();
    }

    /// Ends everything: the connection is gone.
    pub fn lose(&mut self) {
        self.outbox.cancel_all(DropCause::PathLost);
        while let Some(dropped) = self.outbox.poll_drop() {
            self.end_at(dropped.ticket, Outcome::LinkLost);
        }
        for id in core::mem::take(&mut self.lanes).into_finishing() {
            let outcome = Outcome::LinkLost;
            self.events.push_back(Event::OrderedEnded { id, outcome });
        }
        self.streams = 0;
    }

    /// Returns when to pump at the latest, for then an ADU expires, or the peer has said nothing for too long.
    pub fn poll_timeout(&self) -> Instant {
        self.outbox.poll_timeout().min(self.knock.poll_timeout())
    }

    /// Returns what has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event<D>> {
        self.events.pop_front()
    }

    /// Returns how many ADUs have no outcome yet.
    pub const fn len(&self) -> usize {
        self.outbox.len()
    }

    /// Returns whether every ADU has its outcome and every sequence that was finished has ended.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && !self.lanes.is_finishing()
    }

    /// Gives out how many bytes were given up since this was last asked for want of the path ([`Outbox::take_crowded_out`]).
    pub fn take_crowded_out(&mut self) -> DataSize {
        self.outbox.take_crowded_out()
    }

    /// Returns the queue, to look at.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn sending(&mut self, ticket: Ticket) -> Option<&mut Sending<S, D>> {
        let sending = self.sendings.get_mut(ticket.index())?.as_mut()?;
        (sending.ticket == Some(ticket)).then_some(sending)
    }

    /// Takes in what the path can send, at most every [`PATH_LOOK`].
    fn look_at_path(&mut self, now: Instant, transport: &impl Transport<Stream = S>) {
        let apart = now.saturating_since(self.looked);
        if apart < PATH_LOOK {
            return;
        }
        self.looked = now;
        let path = transport.path_rate();
        self.outbox.set_packet(path.packet);
        self.outbox.set_rate(path.sendable);
        self.outbox.set_transit(path.transit);
        self.transit = path.transit;
        if path.has_been_full {
            let sendable = path.sendable.unwrap_or(Bitrate::ZERO).as_bps();
            let faded = apart.as_nanos().min(CEILING_FADE.as_nanos());
            let before = self.ceiling.as_bps();
            let lost = u128::from(before) * u128::from(faded) / u128::from(CEILING_FADE.as_nanos());
            let kept = before - lost as u64;
            self.ceiling = Bitrate::from_bps(kept.max(sendable.saturating_mul(CEILING_FACTOR)));
            self.outbox.set_ceiling(Some(self.ceiling));
        } else if self.ceiling > Bitrate::ZERO {
            // Another path than the one that had been: how much it carries nobody has tried.
            self.ceiling = Bitrate::ZERO;
            self.outbox.set_ceiling(None);
        }
    }

    /// Ends an ADU that the peer has.
    fn arrived(&mut self, ticket: Ticket, transport: &mut impl Transport<Stream = S>) {
        if !self.outbox.finish(ticket) {
            return;
        }
        if let Some(sending) = self.sending(ticket)
            && let Some(stream) = sending.stream.take()
        {
            self.streams -= 1;
            transport.forget(stream);
        }
        self.end_at(ticket, Outcome::Acknowledged);
    }

    fn enter(&mut self, now: Instant, key: FlowKey, ticket: Ticket, mut sending: Sending<S, D>) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.live += 1;
            flow.used = now;
        }
        if key.is_lane {
            self.lanes.push(key.id, ticket);
        }
        sending.ticket = Some(ticket);
        let index = ticket.index();
        if self.sendings.len() <= index {
            self.sendings.resize_with(index + 1, || None);
        }
        self.sendings[index] = Some(sending);
    }

    /// Tells what became of those that the outbox has given up, and takes them off the line.
    fn settle(&mut self, transport: &mut impl Transport<Stream = S>) {
        while let Some(dropped) = self.outbox.poll_drop() {
            let Some(sending) = self.sending(dropped.ticket) else {
                continue;
            };
            let outcome = sending
                .verdict
                .take()
                .unwrap_or(Outcome::dropped(dropped.cause));
            if let Some(stream) = sending.stream.take() {
                self.streams -= 1;
                transport.reset(stream, reset_code(outcome));
            }
            if let Carriage::Ordered(id) = self.carriage(dropped.ticket) {
                self.leave_lane(id, dropped.ticket, transport);
            }
            self.end_at(dropped.ticket, outcome);
        }
    }

    fn carriage(&self, ticket: Ticket) -> Carriage {
        let sending = self.sendings.get(ticket.index()).and_then(Option::as_ref);
        sending.map_or(Carriage::Stream, |sending| sending.carriage)
    }

    /// Says what became of an ADU that is no longer in the outbox.
    fn end_at(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(sending) = self.sendings.get_mut(ticket.index()).and_then(Option::take) else {
            return;
        };
        let key = FlowKey::of(&sending.header, sending.carriage);
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.live -= 1;
        }
        self.end(sending, outcome);
    }

    fn end(&mut self, sending: Sending<S, D>, outcome: Outcome) {
        self.events.push_back(Event::Outcome {
            data: sending.data,
            header: sending.header,
            outcome,
        });
    }
}

/// Returns what the peer is told of an ADU that is given up half sent.
const fn reset_code(outcome: Outcome) -> StreamCode {
    match outcome {
        Outcome::Expired => StreamCode::Expired,
        _ => StreamCode::Cancelled,
    }
}
