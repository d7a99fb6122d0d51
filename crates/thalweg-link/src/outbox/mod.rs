//! The send queue of one link: which bytes go next.
//!
//! *The idea.* A queue decides best when it decides last. The outbox holds every ADU of a link
//! until the transport can send it now, and then returns one chunk: from the flow that has the turn,
//! by weight, and within that flow from the ADU that is most important, due first, queued first. A
//! chunk takes [`CHUNK_TIME`] of the path, so an urgent ADU overtakes a large one.
//!
//! ```text
//! push ──► flow: importance, deadline, sequence ─┐  turns by weight
//! push ──► flow: first in, first out ────────────┴──► poll_chunk (within credit) ──► transport ──► finish
//!    │            │ expired · pre-empted · cancelled · dependant                             │
//!    └─ Refused   └──────────────────────────► poll_drop ◄──────────── abort what has begun ─┘
//! ```
//!
//! An ADU is dropped at its deadline in any state: queued, half handed over, or handed over and not
//! acknowledged. Its dependants go with it once it can no longer arrive whole, so not if it was
//! handed over whole. At a bound, the flow that holds most for its weight drops what it would send
//! last.
//!
//! | file | idea |
//! |---|---|
//! | `entry` | inputs and outputs |
//! | `admission` | which ADUs are accepted, and which make room |
//! | `loss` | drops, with their dependants |
//! | `crowd` | drops because the path is too slow |
//! | `promise` | what can be in time, and what is worth finishing |
//! | `flows` | the flows with their turns |
//! | `turns` | which flow has the turn: deficit round robin |
//! | `queue`, `spread` | the order within a flow, and deadlines |
//! | `family` | dependants |
//! | `slab` | slots |
//! | [`census`] | counts of what is queued, on request |
//! | [`gate`] | the credit |
//!
//! *What it does not do.* It holds no payload, opens no stream and has no clock: its driver has, by
//! tickets. The driver drains [`Outbox::poll_drop`] after every input.
//!
//! *Sources.* docs/concepts/outbox.md; spec PL-2, PL-3, PL-6, PL-9.

mod admission;
pub mod census;
mod crowd;
mod entry;
mod family;
mod flows;
pub mod gate;
mod loss;
mod promise;
mod queue;
mod slab;
mod spread;
#[cfg(test)]
mod tests;
mod turns;

use core::num::NonZeroU8;

pub use entry::{Chunk, Dropped, Entry, FlowId, Refused, Ticket};

use thalweg_base::adu::Importance;
use thalweg_base::event::{DropCause, DropCounts};
use thalweg_base::id::Sequence;
use thalweg_base::limits::{OUTBOX_ADUS_MAX, OUTBOX_BYTES_MAX, OUTBOX_FLOWS_MAX};
use thalweg_base::needs::Order;

use self::census::Census;
use self::crowd::CrowdedOut;
use self::family::Families;
use self::flows::Flows;
use self::promise::Promise;
use self::queue::Deadlines;
use self::slab::{Slab, Slot, State};
pub use thalweg_base::needs::WEIGHT_USUAL;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

/// How long a chunk occupies the path: the longest that an urgent ADU waits for the chunk before it.
pub const CHUNK_TIME: Duration = Duration::from_millis(2);

/// The smallest chunk that is cut: a packet is sent whole anyway.
pub const CHUNK_BYTES_MIN: u32 = 1_200;

/// The largest chunk: above 256 Mbit/s it takes less than [`CHUNK_TIME`], and a larger one saves
/// nothing per byte.
pub const CHUNK_BYTES_MAX: u32 = 64 << 10;

/// The chunk on a path of unknown rate: [`CHUNK_TIME`] at 64 Mbit/s.
pub const CHUNK_BYTES_UNKNOWN: u32 = 16 << 10;

/// Charged for the first chunk of an ADU besides its bytes, so that empty ADUs are not free.
const CHUNK_OVERHEAD_BYTES: u32 = thalweg_base::limits::ADU_HEADER_BYTES_MAX as u32;

