//! What one link sends: joins the outbox with the streams and datagrams of a transport.
//!
//! *The idea.* The [`Outbox`] decides which bytes go next, the transport takes them, and the sender
//! connects the two. It keeps payloads, opens a stream for an ADU when its first chunk goes, and
//! reports the outcome of each. It asks the outbox before every chunk, so that each decision is
//! made as late as possible.
//!
//! ```text
//! push ─► outbox ─► chunk ─► a stream of its own ─► acknowledged, refused
//!                        └─► one datagram        ─► departed
//!                        └─► its sequence's lane ─► departed; finish shows whether all arrived
//!            any time ─► expired · pre-empted · dependant · cancelled: a stream that has begun is reset
//! ```
//!
//! Two drivers run it: `thalweg-net` on a real connection, `thalweg-sim` on a virtual one. Time and
//! transport are known only from them.
//!
//! | file | idea |
//! |---|---|
//! | `sending` | one ADU that has no outcome yet |
//! | `chunk` | handing over a chunk |
//! | `flow` | the flows that share the link |
//! | `lane` | ordered sequences |
//! | [`room`] | room for ADUs that wait rather than be dropped |
//! | `transport` | the interface of the connection |
//!
//! *What it does not do.* It does not choose among ADUs (the outbox does), resends nothing on
//! another link, and makes no producer wait.
//!
//! *Sources.* docs/concepts/outbox.md; docs/reference/protocol.md §2.2; spec PL-2 to PL-10.

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
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use bytes::Bytes;

pub use self::transport::{Datagram, PathRate, StreamEvent, Transport, Written};
pub use crate::outbox::Ticket;

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::{Bitrate, DataSize};

use self::flow::{FlowKey, FlowPlace, Flows};
use self::knock::ProbeTimer;
use self::lane::Lanes;
use self::sending::{Heads, PendingAdu, Step};
use super::rank::Ranks;
use super::{Carriage, OrderedId, Outcome, Pieces, SendOptions, StreamCode};
use crate::outbox::{Entry, FlowId, Outbox, Settings};

/// Interval between reads of the path's rate: chunks of 2 ms follow it soon enough.
const PATH_READ_INTERVAL: Duration = Duration::from_millis(10);

/// Ceiling of a path over its estimated rate: the estimate is low after an accidental loss.
const CEILING_FACTOR: u64 = 2;

/// How long it takes until a measured ceiling has decayed.
const CEILING_FADE: Duration = Duration::from_secs(10);

/// What one link sends.
///
/// `D` is the driver's data for each ADU, returned with its outcome.
#[derive(Debug)]
pub struct Sender<S, D> {
    outbox: Outbox,
    flows: Flows,
    /// By the index of the ticket.
    pending: Vec<Option<PendingAdu<S, D>>>,
    lanes: Lanes<S>,
    ranks: Ranks,
    /// Streams of single ADUs that the peer has not acknowledged to the end.
    streams: u32,
    /// When the path's rate was last read.
    path_read_at: Instant,
    /// The highest recent rate times [`CEILING_FACTOR`], decaying.
    ceiling: Bitrate,
    /// Minimum one-way delay.
    transit: Duration,
    probe_timer: ProbeTimer,
    events: VecDeque<Event<D>>,
    heads: Heads,
}

/// The owner of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A single ADU.
    Adu(Ticket),
    /// An ordered sequence. The number tells its streams apart, for a reset stream is followed by
    /// another.
    Lane(OrderedId, u64),
}

/// What a sender reports.
#[derive(Debug)]
pub enum Event<D> {
    /// The end of an ADU; exactly one for each that was pushed.
    Outcome {
        /// The driver's data.
        data: D,
        /// Its header.
        header: Header,
        /// What became of it.
        outcome: Outcome,
    },
    /// The end of a finished ordered sequence: `Acknowledged` if the peer has all of it.
    OrderedEnded {
        /// The sequence.
        id: OrderedId,
        /// What became of it.
        outcome: Outcome,
    },
}

/// Why a sender hands over nothing more for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing that can be sent is queued.
    Idle,
    /// The next chunk exceeds the credit.
    Credit,
    /// The transport takes no more, whatever the credit.
    Blocked,
}

