//! What waits to be sent over one link, and what of it goes next.
//!
//! *The idea.* A queue decides best when it decides last. The outbox holds every ADU of a link until the transport can
//! send it now, and then gives out one chunk: of the flow whose turn it is, by weight; in that flow of what matters most,
//! is due first, came first. A chunk takes the path [`CHUNK_TIME`], so what is urgent overtakes what is large.
//!
//! ```text
//! push ──► flow: importance, deadline, sequence ─┐  turns by weight
//! push ──► flow: first in, first out ────────────┴──► poll_chunk (credit of the Gate) ──► transport ──► finish
//!    │            │ expired · pre-empted · cancelled · dependant                             │
//!    └─ Refused   └──────────────────────────► poll_drop ◄──────────── abort what has begun ─┘
//! ```
//!
//! An ADU is given up at its deadline wherever it is: queued, half handed over, or handed over and not acknowledged. What
//! depends on one that can no longer arrive whole goes with it; of one that was handed over whole that cannot be said. When
//! a bound is reached, the flow that holds most for its weight gives up what it would send last.
//!
//! | file | idea |
//! |---|---|
//! | `entry` | what goes in and comes out |
//! | `admission` | who is let in, and who makes room |
//! | `loss` | leaving early, and who goes along |
//! | `crowd` | what left early because the path is too slow |
//! | `promise` | what can be through in time, and what is worth finishing |
//! | `turns` | whose turn it is: deficit round robin |
//! | `queue`, `spread` | the order within a flow, and deadlines |
//! | `family` | dependants |
//! | `slab` | slots |
//! | [`census`] | what waits, counted for those who ask |
//! | [`gate`] | how much credit there is |
//!
//! *What it does not do.* It holds no payload, opens no stream and knows no clock: its driver does, by tickets. Whoever
//! drives it empties [`Outbox::poll_drop`] after whatever it put in.
//!
//! *Sources.* docs/outbox.md; spec PL-2, PL-3, PL-6, PL-9.

mod admission;
pub mod census;
mod crowd;
mod entry;
mod family;
pub mod gate;
mod loss;
mod promise;
mod queue;
mod slab;
mod spread;
#[cfg(test)]
mod tests;
mod turns;

use alloc::vec::Vec;
use core::num::NonZeroU8;

pub use entry::{Chunk, Dropped, Entry, FlowId, Refused, Ticket};

use self::crowd::Crowd;
use self::family::Families;
use self::queue::Alarms;
use self::slab::{Slab, Slot, State};
use self::turns::{Flow, Turns};
use crate::adu::Importance;
use crate::event::{DropCause, DropCounts};
use crate::id::Sequence;
use crate::limits::{OUTBOX_ADUS_MAX, OUTBOX_BYTES_MAX, OUTBOX_FLOWS_MAX};
use crate::needs::Order;
pub use crate::needs::WEIGHT_USUAL;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

/// How long a chunk occupies the path: what is urgent waits so long at most for the chunk before it.
pub const CHUNK_TIME: Duration = Duration::from_millis(2);

/// The smallest chunk worth a choice: a packet is sent whole anyway.
pub const CHUNK_BYTES_MIN: u32 = 1_200;

/// The largest: on a faster path than 256 Mbit/s it takes less than [`CHUNK_TIME`], and costs no more a byte.
pub const CHUNK_BYTES_MAX: u32 = 64 << 10;

/// The chunk on a path of unknown rate: [`CHUNK_TIME`] at 64 Mbit/s.
pub const CHUNK_BYTES_UNKNOWN: u32 = 16 << 10;

/// Of a packet, what is not payload at most: 13 bytes of header, 15 of frame, the seal's 16, and a frame's own header.
const PACKET_OVERHEAD_BYTES: u64 = 48;

/// What the first chunk of an ADU is charged besides its bytes, so that empty ADUs are not for nothing.
const CHUNK_OVERHEAD_BYTES: u32 = crate::limits::ADU_HEADER_BYTES_MAX as u32;

/// No slot.
const NONE: u32 = u32::MAX;

