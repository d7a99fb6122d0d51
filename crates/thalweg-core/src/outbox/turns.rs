//! Flows, and whose turn it is.
//!
//! *The idea.* Deficit round robin. Each turn gives a flow a quantum by its weight; it sends until that is used up, and
//! the last chunk may overdraw it: what is owed is paid out of the next turns. A flow that comes back after a pause goes
//! first, once a round, so a sparse stream does not wait for the round of the others; it has no more than its quantum
//! there, so it takes nothing from them. So does a flow in turn that now has something more important to send than what it
//! sent last: it takes its turn of this round at once, or that of the next if it has had it, and waits the longer after it.
//! So what is urgent in one flow does not wait for the chunks of all others, and no flow gets more than its share.
//!
//! ```text
//! quantum = weight · chunk / 16        a flow of the usual weight sends one chunk a turn
//! ```
//!
//! *What it does not do.* It does not look at importance: that orders the ADUs of one flow, and says nothing between two.
//!
//! *Sources.* Shreedhar, Varghese: "Efficient fair queueing using deficit round robin", SIGCOMM 1995; RFC 8290 §4 for
//! sparse flows.

use alloc::collections::VecDeque;
use core::num::NonZeroU8;

use super::family::Lost;
use super::queue::Queue;
use super::slab::Slab;
use super::{CHUNK_OVERHEAD_BYTES, Ticket, WEIGHT_USUAL};
use crate::needs::Order;
use crate::units::Bitrate;

/// One flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) generation: u32,
    pub(super) is_open: bool,
    pub(super) weight: NonZeroU8,
    pub(super) queue: Queue,
    /// Of what is queued, the whole ADUs.
    pub(super) bytes: u64,
    /// The ADU that was last begun and not finished by one chunk.
    pub(super) begun: Option<Ticket>,
    pub(super) lost: Lost,
    /// What it may still send in its turn, in bytes; below zero it has sent too much.
    deficit: i64,
    /// In which round it has got its last quantum.
    round: u64,
    /// Whether that was ahead of its time, so that it is passed over once.
    is_ahead: bool,
    /// 255 less the importance of what it sent last.
    rank: u8,
    is_in_turn: bool,
}

/// The flows that have something to send, the one whose turn it is first.
#[derive(Debug, Default)]
pub(super) struct Turns {
    ring: VecDeque<u32>,
    round: u64,
    /// The weights of those in it.
    weight: u32,
}

impl Flow {
    pub(super) fn new(generation: u32, weight: NonZeroU8, order: Order) -> Self {
        Self {
            generation,
            is_open: true,
            weight,
            queue: Queue::new(order),
            bytes: 0,
            begun: None,
            lost: Lost::default(),
            deficit: 0,
            round: 0,
            is_ahead: false,
            rank: u8::MAX,
            is_in_turn: false,
        }
    }

    fn quantum(&self, chunk_bytes: u32) -> i64 {
        (i64::from(self.weight.get()) * i64::from(chunk_bytes) / i64::from(WEIGHT_USUAL.get()))
            .max(1)
    }

    /// Gives the quanta of the rounds since the last one, one at most to spend.
    fn refill(&mut self, round: u64, chunk_bytes: u32) {
        let quantum = self.quantum(chunk_bytes);
        let rounds = i64::try_from(round.saturating_sub(self.round)).unwrap_or(i64::MAX);
        // Chunks were larger when the path was faster; nobody owes more than one of today's.
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
    /// Takes a flow in that has something to send now.
    pub(super) fn join(&mut self, flows: &mut [Flow], index: u32, chunk_bytes: u32) {
        let flow = &mut flows[index as usize];
        if flow.is_in_turn {
            return;
        }
        flow.is_in_turn = true;
        flow.is_ahead &= flow.round >= self.round;
        self.weight += u32::from(flow.weight.get());
        flow.refill(self.round, chunk_bytes);
        if flow.deficit > 0 {
            self.ring.push_front(index);
        } else {
            self.ring.push_back(index);
        }
    }

    /// Takes in that the first ADU of a flow in turn is now of this rank (255 less the importance): the flow takes its next
    /// turn at once if that is more than what it sent last, unless it has taken it already.
    ///
    /// Cost    O(flows) if it does
    pub(super) fn call(&mut self, flows: &mut [Flow], index: u32, rank: u8, chunk_bytes: u32) {
        let flow = &mut flows[index as usize];
        let is_next = flow.deficit > 0 || self.ring.front() == Some(&index);
        if rank >= flow.rank || is_next || flow.is_ahead {
            return;
        }
        flow.is_ahead = flow.round >= self.round;
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

    /// Returns the flow that sends next, and what it sends.
    ///
    /// Cost    a flow of the usual weight pays for a chunk with one turn, one of the least with 16
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
                flow.is_in_turn = false;
                self.weight -= u32::from(flow.weight.get());
                continue;
            };
            if flow.deficit > 0 {
                return Some((index, slot));
            }
            let was_ahead = core::mem::take(&mut flow.is_ahead);
            if !was_ahead {
                // If it has had this round's, it has come round again, and so has everyone.
                self.round = self.round.max(flow.round + 1);
                flow.refill(self.round, chunk_bytes);
            }
            if flow.deficit <= 0 {
                self.ring.rotate_left(1);
            }
        }
    }

    /// Returns whether any flow is in turn; one that has run dry leaves only when it is asked.
    pub(super) fn is_anyone(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Charges the flow whose turn it is for what it sent of this rank.
    pub(super) fn charge(&mut self, flows: &mut [Flow], rank: u8, bytes: u32) {
        let Some(index) = self.ring.front() else {
            return;
        };
        let flow = &mut flows[*index as usize];
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

    /// Takes a flow out that is closed.
    pub(super) fn leave(&mut self, flows: &mut [Flow], index: u32) {
        let flow = &mut flows[index as usize];
        if core::mem::take(&mut flow.is_in_turn) {
            self.weight -= u32::from(flow.weight.get());
            self.ring.retain(|other| *other != index);
        }
    }

    /// Changes a flow's weight.
    pub(super) fn reweigh(&mut self, flow: &mut Flow, weight: NonZeroU8) {
        if flow.is_in_turn {
            self.weight -= u32::from(flow.weight.get());
            self.weight += u32::from(weight.get());
        }
        flow.weight = weight;
    }

    /// Returns what a flow in turn has of the path while all of them send.
    pub(super) fn share(&self, flow: &Flow, rate: Bitrate) -> Bitrate {
        let weight = u128::from(flow.weight.get());
        let share = u128::from(rate.as_bps()) * weight / u128::from(self.weight).max(weight);
        Bitrate::from_bps(share as u64)
    }
}
