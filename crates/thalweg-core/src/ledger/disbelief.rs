//! Why a report is not believed.
//!
//! *What it does not do.* It compares nothing: `account` does.

use crate::limits::LEDGER_BEHIND_MAX;

/// Why a report is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disbelief {
    /// The path ends before the node that it speaks of.
    #[error("a node {distance} hops behind the next one is not on the path")]
    OffPath {
        /// How far behind.
        distance: u8,
    },
    /// More came than were sent.
    #[error("{arrived} ADUs are said to have arrived of {sent} that were sent")]
    Arrived {
        /// How many are said to have come.
        arrived: u64,
        /// How many were sent.
        sent: u64,
    },
    /// More were lost or delivered than were given.
    #[error("{ended} ADUs are said to have ended of {given} that were given")]
    Ended {
        /// How many are said to have ended.
        ended: u64,
        /// How many were given.
        given: u64,
    },
    /// More counters than are kept.
    #[error("{0} counters are above the limit of {LEDGER_BEHIND_MAX}")]
    Many(usize),
}
