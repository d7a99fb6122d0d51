//! What a source has sent and its sink has not acknowledged: kept, to be sent again by another way.
//!
//! *The idea.* A next node's acknowledgement says that it has an ADU, not that the sink will: it may crash with it, or its
//! own link may be cut. So the source keeps what its stream does not let go lightly until the sink says that it has it, until
//! its deadline, or until a bound is reached; then the oldest goes. What is kept is the ADU as its producer gave it, before
//! any adapter: another plan may have others, and seals anew.
//!
//! *What it does not do.* It sends nothing, and does not know which way is broken: the session says.
//!
//! *Sources.* docs/continuity.md §2; spec RA-8, RA-13.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::adu::Adu;
use crate::id::Epoch;
use crate::limits::{KEEP_ADUS_MAX, KEEP_BYTES_MAX};
use crate::mailbox::Held;
use crate::needs::Reliability;
use crate::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long an ADU is kept at most: as long as a subscription lives without a word of its sink.
pub const KEEP_AGE_MAX: Duration = super::LEASE;

/// What is kept of one stream, by the plan under which it was sent.
#[derive(Debug, Default)]
pub struct Keep {
    kept: BTreeMap<(Epoch, u64), Kept>,
    bytes: u64,
    overflowed: u64,
}

#[derive(Debug)]
struct Kept {
    adu: Adu,
    until: Instant,
}

impl Keep {
    /// Takes in an ADU that is sent under the plan that its header names.
    ///
    /// Cost    O(log kept)
    pub fn handle_given(&mut self, adu: &Adu, reliability: Reliability, now: Instant) {
        if reliability == Reliability::None {
            return;
        }
        self.expire(now);
        let header = &adu.header;
        let kept = Kept {
            adu: adu.clone(),
            until: header.deadline.min(now + KEEP_AGE_MAX),
        };
        self.bytes += kept.adu.payload.len() as u64;
        if let Some(before) = self.kept.insert((header.epoch, header.sequence.0), kept) {
            self.bytes -= before.adu.payload.len() as u64;
        }
        while self.kept.len() > KEEP_ADUS_MAX || self.bytes > KEEP_BYTES_MAX.as_bytes() {
            self.pop_first();
            self.overflowed += 1;
        }
    }

    /// Takes in what the sink of these plans says that it has.
    ///
    /// Cost    O(kept of these plans)
    pub fn handle_receipt(&mut self, epochs: &[Epoch], held: &Held) {
        for epoch in epochs {
            let of_plan = (*epoch, 0)..=(*epoch, u64::MAX);
            let bytes = &mut self.bytes;
            let has = |_: &(Epoch, u64), kept: &mut Kept| held.has(kept.adu.header.sequence);
            for (_, kept) in self.kept.extract_if(of_plan, has) {
                *bytes -= kept.adu.payload.len() as u64;
            }
        }
    }

    /// Gives out what was sent under these plans and is still worth sending, by sequence, and keeps it no longer.
    ///
    /// Whoever sends it again says so by [`Keep::handle_given`].
    /// Cost    O(kept of these plans), and sorting them
    pub fn take(&mut self, epochs: &[Epoch], now: Instant) -> Vec<Adu> {
        let mut taken = Vec::new();
        for epoch in epochs {
            let of_plan = (*epoch, 0)..=(*epoch, u64::MAX);
            taken.extend(self.kept.extract_if(of_plan, |_, _| true));
        }
        let gone: u64 = taken.iter().map(|(_, k)| k.adu.payload.len() as u64).sum();
        self.bytes -= gone;
        taken.retain(|(_, kept)| now < kept.until);
        taken.sort_by_key(|((_, sequence), _)| *sequence);
        taken.dedup_by_key(|((_, sequence), _)| *sequence);
        taken.into_iter().map(|(_, kept)| kept.adu).collect()
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

    /// Returns how many ADUs are kept, and how many payload bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.bytes)
    }

    /// Returns how many were given up because too many were kept.
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Lets go of the oldest that are too late; of one plan, what is older is due no later.
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