/// A payload, as far as it has arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Its final length.
    pub payload_bytes: usize,
    /// The bytes that have arrived.
    pub chunks: Pieces,
    /// The stamps of earlier nodes, if it is traced; this node's stamp is added when its first
    /// chunk goes.
    pub trace: Option<Box<Trace>>,
}

impl Arrived {
    /// Returns how many bytes of the payload have arrived.
    fn available_bytes(&self) -> usize {
        self.chunks.bytes().min(self.payload_bytes)
    }
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
    /// Returns a sender with nothing queued.
    pub fn new(settings: Settings) -> Self {
        Self {
            outbox: Outbox::new(settings),
            flows: Flows::default(),
            pending: Vec::new(),
            lanes: Lanes::default(),
            ranks: Ranks::default(),
            streams: 0,
            path_read_at: Instant::ZERO,
            ceiling: Bitrate::ZERO,
            transit: Duration::ZERO,
            probe_timer: ProbeTimer::NONE,
            events: VecDeque::new(),
            heads: Heads::default(),
        }
    }

    /// Queues an ADU; its end is an [`Event::Outcome`], perhaps at once.
    ///
    /// The header's deadline is on the clock of `now`; the remaining time goes on the wire with its
    /// first chunk. An ADU on a stream, its own or a lane's, may still be arriving.
    ///
    /// Returns the ADU's ticket, unless it has ended already.
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
        match self.queue(now, &header, &payload, &options) {
            Ok((ticket, flow)) => {
                let mut adu = PendingAdu::new(header, payload, &options, data, (ticket, flow));
                if let Some(trace) = &mut adu.trace {
                    // The wait in the outbox starts here.
                    trace.queue(now, self.transit);
                }
                let index = ticket.index();
                if self.pending.len() <= index {
                    self.pending.resize_with(index + 1, || None);
                }
                self.pending[index] = Some(adu);
                Some(ticket)
            }
            Err(outcome) => {
                self.events.push_back(Event::Outcome {
                    data,
                    header,
                    outcome,
                });
                None
            }
        }
    }

    /// Queues an ADU in the outbox; fails with its outcome.
    fn queue(
        &mut self,
        now: Instant,
        header: &Header,
        payload: &Arrived,
        options: &SendOptions,
    ) -> Result<(Ticket, FlowPlace), Outcome> {
        let available_bytes = payload.available_bytes();
        assert!(
            available_bytes == payload.payload_bytes || options.carriage != Carriage::Datagram,
            "an ADU for a datagram must be whole"
        );
        if payload.payload_bytes > ADU_PAYLOAD_BYTES_MAX {
            return Err(Outcome::TooLarge);
        }
        // A lane has one order whatever the options say: its stream is first in, first out.
        let (lane, order) = match options.carriage {
            Carriage::Ordered(id) => (Some(id), Order::Sequence),
            Carriage::Stream | Carriage::Datagram => (None, options.order),
        };
        if lane.is_some_and(|id| !self.lanes.admits(id)) {
            return Err(Outcome::Overflow);
        }
        let key = FlowKey::of(header, options.carriage);
        let terms = (order, options.weight);
        let flow = self.flows.find_or_open(now, key, terms, &mut self.outbox);
        let (place, flow) = flow.ok_or(Outcome::Overflow)?;
        let entry = Entry {
            available_bytes,
            ..Entry::arriving(header, payload.payload_bytes)
        };
        let pushed = self.outbox.push(now, flow, entry);
        let ticket = pushed.map_err(|refused| Outcome::dropped(refused.drop_cause()))?;
        self.flows.handle_queued(now, place);
        if let Some(id) = lane {
            self.lanes.push(id, ticket);
        }
        Ok((ticket, place))
    }

    /// Appends to a payload that is arriving; returns whether its ADU is still being sent.
    ///
    /// Bytes beyond the announced length are ignored.
    pub fn push_chunk(&mut self, ticket: Ticket, chunk: Bytes) -> bool {
        let Some(adu) = self.pending_adu(ticket) else {
            return false;
        };
        adu.push(chunk);
        let available = adu.available_bytes();
        self.outbox.handle_available(ticket, available)
    }

    /// Cancels an ADU that its upstream or program no longer wants sent, or cannot complete.
    ///
    /// Returns whether it was still pending.
    pub fn cancel(&mut self, ticket: Ticket, outcome: Outcome) -> bool {
        let Some(adu) = self.pending_adu(ticket) else {
            return false;
        };
        adu.outcome_override = Some(outcome);
        let cause = outcome.drop_cause().unwrap_or(DropCause::Cancelled);
        self.outbox.cancel(ticket, cause)
    }

    /// Hands the transport what it can send now, and reports what has ended; returns why it stopped.
    ///
    /// Cost    O(log n) a chunk
    pub fn pump(&mut self, now: Instant, transport: &mut impl Transport<Stream = S>) -> Pause {
        self.read_path_rate(now, transport);
        if self.probe_timer.is_due(now, transport.heard()) {
            transport.let_one_through();
        }
        let pause = loop {
            // Credit costs a look at the connection, so it is asked for only if something is queued.
            let chunk = if self.outbox.has_chunk(now) {
                self.outbox.poll_chunk(now, transport.credit())
            } else {
                None
            };
            // Expired ADUs make room, on the line too.
            self.report_drops(transport);
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
        self.report_drops(transport);
        self.finish_lanes(transport);
        // Only a lack of credit calls for a probe: an idle or blocked link has other reasons for
        // silence.
        let waits = pause == Pause::Credit;
        self.probe_timer.handle_pause(now, waits, self.transit);
        pause
    }

    /// Handles an event of a stream.
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

    /// Handles that the peer has all of a finished stream.
    pub fn handle_acknowledged(
        &mut self,
        owner: Owner,
        transport: &mut impl Transport<Stream = S>,
    ) {
        match owner {
            Owner::Adu(ticket) => self.finish_adu(ticket, transport),
            Owner::Lane(id, number) => {
                self.lane_ended(id, number, Outcome::Acknowledged, transport);
            }
        }
    }

    /// Handles that the peer stopped a stream.
    pub fn handle_stopped(
        &mut self,
        owner: Owner,
        code: StreamCode,
        transport: &mut impl Transport<Stream = S>,
    ) {
        match owner {
            // The peer has every byte and needs no end of the stream.
            Owner::Adu(ticket) if code == StreamCode::Whole && self.outbox.has_departed(ticket) => {
                self.finish_adu(ticket, transport);
            }
            Owner::Adu(ticket) => {
                self.cancel(ticket, Outcome::Refused(code));
                self.report_drops(transport);
            }
            Owner::Lane(id, number) => self.lane_stopped(id, number, code, transport),
        }
    }

    /// Handles that a stream that its reader had blocked can be written again.
    pub fn handle_writable(&mut self, owner: Owner) {
        let ticket = match owner {
            Owner::Adu(ticket) => Some(ticket),
            Owner::Lane(id, _) => self.lanes.front(id),
        };
        if let Some(ticket) = ticket {
            self.outbox.set_blocked(ticket, false);
        }
    }

    /// Returns the flows, each with its stream and plan.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, OrderedId)> + '_ {
        self.flows.iter()
    }

    /// Changes a flow's weight on the link; returns whether the flow exists.
    pub fn set_weight(&mut self, id: OrderedId, weight: NonZeroU8) -> bool {
        self.flows.set_weight(id, weight, &mut self.outbox)
    }

    /// Forgets idle flows, and finishes the streams of their lanes.
    pub fn sweep(&mut self, now: Instant, transport: &mut impl Transport<Stream = S>) {
        self.flows.sweep(now, &mut self.outbox);
        let is_used = |id| self.flows.has_lane(id);
        self.lanes.finish_idle(is_used, transport);
    }

    /// Ends a sequence after its queued ADUs; [`Event::OrderedEnded`] reports when the peer has it.
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
            self.end_ticket(dropped.ticket, Outcome::LinkLost);
        }
        for id in core::mem::take(&mut self.lanes).into_finishing() {
            let outcome = Outcome::LinkLost;
            self.events.push_back(Event::OrderedEnded { id, outcome });
        }
        // The streams went with the connection, without resets.
        self.streams = 0;
    }

    /// Returns when to pump at the latest: when an ADU expires, or a probe is due.
    pub fn poll_timeout(&self) -> Instant {
        self.outbox
            .poll_timeout()
            .min(self.probe_timer.poll_timeout())
    }

    /// Returns the next event, in order.
    pub fn poll_event(&mut self) -> Option<Event<D>> {
        self.events.pop_front()
    }

    /// Returns the number of ADUs without an outcome.
    pub const fn len(&self) -> usize {
        self.outbox.len()
    }

    /// Returns whether every ADU has its outcome and every sequence that was finished has ended.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty() && !self.lanes.is_finishing()
    }

    /// Returns the bytes dropped since the last call for want of capacity
    /// ([`Outbox::take_crowded_out`]).
    pub fn take_crowded_out(&mut self) -> DataSize {
        self.outbox.take_crowded_out()
    }

    /// Returns the queue, for inspection.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn pending_adu(&mut self, ticket: Ticket) -> Option<&mut PendingAdu<S, D>> {
        let adu = self.pending.get_mut(ticket.index())?.as_mut()?;
        (adu.ticket == ticket).then_some(adu)
    }

    /// Reads the path's rate, at most every [`PATH_READ_INTERVAL`].
    fn read_path_rate(&mut self, now: Instant, transport: &impl Transport<Stream = S>) {
        let apart = now.saturating_since(self.path_read_at);
        if apart < PATH_READ_INTERVAL {
            return;
        }
        self.path_read_at = now;
        let path = transport.path_rate();
        self.outbox.set_packet(path.packet);
        self.outbox.set_rate(path.sendable);
        self.outbox.set_transit(path.transit);
        self.transit = path.transit;
        if path.has_been_full {
            let sendable = path.sendable.unwrap_or(Bitrate::ZERO).as_bps();
            // Linear decay per read, by the time since the last read over `CEILING_FADE`.
            let faded = apart.as_nanos().min(CEILING_FADE.as_nanos());
            let before = self.ceiling.as_bps();
            let lost = u128::from(before) * u128::from(faded) / u128::from(CEILING_FADE.as_nanos());
            let kept = before - lost as u64;
            self.ceiling = Bitrate::from_bps(kept.max(sendable.saturating_mul(CEILING_FACTOR)));
            self.outbox.set_ceiling(Some(self.ceiling));
        } else if self.ceiling > Bitrate::ZERO {
            // The link moved to another path, with a capacity not yet tested.
            self.ceiling = Bitrate::ZERO;
            self.outbox.set_ceiling(None);
        }
    }

    /// Ends an ADU that the peer has.
    fn finish_adu(&mut self, ticket: Ticket, transport: &mut impl Transport<Stream = S>) {
        if !self.outbox.finish(ticket) {
            return;
        }
        if let Some(adu) = self.pending_adu(ticket)
            && let Some(stream) = adu.stream.take()
        {
            self.streams -= 1;
            transport.forget(stream);
        }
        self.end_ticket(ticket, Outcome::Acknowledged);
    }

    /// Reports the ADUs that the outbox dropped, and resets their streams.
    fn report_drops(&mut self, transport: &mut impl Transport<Stream = S>) {
        while let Some(dropped) = self.outbox.poll_drop() {
            let Some(adu) = self.pending_adu(dropped.ticket) else {
                continue;
            };
            let outcome = adu
                .outcome_override
                .take()
                // The outbox knows fewer reasons than a caller that cancels.
                .unwrap_or(Outcome::dropped(dropped.cause));
            if let Some(stream) = adu.stream.take() {
                self.streams -= 1;
                transport.reset(stream, reset_code(outcome));
            }
            if let Carriage::Ordered(id) = self.carriage(dropped.ticket) {
                self.leave_lane(id, dropped.ticket, transport);
            }
            self.end_ticket(dropped.ticket, outcome);
        }
    }

    fn carriage(&self, ticket: Ticket) -> Carriage {
        let adu = self.pending.get(ticket.index()).and_then(Option::as_ref);
        adu.map_or(Carriage::Stream, |adu| adu.carriage)
    }

    /// Reports the outcome of an ADU that has left the outbox.
    fn end_ticket(&mut self, ticket: Ticket, outcome: Outcome) {
        let Some(adu) = self.pending.get_mut(ticket.index()).and_then(Option::take) else {
            return;
        };
        self.flows.handle_ended(adu.flow);
        self.events.push_back(Event::Outcome {
            data: adu.data,
            header: adu.header,
            outcome,
        });
    }
}

/// Returns the code that resets a half-sent ADU.
const fn reset_code(outcome: Outcome) -> StreamCode {
    match outcome {
        Outcome::Expired => StreamCode::Expired,
        _ => StreamCode::Cancelled,
    }
}
