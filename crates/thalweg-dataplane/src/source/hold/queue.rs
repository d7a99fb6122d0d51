//! The ADUs of a held stream that one sink still needs, in sending order.

use alloc::collections::{BTreeMap, BTreeSet};

use thalweg_base::id::Epoch;

/// The position of an ADU in a queue; the smallest is sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The end of the stream goes last.
    pub(super) is_end: bool,
    /// Inverted importance; 0 if the stream goes in sequence.
    pub(super) inverse_importance: u8,
    pub(super) sequence: u64,
}

/// The queue of one sink.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: BTreeSet<Rank>,
    /// ADUs that were sent and are not acknowledged, with their plans.
    pub(super) sent: BTreeMap<u64, Epoch>,
    /// The plan in force, and how many layers it carries to its end.
    pub(super) plan: Option<(Epoch, u8)>,
}

impl Queue {
    /// Returns what goes next, if a plan is in force. The end of the stream waits until the sink
    /// has all else.
    pub(super) fn next(&self) -> Option<Rank> {
        self.plan?;
        let next = self.waiting.first().copied();
        next.filter(|next| !next.is_end || self.sent.is_empty())
    }

    /// Returns the sequences that its sink has not acknowledged.
    pub(super) fn lacked(&self) -> impl Iterator<Item = u64> {
        let waiting = self.waiting.iter().map(|rank| rank.sequence);
        waiting.chain(self.sent.keys().copied())
    }

    /// Returns whether something can be sent.
    pub(super) fn is_draining(&self) -> bool {
        self.next().is_some()
    }
}