/// The bounds of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// ADUs that have not ended, those handed over and not acknowledged included.
    pub adus_max: usize,
    /// Bytes of the ADUs of which not all is handed over.
    pub bytes_max: DataSize,
    /// Flows at once.
    pub flows_max: usize,
    /// A number that no peer knows, for the places of sequences in a table.
    pub seed: u64,
}

/// The queue of one link.
#[derive(Debug)]
pub struct Outbox {
    settings: Settings,
    rate: Option<Bitrate>,
    /// How long the path is busy with a chunk.
    chunk_time: Duration,
    ceiling: Option<Bitrate>,
    transit: Duration,
    chunk_bytes: u32,
    /// What a packet carries.
    chunk_least: u32,
    slab: Slab,
    flows: Vec<Flow>,
    free_flows: Vec<u32>,
    turns: Turns,
    alarms: Alarms,
    families: Families,
    /// ADUs that have not ended.
    live: usize,
    queued_bytes: u64,
    stamp: u64,
    drops: DropCounts,
    crowd: Crowd,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            adus_max: OUTBOX_ADUS_MAX,
            bytes_max: OUTBOX_BYTES_MAX,
            flows_max: OUTBOX_FLOWS_MAX,
            seed: 0,
        }
    }
}

impl Outbox {
    /// Returns an empty outbox.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rate: None,
            chunk_time: Duration::ZERO,
            ceiling: None,
            transit: Duration::ZERO,
            chunk_bytes: CHUNK_BYTES_UNKNOWN,
            chunk_least: CHUNK_BYTES_MIN,
            slab: Slab::default(),
            flows: Vec::new(),
            free_flows: Vec::new(),
            turns: Turns::default(),
            alarms: Alarms::EMPTY,
            families: Families::new(settings.seed),
            live: 0,
            queued_bytes: 0,
            stamp: 0,
            drops: DropCounts::ZERO,
            crowd: Crowd::default(),
        }
    }

    /// Begins a flow; none if there are too many.
    pub fn open_flow(&mut self, weight: NonZeroU8, order: Order) -> Option<FlowId> {
        let index = match self.free_flows.pop() {
            Some(index) => {
                let flow = &mut self.flows[index as usize];
                *flow = Flow::new(flow.generation, weight, order);
                index
            }
            None if self.flows.len() < self.settings.flows_max => {
                self.flows.push(Flow::new(0, weight, order));
                self.flows.len() as u32 - 1
            }
            None => return None,
        };
        Some(self.flow_id(index))
    }

    /// Ends a flow; what is left of it is dropped as cancelled.
    ///
    /// Cost    O(slots)
    pub fn close_flow(&mut self, flow: FlowId) {
        let Some(index) = self.find_flow(flow) else {
            return;
        };
        self.drop_where(DropCause::Cancelled, |slot| slot.flow == index);
        self.turns.leave(&mut self.flows, index);
        let flow = &mut self.flows[index as usize];
        flow.is_open = false;
        flow.generation = flow.generation.wrapping_add(1);
        self.free_flows.push(index);
    }

    /// Changes a flow's share of the link from its next turn on; returns whether there is such a flow.
    pub fn set_weight(&mut self, flow: FlowId, weight: NonZeroU8) -> bool {
        let Some(index) = self.find_flow(flow) else {
            return false;
        };
        self.turns.reweigh(&mut self.flows[index as usize], weight);
        true
    }

    /// Takes how large the path's packets are; zero if that is not known.
    ///
    /// On a slow path each chunk finds room for one packet and leaves in it, so it is as long as a packet has room.
    pub fn set_packet(&mut self, packet: DataSize) {
        let carried = packet.as_bytes().saturating_sub(PACKET_OVERHEAD_BYTES);
        self.chunk_least = carried.clamp(CHUNK_BYTES_MIN.into(), CHUNK_BYTES_MAX.into()) as u32;
    }

    /// Takes the estimate of what the path can send, on which depend the size of chunks, and what is begun.
    pub fn set_rate(&mut self, rate: Option<Bitrate>) {
        self.rate = rate;
        self.chunk_bytes = rate.map_or(CHUNK_BYTES_UNKNOWN, |rate| {
            let bytes = (rate * CHUNK_TIME).as_bytes();
            bytes.clamp(self.chunk_least.into(), CHUNK_BYTES_MAX.into()) as u32
        });
        let chunk = DataSize::from_bytes(u64::from(self.chunk_bytes + CHUNK_OVERHEAD_BYTES));
        self.chunk_time = rate.map_or(Duration::ZERO, |rate| rate.time_for(chunk));
    }

    /// Takes what the path can send at most: an ADU that would be late even alone is refused. Without it none is.
    pub fn set_ceiling(&mut self, ceiling: Option<Bitrate>) {
        self.ceiling = ceiling;
    }

    /// Takes how long a byte is on its way at least. What would be late even if it went now does not go.
    ///
    /// It holds for what is pushed from now on, and a quarter of an ADU's time at most: a path may be quick one way and slow
    /// the other.
    pub fn set_transit(&mut self, transit: Duration) {
        self.transit = transit;
    }

    /// Takes an ADU.
    ///
    /// Cost    O(log n) for n ADUs in the flow; no allocation once as many were queued before; when a bound is reached,
    ///         O(flows) besides
    /// Fails   it is of no use, or there is no room; what waits for it here is dropped then
    pub fn push(&mut self, now: Instant, flow: FlowId, entry: Entry) -> Result<Ticket, Refused> {
        let index = self.find_flow(flow).ok_or(Refused::UnknownFlow)?;
        match self.admit(now, index, &entry) {
            Ok(slot) => Ok(self.enter(slot)),
            Err(refused) => {
                self.drops.add(refused.drop_cause());
                self.crowd_out_refused(index, &refused, entry.bytes);
                self.lose(index, entry.sequence.0);
                Err(refused)
            }
        }
    }

    /// Takes word of how many bytes of an ADU are here by now.
    ///
    /// Returns whether the ADU has not ended. Fewer than before, or more than it has, are not believed.
    pub fn handle_available(&mut self, ticket: Ticket, available_bytes: usize) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let available = u32::try_from(available_bytes).map_or(slot.bytes, |b| b.min(slot.bytes));
        if slot.state != State::Queued || available <= slot.available {
            return true;
        }
        self.reshape(index, |slot| slot.available = available);
        true
    }

    /// Takes back the last bytes of what was handed over: the transport took less of the chunk. They are sent again; so is
    /// an empty ADU.
    ///
    /// Returns whether the ADU has not ended. More than was handed over is not believed.
    pub fn handle_unsent(&mut self, ticket: Ticket, bytes: usize) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let bytes = u32::try_from(bytes).map_or(slot.sent, |bytes| bytes.min(slot.sent));
        if slot.bytes == 0 {
            // An empty ADU is handed over by one chunk without a byte.
            slot.begun = false;
        } else if bytes == 0 {
            return true;
        }
        if slot.state == State::Queued {
            self.reshape(index, |slot| slot.sent -= bytes);
            return true;
        }
        slot.sent -= bytes;
        slot.state = State::Queued;
        let (flow_index, whole) = (slot.flow, u64::from(slot.bytes));
        self.queued_bytes += whole;
        self.stamp += 1;
        let flow = &mut self.flows[flow_index as usize];
        flow.bytes += whole;
        flow.queue.insert(&mut self.slab, index, self.stamp);
        self.call(flow_index);
        true
    }

    /// Takes word whether the transport takes no more of this ADU for now, for a reason of its own such as a reader who
    /// does not read: it keeps out of the way of others, and its deadline stands.
    ///
    /// Returns whether the ADU has not ended.
    pub fn set_blocked(&mut self, ticket: Ticket, is_blocked: bool) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        if self.slab[index].state == State::Queued {
            self.reshape(index, |slot| slot.is_blocked = is_blocked);
        }
        true
    }

    /// Changes how much an ADU matters; returns whether it has not ended.
    pub fn set_importance(&mut self, ticket: Ticket, importance: Importance) -> bool {
        self.reorder(ticket, |slot| slot.importance = importance.0)
    }

    /// Changes when an ADU is of no use any more; returns whether it has not ended.
    ///
    /// A deadline that has passed takes effect at the next [`Outbox::handle_timeout`] or [`Outbox::poll_chunk`].
    pub fn set_deadline(&mut self, ticket: Ticket, deadline: Instant) -> bool {
        let change = |slot: &mut Slot| {
            (slot.deadline, slot.send_by) = (deadline, deadline);
            slot.is_doubtful = false;
        };
        if !self.reorder(ticket, change) {
            return false;
        }
        self.stamp += 1;
        self.alarms.set(&mut self.slab, ticket.index, self.stamp);
        true
    }

    /// Gives an ADU up, and its dependants unless all of it was handed over; returns whether it had not ended.
    pub fn cancel(&mut self, ticket: Ticket, cause: DropCause) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        self.drop_with_dependants(index, cause);
        true
    }

    /// Gives everything up.
    pub fn cancel_all(&mut self, cause: DropCause) {
        self.drop_where(cause, |_| true);
    }

    /// Takes word that an ADU has arrived, or that the transport will not say.
    ///
    /// Returns whether that can be: all of it has been handed over, and it has not ended.
    pub fn finish(&mut self, ticket: Ticket) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        if self.slab[index].state != State::Departed {
            return false;
        }
        self.forget(index);
        self.slab.remove(index);
        true
    }

    /// Returns whether all of an ADU has been handed over and its end is not known.
    pub fn has_departed(&self, ticket: Ticket) -> bool {
        let index = self.slab.find(ticket);
        index.is_some_and(|index| self.slab[index].state == State::Departed)
    }

    /// Gives up what is of no use any more.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, index)) = self.alarms.first()
            && at <= now
        {
            self.drop_with_dependants(index, DropCause::Expired);
        }
    }

    /// Returns when the next ADU expires.
    pub fn poll_timeout(&self) -> Instant {
        self.alarms.first().map_or(Instant::NEVER, |(at, _)| at)
    }

    /// Returns whether anything waits that can be handed over, were there credit; what is of no use any more is given up.
    ///
    /// Cost    O(1) but for what is given up: who must ask a transport for credit need not where nothing waits
    pub fn has_chunk(&mut self, now: Instant) -> bool {
        self.handle_timeout(now);
        let next = self
            .turns
            .next(&mut self.flows, &self.slab, self.chunk_bytes);
        self.crowd.is_short &= next.is_some();
        next.is_some()
    }

    /// Returns what to hand over now, within this credit.
    ///
    /// Nothing smaller than a packet is cut off for want of credit.
    ///
    /// Cost    O(log n) for n ADUs in the flow, no allocation
    pub fn poll_chunk(&mut self, now: Instant, credit: DataSize) -> Option<Chunk> {
        self.handle_timeout(now);
        let credit = u32::try_from(credit.as_bytes()).unwrap_or(u32::MAX);
        let (flow_index, index) = loop {
            let (flow, index) = self
                .turns
                .next(&mut self.flows, &self.slab, self.chunk_bytes)?;
            if self.is_hopeless(now, index) {
                self.drop_with_dependants(index, DropCause::Expired);
            } else if !self.puts_off(now, flow, index) {
                break (flow, self.preferred(now, flow, index));
            }
        };
        let slot = &self.slab[index];
        let wanted = slot.sendable()?.min(self.chunk_bytes);
        self.crowd.is_short = credit < wanted.clamp(1, CHUNK_BYTES_MIN);
        if self.crowd.is_short {
            return None;
        }
        let bytes = wanted.min(credit);
        Some(self.hand_over(flow_index, index, bytes))
    }

    /// Returns an ADU that goes no further, other than by being refused.
    pub fn poll_drop(&mut self) -> Option<Dropped> {
        let index = self.slab.take_dropped()?;
        let slot = &self.slab[index];
        let State::Dropped(cause) = slot.state else {
            unreachable!("only the dropped are in that list");
        };
        let dropped = Dropped {
            ticket: self.slab.ticket(index),
            flow: FlowId {
                index: slot.flow,
                generation: slot.flow_generation,
            },
            sequence: Sequence(slot.sequence),
            importance: Importance(slot.importance),
            cause,
            has_begun: slot.begun,
        };
        self.slab.remove(index);
        Some(dropped)
    }

    /// Returns how many ADUs have not ended.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Returns whether every ADU has ended.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns, after [`Outbox::poll_chunk`] had nothing to hand over, whether that was for want of credit.
    pub fn is_waiting(&self) -> bool {
        self.turns.is_anyone()
    }

    /// Returns how many bytes the ADUs have of which not all is handed over.
    pub const fn queued(&self) -> DataSize {
        DataSize::from_bytes(self.queued_bytes)
    }

    /// Returns how large a chunk is at most.
    pub fn chunk(&self) -> DataSize {
        DataSize::from_bytes(self.chunk_bytes.into())
    }

    /// Returns how many ADUs went no further, the refused included.
    pub const fn drops(&self) -> &DropCounts {
        &self.drops
    }

    fn flow_id(&self, index: u32) -> FlowId {
        FlowId {
            index,
            generation: self.flows[index as usize].generation,
        }
    }

    fn find_flow(&self, flow: FlowId) -> Option<u32> {
        let found = self.flows.get(flow.index as usize)?;
        (found.is_open && found.generation == flow.generation).then_some(flow.index)
    }

    /// Takes a flow into the turns if it has something to send.
    fn join(&mut self, flow: u32) {
        if self.flows[flow as usize].queue.first(&self.slab).is_some() {
            self.turns.join(&mut self.flows, flow, self.chunk_bytes);
        }
    }

    /// The same for a flow that has more to send than before: what is urgent calls.
    fn call(&mut self, flow: u32) {
        let queue = &mut self.flows[flow as usize].queue;
        if let Some(first) = queue.first(&self.slab) {
            let rank = queue.rank(&self.slab[first]);
            self.turns.join(&mut self.flows, flow, self.chunk_bytes);
            self.turns
                .call(&mut self.flows, flow, rank, self.chunk_bytes);
        }
    }

    fn reorder(&mut self, ticket: Ticket, change: impl FnOnce(&mut Slot)) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let queue = &mut self.flows[slot.flow as usize].queue;
        if slot.state != State::Queued || queue.order() == Order::Sequence {
            change(slot);
            return true;
        }
        queue.remove(&mut self.slab, index);
        change(&mut self.slab[index]);
        self.stamp += 1;
        queue.insert(&mut self.slab, index, self.stamp);
        true
    }

    /// Changes what can be sent of a queued ADU.
    fn reshape(&mut self, index: u32, change: impl FnOnce(&mut Slot)) {
        let slot = &self.slab[index];
        let (flow_index, could) = (slot.flow, slot.sendable().is_some());
        let mut changed = slot.clone();
        change(&mut changed);
        let queue = &mut self.flows[flow_index as usize].queue;
        let can = changed.sendable().is_some();
        let moves = queue.order() == Order::Importance && can != could;
        if moves {
            queue.remove(&mut self.slab, index);
            changed.place = 0;
        }
        self.slab[index] = changed;
        if moves {
            self.stamp += 1;
            queue.insert(&mut self.slab, index, self.stamp);
        }
        if can && !could {
            self.call(flow_index);
        }
    }

    /// Hands over the next bytes of the ADU whose turn it is.
    fn hand_over(&mut self, flow_index: u32, index: u32, bytes: u32) -> Chunk {
        let slot = &mut self.slab[index];
        let (start, is_first) = (slot.sent, !slot.begun);
        slot.sent += bytes;
        slot.begun = true;
        let is_last = slot.sent == slot.bytes;
        let whole = u64::from(slot.bytes);
        let is_dry = slot.sendable().is_none();
        let flow = &mut self.flows[flow_index as usize];
        let rank = flow.queue.rank(slot);
        if is_last {
            slot.state = State::Departed;
            flow.queue.take(&mut self.slab, index);
            flow.bytes -= whole;
            self.queued_bytes -= whole;
        } else {
            flow.begun = Some(self.slab.ticket(index));
            if is_dry && flow.queue.order() == Order::Importance {
                flow.queue.take(&mut self.slab, index);
                self.stamp += 1;
                flow.queue.insert(&mut self.slab, index, self.stamp);
            }
        }
        let overhead = if is_first { CHUNK_OVERHEAD_BYTES } else { 0 };
        self.turns.charge(&mut self.flows, rank, bytes + overhead);
        Chunk {
            ticket: self.slab.ticket(index),
            flow: self.flow_id(flow_index),
            range: start as usize..(start + bytes) as usize,
            is_first,
            is_last,
        }
    }
}
