//! The counters of a link: every ADU is counted in exactly one of them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::outcome::Outcome;

/// The counters of a link since it came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkCounters {
    /// ADUs by outcome, in the order of [`Outcome::NAMES`].
    pub outcomes: [u64; Outcome::NAMES.len()],
    /// ADUs handed to the receiver, which happens when their header has arrived.
    pub received: u64,
    /// ADUs that their sender gave up before their header had arrived.
    pub abandoned: u64,
    /// Streams and datagrams that violate docs/reference/protocol.md.
    pub malformed: u64,
    /// Streams of a kind that this version does not know.
    pub unknown_kinds: u64,
    /// Wake-ups of the link's driver: the cost of sharing each ADU between the caller and the
    /// driver.
    pub wakes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    pub(crate) received: Counter,
    pub(crate) abandoned: Counter,
    pub(crate) malformed: Counter,
    pub(crate) unknown_kinds: Counter,
    pub(crate) wakes: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl LinkCounters {
    /// Returns the number of ADUs with this outcome.
    pub const fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome.index()]
    }
}

impl Counters {
    pub(crate) fn count(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> LinkCounters {
        LinkCounters {
            outcomes: std::array::from_fn(|kind| self.outcomes[kind].load(Ordering::Relaxed)),
            received: self.received.get(),
            abandoned: self.abandoned.get(),
            malformed: self.malformed.get(),
            unknown_kinds: self.unknown_kinds.get(),
            wakes: self.wakes.get(),
        }
    }
}

impl Counter {
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
