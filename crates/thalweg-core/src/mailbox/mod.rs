//! Puts ADUs that travelled on streams of their own back in sequence, waiting for a missing one only while it helps.
//!
//! *The idea.* ADUs arrive in any order. The next in sequence leaves at once. Behind a gap the rest waits, until the
//! deadline of the earliest waiting ADU: what is missing is older and so due no later, and to wait longer would make
//! the present late for the sake of the past. Without deadlines a gap is given [`PATIENCE`] if what is lost is sent again, for after
//! an outage what matters most comes first, and [`PATIENCE_ONCE`] if not. The buffer is bounded: when full, the gap is given up.
//!
//! *What it does not do.* It reads no clock and knows no subscriber; policies for slow subscribers come with fan-out.
//!
//! *Sources.* RFC 3550 §A.8 on playout; docs/protocol.md §7.

use alloc::collections::BTreeMap;

use crate::adu::{Adu, Flags};
use crate::limits::MAILBOX_ADUS_MAX;
use crate::time::{Duration, Instant};

mod seen;
#[cfg(test)]
mod tests;

pub use seen::{Held, Seen};

/// How long a gap is waited for when the ADUs behind it have no deadline, and what is lost is sent again: twice as long as its source
/// keeps it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The same where each is sent once: what has not come by then is lost, or was long overtaken.
pub const PATIENCE_ONCE: Duration = Duration::from_secs(2);

/// How long one who joins late waits for what may have overtaken its predecessors; a stream's very first ADU ends it.
pub const START_PATIENCE: Duration = Duration::from_millis(200);

/// How long the end of a stream waits for ADUs that are still missing.
pub const END_PATIENCE: Duration = Duration::from_secs(2);

/// Restores the sequence of one stream's ADUs.
#[derive(Debug, Default)]
pub struct Resequencer {
    /// The sequence that leaves next; unknown before the start.
    next: Option<u64>,
    /// When the start is no longer waited for; unknown before the first ADU.
    start: Option<Instant>,
    /// What waits behind a gap, with the time after which the gap is given up.
    waiting: BTreeMap<u64, (Adu, Instant)>,
    skipped: u64,
    late: u64,
}

impl Resequencer {
    /// Takes in an ADU, of a stream of which what is lost is sent again or not. One that is older than what has left is dropped and
    /// counted as late.
    ///
    /// Cost    O(log waiting)
    pub fn handle_adu(&mut self, adu: Adu, is_sent_again: bool, now: Instant) {
        let sequence = adu.header.sequence.0;
        if self.next.is_some_and(|next| sequence < next) {
            self.late += 1;
            return;
        }
        self.start
            .get_or_insert(adu.header.deadline.min(now + START_PATIENCE));
        let patience = if adu.header.flags.contains(Flags::END) {
            END_PATIENCE
        } else if is_sent_again {
            PATIENCE
        } else {
            PATIENCE_ONCE
        };
        let until = adu.header.deadline.min(now + patience);
        self.waiting.entry(sequence).or_insert((adu, until));
    }

    /// Returns the next ADU in sequence, or the first behind a gap that is not worth waiting for.
    pub fn poll_adu(&mut self, now: Instant) -> Option<Adu> {
        let (&sequence, (_, until)) = self.waiting.first_key_value()?;
        if self.next.is_none() && sequence > 0 && self.start.is_some_and(|start| start > now) {
            return None;
        }
        let gap = self.next.map_or(0, |next| sequence - next);
        let patient = *until > now && self.waiting.len() <= MAILBOX_ADUS_MAX;
        if gap > 0 && patient {
            return None;
        }
        self.skipped += gap;
        self.next = Some(sequence + 1);
        self.waiting.pop_first().map(|(_, (adu, _))| adu)
    }

    /// Returns when a gap, or the start, is given up; `NEVER` if nothing waits.
    pub fn poll_timeout(&self) -> Instant {
        let Some((_, (_, until))) = self.waiting.first_key_value() else {
            return Instant::NEVER;
        };
        match (self.next, self.start) {
            (None, Some(start)) => start,
            _ => *until,
        }
    }

    /// Returns how many ADUs wait behind a gap; the end of a stream is none.
    ///
    /// Cost    O(waiting)
    pub fn waiting(&self) -> u64 {
        let is_adu = |(adu, _): &&(Adu, Instant)| !adu.header.flags.contains(Flags::END);
        self.waiting.values().filter(is_adu).count() as u64
    }

    /// Returns how many sequences were given up.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns how many ADUs came after their place had been given up, or twice.
    pub const fn late(&self) -> u64 {
        self.late
    }
}
