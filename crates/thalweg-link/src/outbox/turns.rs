//! Flows, and which of them sends next.
//!
//! *The idea.* Deficit round robin. Each turn gives a flow a quantum by its weight; the flow sends
//! until that is spent, and the last chunk may overdraw it: later turns pay the debt. A flow that
//! returns after a pause goes first, once a round, so a sparse stream does not wait for the others'
//! round; it has at most its quantum there, so it takes nothing from them.
//!
//! A flow in turn that has a more important ADU than the one it sent last goes first too: it takes
//! this round's turn at once, or the next round's if it had this one, and is then passed over once.
//! So an urgent ADU does not wait for the chunks of all other flows, and no flow gets more than its
//! share.
//!
//! ```text
//! quantum = weight · chunk / 16        a flow of the usual weight sends one chunk a turn
//! ```
//!
//! *What it does not do.* Importance gives no flow a larger share: it orders the ADUs of one flow,
//! and only moves turns.
//!
//! *Sources.* Shreedhar, Varghese: "Efficient fair queueing using deficit round robin", SIGCOMM
//! 1995; RFC 8290 §4 for sparse flows.

use alloc::collections::VecDeque;
use core::num::NonZeroU8;

use thalweg_base::needs::Order;
use thalweg_base::units::Bitrate;

use super::family::Lost;
use super::queue::Queue;
use super::slab::Slab;
use super::{CHUNK_OVERHEAD_BYTES, Ticket, WEIGHT_USUAL};

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) generation: u32,
    standing: Standing,
    pub(super) weight: NonZeroU8,
    pub(super) queue: Queue,
    /// Bytes of its ADUs that are not handed over whole.
    pub(super) bytes: u64,
    /// The ADU last begun and not finished by one chunk.
    pub(super) begun: Option<Ticket>,
    pub(super) lost: Lost,
    /// Bytes that it may still send in its turn; negative if it has overdrawn.
    deficit: i64,
    /// The round of its last quantum.
    round: u64,
    /// Whether it took that quantum early, so that it is passed over once.
    is_ahead: bool,
    /// 255 less the importance of the ADU that it sent last.
    rank: u8,
}

/// Whether a flow is there, and waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is closed; its place is free.
    Closed,
    /// It has no turn, and mostly nothing to send.
    Idle,
    /// It has the turn, or is to have it.
    InTurn,
}

/// The flows with bytes to send; the first has the turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    ring: VecDeque<u32>,
    round: u64,
    /// The sum of their weights.
    weight: u32,
}

impl Flow {
    pub(super) fn new(generation: u32, weight: NonZeroU8, order: Order) -> Self {
        Self {
            generation,
            standing: Standing::Idle,
            weight,
            queue: Queue::new(order),
            bytes: 0,
            begun: None,
            lost: Lost::default(),
            deficit: 0,
            round: 0,
            is_ahead: false,
            rank: u8::MAX,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.standing != Standing::Closed
    }

    fn quantum(&self, chunk_bytes: u32) -> i64 {
        (i64::from(self.weight.get()) * i64::from(chunk_bytes) / i64::from(WEIGHT_USUAL.get()))
            .max(1)
    }

    /// Adds the quanta of the rounds since the last one; at most one can be saved up.
    fn refill(&mut self, round: u64, chunk_bytes: u32) {
        let quantum = self.quantum(chunk_bytes);
        let rounds = i64::try_from(round.saturating_sub(self.round)).unwrap_or(i64::MAX);
        // Chunks were larger while the path was faster; a debt is at most one of today's.
        let owing = self
            .deficit
            .max(-i64::from(chunk_bytes + CHUNK_OVERHEAD_BYTES));
        self.deficit = owing
            .saturating_add(quantum.saturating_mul(rounds))
            .min(quantum);
        self.round = self.round.max(round);
    }
}

impl Turns {
    /// Adds a flow that has bytes to send now.
    pub(super) fn join(&mut self, flows: &mut [Flow], index: u32, chunk_bytes: u32) {
        let flow = &mut flows[index as usize];
        if flow.standing == Standing::InTurn {
            return;
        }
        flow.standing = Standing::InTurn;
        // A turn taken early counts only in the round that it was taken from.
        flow.is_ahead &= flow.round >= self.round;
        self.weight += u32::from(flow.weight.get());
        flow.refill(self.round, chunk_bytes);
        if flow.deficit > 0 {
            self.ring.push_front(index);
        } else {
            self.ring.push_back(index);
        }
    }

