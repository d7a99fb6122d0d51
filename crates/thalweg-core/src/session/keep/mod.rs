//! What a source has sent and its sink has not acknowledged: kept, to be sent again by another way.
//!
//! *The idea.* A next node's acknowledgement says that it has an ADU, not that the sink will: it may crash with it, or its
//! own link may be cut. So the source keeps what its stream does not let go lightly until the sink says that it has it, until
//! its deadline, or until a bound is reached; then the oldest goes. What is kept is the ADU as its producer gave it, before
//! any adapter: another plan may have others, and seals anew. It is kept once, however many sinks have not said that they
//! have it.
//!
//! *What it does not do.* It sends nothing, and does not know which way is broken: the session says.
//!
//! *Sources.* docs/continuity.md §2; spec RA-8, RA-13.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::adu::{Adu, Flags};
use crate::id::{Epoch, NodeId};
use crate::limits::{KEEP_ADUS_MAX, KEEP_BYTES_MAX};
use crate::mailbox::Held;
use crate::needs::Reliability;
use crate::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long an ADU is kept at most: as long as a subscription lives without a word of its sink.
pub const KEEP_AGE_MAX: Duration = super::LEASE;

/// What is kept of one stream, by its sequence.
#[derive(Debug, Default)]
pub struct Keep {
    kept: BTreeMap<u64, Kept>,
    bytes: u64,
    overflowed: u64,
    /// What each sink has said last that it has, and when one last said something else.
    told: BTreeMap<NodeId, Held>,
    advanced: Instant,
}

#[derive(Debug)]
struct Kept {
    adu: Adu,
    until: Instant,
    /// The plans by which it went to sinks that have not said that they have it.
    plans: Vec<Epoch>,
}

impl Keep {
    /// Takes in an ADU that is sent, and by which plans it goes to sinks: one, or those that are grafted on it too.
    ///
    /// Cost    O(log kept + plans)
    pub fn handle_given(
        &mut self,
        adu: &Adu,
        plans: &[Epoch],
        reliability: Reliability,
        now: Instant,
    ) {
        let is_kept = match reliability {
            // What is lost of it is not wanted, or is asked for; that it has ended nobody would ask.
            Reliability::None | Reliability::Repaired => adu.header.flags.contains(Flags::END),
            Reliability::UntilDeadline | Reliability::Full => true,
        };
        if !is_kept || plans.is_empty() {
            return;
        }
        self.expire(now);
        let header = &adu.header;
        let mut kept = Kept {
            adu: adu.clone(),
            until: header.deadline.min(now + KEEP_AGE_MAX),
            plans: plans.to_vec(),
        };
        self.bytes += kept.adu.payload.len() as u64;
        if let Some(before) = self.kept.remove(&header.sequence.0) {
            self.bytes -= before.adu.payload.len() as u64;
            kept.plans.extend(before.plans);
            kept.plans.sort_unstable();
            kept.plans.dedup();
        }
        self.kept.insert(header.sequence.0, kept);
        while self.kept.len() > KEEP_ADUS_MAX || self.bytes > KEEP_BYTES_MAX.as_bytes() {
            self.pop_first();
            self.overflowed += 1;
        }
    }

    /// Takes in what the sink of these plans says that it has.
    ///
    /// Cost    O(kept · plans)
    pub fn handle_receipt(&mut self, epochs: &[Epoch], held: &Held) {
        let bytes = &mut self.bytes;
        self.kept.retain(|_, kept| {
            if held.has(kept.adu.header.sequence) {
                kept.plans.retain(|plan| !epochs.contains(plan));
            }
            if kept.plans.is_empty() {
                *bytes -= kept.adu.payload.len() as u64;
            }
            !kept.plans.is_empty()
        });
    }

    /// Takes in that a sink has said what it has, now.
    ///
    /// Of many ranges only the newest are told, so how much they are says nothing: they may be others, and as much.
    /// Cost    O(log sinks + ranges)
    pub fn handle_word(&mut self, sink: NodeId, held: &Held, now: Instant) {
        let before = if *held == Held::everything() {
            // It has left, or wants nothing more.
            self.told.remove(&sink)
        } else {
            self.told.insert(sink, held.clone())
        };
        if before.as_ref() != Some(held) {
            self.advanced = now;
        }
    }

    /// Returns how many of those that went by a plan its sink is known to lack, though it has later ones.
    ///
    /// Cost    O(kept)
    pub fn missing(&self, plan: Epoch, held: &Held, now: Instant) -> u64 {
        let missing = self.kept.values().filter(|kept| {
            let sequence = kept.adu.header.sequence;
            now < kept.until && kept.plans.contains(&plan) && held.lacks(sequence)
        });
        missing.count() as u64
    }

    /// Gives out what went by these plans and is still worth sending, by sequence, and keeps it no longer for their sinks.
    ///
    /// Whoever sends it again says so by [`Keep::handle_given`].
    /// Cost    O(kept · plans)
    pub fn take(&mut self, epochs: &[Epoch], now: Instant) -> Vec<Adu> {
        let mut taken = Vec::new();
        let bytes = &mut self.bytes;
        self.kept.retain(|_, kept| {
            let before = kept.plans.len();
            kept.plans.retain(|plan| !epochs.contains(plan));
            if kept.plans.len() < before && now < kept.until {
                taken.push(kept.adu.clone());
            }
            if kept.plans.is_empty() {
                *bytes -= kept.adu.payload.len() as u64;
            }
            !kept.plans.is_empty()
        });
        taken
    }

    /// Returns whether nothing that is worth sending again waits for its acknowledgement.
    ///
    /// Cost    O(kept)
    pub fn is_settled(&self, now: Instant) -> bool {
        self.poll_settled() <= now
    }

    /// Returns when nothing will be worth sending again, unless the sink says sooner that it has it.
    ///
    /// Cost    O(kept)
    pub fn poll_settled(&self) -> Instant {
        let ends = self.kept.values().map(|kept| kept.until);
        ends.max().unwrap_or(Instant::ZERO)
    }

    /// Returns until when somebody who has given all, then, waits for the word of its sinks: until what is kept is of no use, or
    /// none of them has had anything new for so long.
    ///
    /// What is under way arrives also when it is too old to be sent again, as where the rest lies before a slow line.
    /// Cost    O(kept)
    pub fn poll_acknowledged(&self, then: Instant, patience: Duration) -> Instant {
        let deadlines = self.kept.values().map(|kept| kept.adu.header.deadline);
        let of_use = deadlines.max().unwrap_or(Instant::ZERO);
        of_use.min(self.advanced.max(then) + patience)
    }

    /// Returns how many ADUs are kept, and how many payload bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.bytes)
    }

    /// Returns how many were given up because too many were kept.
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Lets go of the oldest that are too late; what is older is due no later.
    fn expire(&mut self, now: Instant) {
        while let Some(first) = self.kept.first_entry()
            && first.get().until <= now
        {
            self.pop_first();
        }
    }

    fn pop_first(&mut self) {
        if let Some((_, kept)) = self.kept.pop_first() {
            self.bytes -= kept.adu.payload.len() as u64;
        }
    }
}