/// No slot.
const NONE: u32 = u32::MAX;

/// The bounds of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// ADUs that have not ended, including those handed over and not acknowledged.
    pub adus_max: usize,
    /// Bytes of ADUs that are not handed over whole.
    pub bytes_max: DataSize,
    /// Flows at once.
    pub flows_max: usize,
    /// A secret seed for the hash table of sequences.
    pub seed: u64,
}

/// The queue of one link.
#[derive(Debug)]
pub struct Outbox {
    settings: Settings,
    promise: Promise,
    slab: Slab,
    flows: Flows,
    deadlines: Deadlines,
    families: Families,
    /// ADUs that have not ended.
    live: usize,
    queued_bytes: u64,
    version: u64,
    drops: DropCounts,
    crowd: CrowdedOut,
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
            promise: Promise::UNKNOWN,
            slab: Slab::default(),
            flows: Flows::default(),
            deadlines: Deadlines::EMPTY,
            families: Families::new(settings.seed),
            live: 0,
            queued_bytes: 0,
            version: 0,
            drops: DropCounts::ZERO,
            crowd: CrowdedOut::default(),
        }
    }

    /// Opens a flow; `None` if there are too many.
    pub fn open_flow(&mut self, weight: NonZeroU8, order: Order) -> Option<FlowId> {
        self.flows.open(weight, order, self.settings.flows_max)
    }

    /// Closes a flow; its remaining ADUs are dropped as cancelled.
    ///
    /// Cost    O(slots)
    pub fn close_flow(&mut self, flow: FlowId) {
        let Some(index) = self.flows.find(flow) else {
            return;
        };
        self.drop_where(DropCause::Cancelled, |slot| slot.flow == index);
        self.flows.close(index);
    }

    /// Changes a flow's weight from its next turn on; returns whether the flow exists.
    pub fn set_weight(&mut self, flow: FlowId, weight: NonZeroU8) -> bool {
        let Some(index) = self.flows.find(flow) else {
            return false;
        };
        self.flows.set_weight(index, weight);
        true
    }

    /// Sets the packet size of the path; zero if unknown.
    ///
    /// On a slow path each chunk finds credit for one packet and leaves in it, so a chunk is as
    /// long as a packet's payload.
    pub fn set_packet(&mut self, packet: DataSize) {
        self.promise.set_packet(packet);
    }

    /// Sets the estimated rate of the path, which determines the size of chunks and which ADUs are
    /// begun.
    pub fn set_rate(&mut self, rate: Option<Bitrate>) {
        self.promise.set_rate(rate);
    }

    /// Sets the path's maximum rate: an ADU that would be late even alone is refused. `None`
    /// refuses none.
    pub fn set_ceiling(&mut self, ceiling: Option<Bitrate>) {
        self.promise.set_ceiling(ceiling);
    }

    /// Sets the minimum one-way delay. An ADU that would be late even if it went now does not go.
    ///
    /// It applies to ADUs pushed from now on, and takes at most a quarter of an ADU's time: a path
    /// may be fast one way and slow the other.
    pub fn set_transit(&mut self, transit: Duration) {
        self.promise.set_transit(transit);
    }

    /// Queues an ADU.
    ///
    /// Cost    O(log n) for n ADUs in the flow, O(flows) more at a bound; allocates only for a new maximum
    /// Fails   it is useless, or there is no room; its dependants are then dropped
    pub fn push(&mut self, now: Instant, flow: FlowId, entry: Entry) -> Result<Ticket, Refused> {
        let index = self.flows.find(flow).ok_or(Refused::UnknownFlow)?;
        match self.admit(now, index, &entry) {
            Ok(slot) => Ok(self.insert(slot)),
            Err(refused) => {
                self.drops.add(refused.drop_cause());
                let lost = &mut self.flows[index].lost;
                self.crowd.count_refused(&refused, lost, entry.bytes);
                self.mark_lost(index, entry.sequence.0);
                Err(refused)
            }
        }
    }

    /// Handles how many bytes of an ADU have arrived by now.
    ///
    /// Returns whether the ADU is still pending. A lower count, or one above its length, is ignored
    /// or capped.
    pub fn handle_available(&mut self, ticket: Ticket, available_bytes: usize) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let available = u32::try_from(available_bytes).map_or(slot.bytes, |b| b.min(slot.bytes));
        if slot.state != State::Queued || available <= slot.available {
            return true;
        }
        self.update_sendable(index, |slot| slot.available = available);
        true
    }

    /// Returns the last bytes of a chunk to the queue, because the transport took less; also an
    /// empty ADU.
    ///
    /// Returns whether the ADU is still pending. A count above what was handed over is capped.
    pub fn handle_unsent(&mut self, ticket: Ticket, bytes: usize) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let bytes = u32::try_from(bytes).map_or(slot.sent, |bytes| bytes.min(slot.sent));
        if slot.bytes == 0 {
            // An empty ADU is handed over by one chunk without bytes.
            slot.begun = false;
        } else if bytes == 0 {
            return true;
        }
        if slot.state == State::Queued {
            self.update_sendable(index, |slot| slot.sent -= bytes);
            return true;
        }
        slot.sent -= bytes;
        slot.state = State::Queued;
        let (flow_index, whole) = (slot.flow, u64::from(slot.bytes));
        self.queued_bytes += whole;
        self.version += 1;
        let flow = &mut self.flows[flow_index];
        flow.bytes += whole;
        flow.queue.insert(&mut self.slab, index, self.version);
        self.activate(flow_index);
        true
    }

    /// Sets whether the transport takes no more of this ADU for now, for instance because its
    /// reader has stalled. It then lets others pass, and its deadline stands.
    ///
    /// Returns whether the ADU is still pending.
    pub fn set_blocked(&mut self, ticket: Ticket, is_blocked: bool) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        if self.slab[index].state == State::Queued {
            self.update_sendable(index, |slot| slot.is_blocked = is_blocked);
        }
        true
    }

    /// Changes an ADU's importance; returns whether it is still pending.
    pub fn set_importance(&mut self, ticket: Ticket, importance: Importance) -> bool {
        self.reorder(ticket, |slot| slot.importance = importance.0)
    }

    /// Changes an ADU's deadline; returns whether it is still pending.
    ///
    /// A deadline that has passed takes effect at the next [`Outbox::handle_timeout`] or
    /// [`Outbox::poll_chunk`].
    pub fn set_deadline(&mut self, ticket: Ticket, deadline: Instant) -> bool {
        let change = |slot: &mut Slot| {
            (slot.deadline, slot.send_by) = (deadline, deadline);
            slot.is_postponed = false;
        };
        if !self.reorder(ticket, change) {
            return false;
        }
        self.version += 1;
        self.deadlines
            .set(&mut self.slab, ticket.index, self.version);
        true
    }

    /// Drops an ADU, and its dependants unless it was handed over whole; returns whether it was
    /// still pending.
    pub fn cancel(&mut self, ticket: Ticket, cause: DropCause) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        self.drop_with_dependants(index, cause);
        true
    }

    /// Drops every ADU.
    pub fn cancel_all(&mut self, cause: DropCause) {
        self.drop_where(cause, |_| true);
    }

    /// Ends an ADU that has arrived, or of which the transport will report nothing more.
    ///
    /// Returns whether it was handed over whole and was still pending.
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

    /// Returns whether an ADU is handed over whole and still pending.
    pub fn has_departed(&self, ticket: Ticket) -> bool {
        let index = self.slab.find(ticket);
        index.is_some_and(|index| self.slab[index].state == State::Departed)
    }

    /// Drops expired ADUs.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, index)) = self.deadlines.first()
            && at <= now
        {
            self.drop_with_dependants(index, DropCause::Expired);
        }
    }

    /// Returns when the next ADU expires.
    pub fn poll_timeout(&self) -> Instant {
        self.deadlines.first().map_or(Instant::NEVER, |(at, _)| at)
    }

    /// Returns whether anything could be handed over, given credit; expired ADUs are dropped.
    ///
    /// Cost    O(1) besides the drops: it saves asking a transport for credit while nothing is queued
    pub fn has_chunk(&mut self, now: Instant) -> bool {
        self.handle_timeout(now);
        let next = self.flows.next(&self.slab, self.promise.chunk_bytes());
        if next.is_none() {
            self.crowd.handle_idle();
        }
        next.is_some()
    }

    /// Returns the chunk to hand over now, within this credit.
    ///
    /// Nothing smaller than a packet is cut off for want of credit.
    ///
    /// Cost    O(log n) for n ADUs in the flow, no allocation
    pub fn poll_chunk(&mut self, now: Instant, credit: DataSize) -> Option<Chunk> {
        self.handle_timeout(now);
        let credit = u32::try_from(credit.as_bytes()).unwrap_or(u32::MAX);
        let (flow_index, index) = loop {
            let chunk_bytes = self.promise.chunk_bytes();
            let (flow, index) = self.flows.next(&self.slab, chunk_bytes)?;
            if self.promise.is_too_late(now, &self.slab[index]) {
                self.drop_with_dependants(index, DropCause::Expired);
            } else if !self.postpones(now, flow, index) {
                break (flow, self.choose(now, flow, index));
            }
        };
        let slot = &self.slab[index];
        let wanted = slot.sendable()?.min(self.promise.chunk_bytes());
        let lacks_credit = credit < wanted.clamp(1, CHUNK_BYTES_MIN);
        self.crowd.handle_poll(lacks_credit);
        if lacks_credit {
            return None;
        }
        let bytes = wanted.min(credit);
        Some(self.hand_over(flow_index, index, bytes))
    }

    /// Returns the next ADU that was dropped; refusals are not among them.
    pub fn poll_drop(&mut self) -> Option<Dropped> {
        let index = self.slab.take_dropped()?;
        let slot = &self.slab[index];
        let State::Dropped { cause, .. } = slot.state else {
            unreachable!("only dropped ADUs are in that list");
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

    /// Returns the number of pending ADUs.
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Returns whether no ADU is pending.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns, after [`Outbox::poll_chunk`] returned `None`, whether that was for want of credit.
    pub fn is_waiting(&self) -> bool {
        self.flows.have_turn()
    }

    /// Returns the bytes of ADUs that are not handed over whole.
    pub const fn queued(&self) -> DataSize {
        DataSize::from_bytes(self.queued_bytes)
    }

    /// Returns the largest size of a chunk.
    pub fn chunk(&self) -> DataSize {
        DataSize::from_bytes(self.promise.chunk_bytes().into())
    }

    /// Returns the counts of dropped and refused ADUs.
    pub const fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Returns how many bytes were dropped since the last call that a faster path would have carried.
    pub fn take_crowded_out(&mut self) -> DataSize {
        self.crowd.take()
    }

    /// Counts what is queued now.
    ///
    /// ADUs handed over whole and not acknowledged are not counted, though they are in [`Outbox::len`].
    ///
    /// Cost    O(slots) for as many as were ever in use at once, 3 ns each; two allocations for the flows
    pub fn census(&self) -> Census {
        Census::of(&self.slab, &self.flows)
    }

    /// Lets a flow that has more to send than before take its turn.
    fn activate(&mut self, flow: u32) {
        let chunk_bytes = self.promise.chunk_bytes();
        self.flows.activate(flow, &self.slab, chunk_bytes);
    }

    /// Postpones an ADU that is about to be begun and would be late; returns whether it did.
    ///
    /// Cost    O(log n), once in an ADU's life
    fn postpones(&mut self, now: Instant, flow: u32, index: u32) -> bool {
        let slot = &self.slab[index];
        if slot.begun || slot.is_postponed || self.promise.has_time(now, slot) {
            return false;
        }
        let queue = &self.flows[flow].queue;
        // Nothing could go before it.
        if queue.order() == Order::Sequence || queue.len() == 1 {
            return false;
        }
        let share = |rate| self.flows.share(flow, rate);
        if !self.promise.is_late(now, slot, share) {
            return false;
        }
        let queue = &mut self.flows[flow].queue;
        queue.take(&mut self.slab, index);
        // The flag is part of the sort key: the ADU is inserted again behind its equals.
        self.slab[index].is_postponed = true;
        self.version += 1;
        queue.insert(&mut self.slab, index, self.version);
        true
    }

    /// Returns the ADU of a flow to send from: the first, or the one begun before it that would be
    /// late otherwise.
    fn choose(&self, now: Instant, flow: u32, first: u32) -> u32 {
        let begun = self.flows[flow].begun;
        let begun = begun.and_then(|begun| self.slab.find(begun));
        let Some(begun) = begun.filter(|begun| *begun != first) else {
            return first;
        };
        let (slot, other) = (&self.slab[begun], &self.slab[first]);
        let could_go = slot.state == State::Queued && slot.sendable().is_some();
        let is_by_importance = self.flows[flow].queue.order() == Order::Importance;
        if !could_go || !is_by_importance || slot.importance != other.importance {
            return first;
        }
        let share = |rate| self.flows.share(flow, rate);
        if self.promise.is_urgent(now, [slot, other], share) {
            begun
        } else {
            first
        }
    }

    fn reorder(&mut self, ticket: Ticket, change: impl FnOnce(&mut Slot)) -> bool {
        let Some(index) = self.slab.find(ticket) else {
            return false;
        };
        let slot = &mut self.slab[index];
        let queue = &mut self.flows[slot.flow].queue;
        if slot.state != State::Queued || queue.order() == Order::Sequence {
            change(slot);
            return true;
        }
        queue.remove(&mut self.slab, index);
        change(&mut self.slab[index]);
        self.version += 1;
        queue.insert(&mut self.slab, index, self.version);
        true
    }

    /// Changes what can be sent of a queued ADU.
    fn update_sendable(&mut self, index: u32, change: impl FnOnce(&mut Slot)) {
        let slot = &self.slab[index];
        let (flow_index, could) = (slot.flow, slot.sendable().is_some());
        let mut changed = slot.clone();
        change(&mut changed);
        let queue = &mut self.flows[flow_index].queue;
        let can = changed.sendable().is_some();
        let moves = queue.order() == Order::Importance && can != could;
        if moves {
            queue.remove(&mut self.slab, index);
            changed.queue_version = 0;
        }
        self.slab[index] = changed;
        if moves {
            self.version += 1;
            queue.insert(&mut self.slab, index, self.version);
        }
        if can && !could {
            self.activate(flow_index);
        }
    }

    /// Hands over the next bytes of the ADU in turn.
    fn hand_over(&mut self, flow_index: u32, index: u32, bytes: u32) -> Chunk {
        let slot = &mut self.slab[index];
        let (start, is_first) = (slot.sent, !slot.begun);
        slot.sent += bytes;
        slot.begun = true;
        let is_last = slot.sent == slot.bytes;
        let whole = u64::from(slot.bytes);
        let is_dry = slot.sendable().is_none();
        let flow = &mut self.flows[flow_index];
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
                self.version += 1;
                flow.queue.insert(&mut self.slab, index, self.version);
            }
        }
        let overhead = if is_first { CHUNK_OVERHEAD_BYTES } else { 0 };
        self.flows.charge(rank, bytes + overhead);
        Chunk {
            ticket: self.slab.ticket(index),
            flow: self.flows.id(flow_index),
            range: start as usize..(start + bytes) as usize,
            is_first,
            is_last,
        }
    }
}
