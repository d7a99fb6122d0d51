//! What of a held stream is still to be sent to one sink, in the order in which it is.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::id::Epoch;

/// Where an ADU stands in a queue: the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The end of the stream comes behind all.
    pub(super) is_end: bool,
    /// How little it matters, if that counts.
    pub(super) lesser: u8,
    pub(super) sequence: u64,
}

/// What is to be sent to one sink.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) waiting: BTreeSet<Rank>,
    /// What was sent and is not acknowledged, and by which plan.
    pub(super) sent: BTreeMap<u64, Epoch>,
    /// The plan in force, and how many layers it carries to its end.
    pub(super) plan: Option<(Epoch, u8)>,
}

impl Queue {
    /// Returns what goes next, if a plan is in force: the end of the stream only when the sink has all else.
    pub(super) fn next(&self) -> Option<Rank> {
        self.plan?;
        let next = self.waiting.first().copied();
        next.filter(|next| !next.is_end || self.sent.is_empty())
    }

    /// Returns what its sink has not said that it has.
    pub(super) fn lacked(&self) -> impl Iterator<Item = u64> {
        let waiting = self.waiting.iter().map(|rank| rank.sequence);
        waiting.chain(self.sent.keys().copied())
    }

    /// Returns whether something of it can be sent.
    pub(super) fn is_draining(&self) -> bool {
        self.next().is_some()
    }
}
