//! Why a report is rejected.
//!
//! *What it does not do.* The comparison itself is in `account`.

use thalweg_base::limits::LEDGER_BEHIND_MAX;

/// Why a report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Disbelief {
    /// It speaks of a node beyond the end of the path.
    #[error(
        "a report names a node {distance} hops behind the next one, beyond the end of the path"
    )]
    OffPath {
        /// Hops behind the next node.
        distance: u8,
    },
    /// More ADUs arrived than were sent.
    #[error("a report claims {arrived} arrived ADUs of {sent} sent")]
    Arrived {
        /// Reported arrivals, in ADUs.
        arrived: u64,
        /// ADUs that this node sent.
        sent: u64,
    },
    /// More ADUs were lost or delivered than were given.
    #[error("a report claims {ended} lost or delivered ADUs of {given} given")]
    Ended {
        /// Reported losses and deliveries, in ADUs.
        ended: u64,
        /// ADUs that the source gave.
        given: u64,
    },
    /// More counters than a node keeps.
    #[error("{0} counters are above the limit of {LEDGER_BEHIND_MAX}")]
    Many(usize),
}
