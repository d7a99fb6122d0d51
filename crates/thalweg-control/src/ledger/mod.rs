//! The drop ledger: where, why and at which importance each ADU of a stream ended, summed at the
//! stream's source.
//!
//! *The idea.* Each node of a plan counts the ADUs that arrived, were sent on, and were dropped, by
//! cause and [`Band`] of importance ([`Counts`]). It reports these counters to the node upstream,
//! which appends its own and reports upstream in turn, so the source holds the counters of all
//! nodes. Counters only grow, so a report may be lost, repeated or late.
//!
//! ```text
//!  source ◄── relay's, sink's ── relay ◄── sink's ── sink        every 600 ms or so, what has grown
//! ```
//!
//! *Which node accounts for an ADU:* the last one that held it completely. Some ADUs leave a node
//! without any acknowledgement (datagrams, or what was in flight on a lost link). Each node
//! therefore also reports how many ADUs arrived; those that left here and did not arrive there
//! count as `path-lost` here. The [`Mark`] that an ADU carries on the hop keeps later arrivals from
//! hiding earlier losses. An ADU that was counted as dropped because its acknowledgement was late,
//! but did arrive, is taken back. So for each band and plan, once nothing is in flight:
//!
//! ```text
//! given at the source = delivered at the sink + lost by the nodes' reports
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `account` | one node's account of one plan: what to report, and which downstream reports to accept |
//! | `account::passage` | detects nodes that swallow ADUs |
//! | `account::sums` | an account's totals at the source, without what is counted twice |
//! | `disbelief` | why a report is rejected |
//! | `entries` | counters by number, and which of them have grown |
//! | `hop` | losses on the way to the next node |
//! | `pace` | the times of reports |
//! | `past` | samples of how much had left earlier |
//! | `book` | a source's accounts of all plans of a stream |
//!
//! *What it does not do.* It counts ADUs and does not know which one was lost. The end of a stream
//! ([`Flags::END`]) is not counted.
//!
//! *Sources.* docs/concepts/ledger.md; docs/reference/protocol.md §4.3. Counters that only grow, merged by
//! maximum:
//! the grow-only counter of Shapiro et al., *Conflict-free replicated data types*, 2011. Marks: RFC
//! 9341, alternate marking.
//!
//! [`Flags::END`]: thalweg_base::adu::Flags::END

mod account;
mod book;
mod disbelief;
mod entries;
mod hop;
mod pace;
mod past;
#[cfg(test)]
mod tests;

use thalweg_base::adu::Mark;
use thalweg_base::event::DropCause;

pub use account::{Account, Patience, Place};
pub use book::{Loss, NOTE_INTERVAL, Reading};
pub use disbelief::Disbelief;
pub use pace::{EVERY, SETTLE, SLACK};
pub use thalweg_base::count::{BANDS, Band, Counts, Marked};

pub(crate) use book::Book;

/// The first counter number after the drop causes.
const ARRIVED: u8 = 24;

/// The first number after the arrivals: one for each mark, and one that is unused.
const DELIVERED: u8 = ARRIVED + Mark::COUNT as u8 + 1;

/// The one counter that has no band: everything was copied.
const ALL_COPIED: u8 = (DELIVERED + 2) << 3;

/// What a counter counts, apart from the band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// ADUs that a node dropped for this cause.
    Dropped(DropCause),
    /// ADUs that a node received completely, or refused, by the mark that they carried.
    Arrived(Mark),
    /// ADUs handed to subscribers.
    Delivered,
    /// ADUs counted as dropped that did arrive at the next node.
    Returned,
    /// Counts no ADUs and has no band: 1 once a node that copies the stream for this plan has
    /// copied its end and has reported everything that it copied before.
    AllCopied,
}

impl What {
    /// Returns the byte that names this counter on the wire.
    pub const fn number(self, band: Band) -> u8 {
        let what = match self {
            Self::Dropped(cause) => cause.index() as u8,
            Self::Arrived(mark) => ARRIVED + mark.index() as u8,
            Self::Delivered => DELIVERED,
            Self::Returned => DELIVERED + 1,
            Self::AllCopied => return ALL_COPIED,
        };
        what << 3 | band.number()
    }

    /// Returns the counter that a byte names; `None` for a counter of a later version.
    pub fn from_number(number: u8) -> Option<(Self, Band)> {
        let band = Band::from_number(number);
        if number == ALL_COPIED {
            return Some((Self::AllCopied, band));
        }
        let what = match number >> 3 {
            what if (ARRIVED..DELIVERED - 1).contains(&what) => {
                Self::Arrived(Mark::from_index(what - ARRIVED))
            }
            what if what == DELIVERED => Self::Delivered,
            what if what == DELIVERED + 1 => Self::Returned,
            cause => Self::Dropped(*DropCause::ALL.get(usize::from(cause))?),
        };
        Some((what, band))
    }
}

const _: () = assert!(
    DropCause::ALL.len() <= ARRIVED as usize,
    "causes and other counters have different numbers"
);

/// Returns the saturating sum: a remote counter may be any value that the wire can carry.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