    /// Handles that the first ADU of a flow in turn now has this rank (255 less the importance): if
    /// that is more important than the ADU sent last, the flow takes its next turn at once, unless
    /// it already has.
    ///
    /// Cost    O(flows) if it does
    pub(super) fn take_turn_early(
        &mut self,
        flows: &mut [Flow],
        index: u32,
        rank: u8,
        chunk_bytes: u32,
    ) {
        let flow = &mut flows[index as usize];
        // A flow that is about to send anyway needs no early turn.
        let is_next = flow.deficit > 0 || self.ring.front() == Some(&index);
        if rank >= flow.rank || is_next || flow.is_ahead {
            return;
        }
        flow.is_ahead = flow.round >= self.round;
        // It had this round's quantum, so it takes the next one's.
        let round = if flow.is_ahead {
            flow.round + 1
        } else {
            self.round
        };
        flow.refill(round, chunk_bytes);
        if flow.deficit > 0 {
            self.ring.retain(|other| *other != index);
            self.ring.push_front(index);
        }
    }

    /// Returns the flow that sends next, and the ADU that it sends.
    ///
    /// Cost    a flow of the usual weight pays for a chunk with one turn, one of the least weight with 16
    pub(super) fn next(
        &mut self,
        flows: &mut [Flow],
        slab: &Slab,
        chunk_bytes: u32,
    ) -> Option<(u32, u32)> {
        loop {
            let index = *self.ring.front()?;
            let flow = &mut flows[index as usize];
            let Some(slot) = flow.queue.first(slab) else {
                self.ring.pop_front();
                flow.standing = Standing::Idle;
                self.weight -= u32::from(flow.weight.get());
                continue;
            };
            if flow.deficit > 0 {
                return Some((index, slot));
            }
            // A flow that took this quantum early is passed over once, and pays that way.
            let was_ahead = core::mem::take(&mut flow.is_ahead);
            if !was_ahead {
                // A flow that had this round's quantum has come round again, and so have all others.
                self.round = self.round.max(flow.round + 1);
                flow.refill(self.round, chunk_bytes);
            }
            if flow.deficit <= 0 {
                self.ring.rotate_left(1);
            }
        }
    }

    /// Returns whether any flow is in turn; a flow that ran dry leaves only at the next poll.
    pub(super) fn has_flow(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Charges the flow in turn for bytes of this rank.
    pub(super) fn charge(&mut self, flows: &mut [Flow], rank: u8, bytes: u32) {
        let Some(index) = self.ring.front() else {
            return;
        };
        let flow = &mut flows[*index as usize];
        // It may become negative: a chunk is not cut to the deficit.
        flow.deficit -= i64::from(bytes);
        flow.rank = rank;
        if flow.deficit <= 0 {
            self.ring.rotate_left(1);
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Closes a flow.
    pub(super) fn close(&mut self, flows: &mut [Flow], index: u32) {
        let flow = &mut flows[index as usize];
        let before = core::mem::replace(&mut flow.standing, Standing::Closed);
        flow.generation = flow.generation.wrapping_add(1);
        if before == Standing::InTurn {
            self.weight -= u32::from(flow.weight.get());
            self.ring.retain(|other| *other != index);
        }
    }

    /// Changes a flow's weight.
    pub(super) fn set_weight(&mut self, flow: &mut Flow, weight: NonZeroU8) {
        if flow.standing == Standing::InTurn {
            self.weight -= u32::from(flow.weight.get());
            self.weight += u32::from(weight.get());
        }
        flow.weight = weight;
    }

    /// Returns a flow's share of the rate while all flows in turn send.
    pub(super) fn share(&self, flow: &Flow, rate: Bitrate) -> Bitrate {
        let weight = u128::from(flow.weight.get());
        // `weight` at least: the flow itself may be out of turn.
        let share = u128::from(rate.as_bps()) * weight / u128::from(self.weight).max(weight);
        Bitrate::from_bps(share as u64)
    }
}
