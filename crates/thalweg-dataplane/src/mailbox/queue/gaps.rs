//! What a subscriber in sequence lacks of a gap: ADUs that never came, as against those that its own mailbox
//! refused or dropped, which are known already.
//!
//! *What it does not do.* It gives no gap up.

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;

use thalweg_base::limits::MAILBOX_ADUS_MAX;

/// Ranges that nobody has asked for: a driver asks after each change.
const MISSING_MAX: usize = 256;

/// Ranges of refused ADUs ahead of what has left.
const REFUSED_MAX: usize = 2 * MAILBOX_ADUS_MAX;

/// The gaps of one stream.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Refused sequences that have not had their turn, start to end.
    refused: BTreeMap<u64, u64>,
    missing: VecDeque<Range<u64>>,
}

impl Gaps {
    /// Handles that the mailbox refused an ADU, or dropped one before its turn.
    pub(super) fn handle_refused(&mut self, sequence: u64) {
        let before = self.refused.range_mut(..=sequence).next_back();
        if let Some((_, end)) = before
            && *end >= sequence
        {
            *end = (*end).max(sequence + 1);
            return;
        }
        self.refused.insert(sequence, sequence + 1);
        if self.refused.len() > REFUSED_MAX {
            self.refused.pop_first();
        }
    }

    /// Handles that this sequence has left while `next` was the one to leave.
    pub(super) fn handle_left(&mut self, next: Option<u64>, sequence: u64) {
        let mut from = next.unwrap_or(sequence);
        while let Some(refused) = self.refused.first_entry()
            && *refused.key() < sequence
        {
            let (start, end) = refused.remove_entry();
            self.push(from..start);
            from = from.max(end);
        }
        self.push(from..sequence);
    }

    fn push(&mut self, missing: Range<u64>) {
        if !missing.is_empty() && self.missing.len() < MISSING_MAX {
            self.missing.push_back(missing);
        }
    }

    /// Handles that sequences restart.
    pub(super) fn restart(&mut self) {
        self.refused.clear();
    }

    pub(super) fn poll_missing(&mut self) -> Option<Range<u64>> {
        self.missing.pop_front()
    }
}
