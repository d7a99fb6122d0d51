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

use core::ops::RangeInclusive;

use thalweg_base::adu::{Importance, Mark};
use thalweg_base::event::DropCause;

pub use account::{Account, Patience, Place};
pub use book::{Loss, NOTE_INTERVAL, Reading};
pub use disbelief::Disbelief;
pub use pace::{EVERY, SETTLE, SLACK};

pub(crate) use book::Book;

/// Number of importance bands.
pub const BANDS: usize = 8;

/// The first counter number after the drop causes.
const ARRIVED: u8 = 24;

/// The first number after the arrivals: one for each mark, and one that is unused.
const DELIVERED: u8 = ARRIVED + Mark::COUNT as u8 + 1;

/// The one counter that has no band: everything was copied.
const ALL_COPIED: u8 = (DELIVERED + 2) << 3;

/// Importances that are counted together: 0 to 31 in the first band, 224 to 255 in the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u8);

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

/// ADUs by mark and band.
pub type Marked = [[u64; BANDS]; Mark::COUNT];

/// One node's counts of one plan's ADUs since it began to count: by importance band, and on its
/// hops also by mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received completely, or refused; at the source, given by the producer.
    pub arrived: Marked,
    /// Handed to the next link.
    pub sent: Marked,
    /// Of the ADUs sent, those that left: acknowledged, refused by the next node, or transmitted on
    /// a link without acknowledgements.
    pub left: Marked,
    /// Of the ADUs sent, those given up.
    pub failed: Marked,
    /// Handed to subscribers on this node.
    pub delivered: [u64; BANDS],
    /// Dropped, before or after sending.
    pub dropped: [[u64; BANDS]; DropCause::ALL.len()],
    /// The end of the stream was copied here for this plan.
    pub is_end_copied: bool,
    /// At the source: the sink's receipts confirm them, whichever path they took.
    pub had: [u64; BANDS],
    /// At the source: given again under another plan because this plan's path is broken.
    pub resent: [u64; BANDS],
}

impl Band {
    /// Returns every band, the least important first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BANDS as u8).map(Self)
    }

    /// Returns the band of an importance.
    pub const fn of(importance: Importance) -> Self {
        Self(importance.0 >> 5)
    }

    /// Returns the index, 0 to `BANDS` − 1.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the importances in this band.
    pub const fn importances(self) -> RangeInclusive<u8> {
        (self.0 << 5)..=(self.0 << 5 | 31)
    }
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
        what << 3 | band.0
    }

    /// Returns the counter that a byte names; `None` for a counter of a later version.
    pub fn from_number(number: u8) -> Option<(Self, Band)> {
        let band = Band(number & 7);
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

impl Counts {
    /// Counts an ADU that was received completely, or refused, by its mark.
    pub const fn arrive(&mut self, mark: Mark, band: Band) {
        self.arrived[mark.index()][band.index()] += 1;
    }

    /// Counts an ADU that is handed to the next link with a mark.
    pub const fn send(&mut self, mark: Mark, band: Band) {
        self.sent[mark.index()][band.index()] += 1;
    }

    /// Counts an ADU that was sent and has left.
    pub const fn leave(&mut self, mark: Mark, band: Band) {
        self.left[mark.index()][band.index()] += 1;
    }

    /// Counts an ADU that was sent and is dropped.
    pub const fn fail(&mut self, mark: Mark, band: Band, cause: DropCause) {
        self.disown(mark, band);
        self.give_up(band, cause);
    }

    /// Counts an ADU that was sent and is given up without a cause: the upstream node accounts for
    /// it.
    pub const fn disown(&mut self, mark: Mark, band: Band) {
        self.failed[mark.index()][band.index()] += 1;
    }

    /// Counts an ADU that is dropped before it was sent.
    pub const fn give_up(&mut self, band: Band, cause: DropCause) {
        self.dropped[cause.index()][band.index()] += 1;
    }

    /// Returns how many ADUs of a band arrived.
    pub fn arrived(&self, band: Band) -> u64 {
        self.arrived.iter().map(|bands| bands[band.index()]).sum()
    }

    /// Counts an ADU that is handed to a subscriber.
    pub const fn deliver(&mut self, band: Band) {
        self.delivered[band.index()] += 1;
    }

    /// Counts an ADU that was sent under this plan and that its sink reports to have.
    pub const fn have(&mut self, band: Band) {
        self.had[band.index()] += 1;
    }

    /// Counts an ADU of this plan that is given again under another one.
    pub const fn resend(&mut self, band: Band) {
        self.resent[band.index()] += 1;
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
