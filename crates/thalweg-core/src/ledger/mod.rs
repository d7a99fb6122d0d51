//! What became of a stream's ADUs on all nodes of its path, summed at its source: which cause, which hop, which importance.
//!
//! *The idea.* Every node of a plan counts what came, what went on and what it gave up, by cause and [`Band`] of importance
//! ([`Counts`]). It tells the node before it, which adds its own and tells the one before that, so the source has the
//! counters of all. Counters only grow, so a report that is lost, or comes twice or late, does no harm.
//!
//! ```text
//!  source ◄── relay's, sink's ── relay ◄── sink's ── sink        every 600 ms or so, and only what has grown
//! ```
//!
//! *Who accounts for an ADU:* the node that had it whole last. What a node gave to a link and never heard of again
//! (a datagram, what a lost link had taken) shows because each node says how many came: what left here and has not come
//! there is lost on the way, as `path-lost`; and by the [`Mark`] that an ADU bears on the hop, what comes now does not hide
//! what was lost before. And what was counted as dropped here, for its acknowledgement was late, but
//! came there after all, is taken back. So for each band and plan, once nothing is on its way:
//!
//! ```text
//! given at the source = delivered at the sink + what the nodes say is lost
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `account` | one node's account of one plan: what to say, and what to believe of the nodes behind |
//! | `disbelief` | why what a node says is not believed |
//! | `entries` | counters by what they count, and which of them have grown |
//! | `hop` | what got lost on the way to the next node |
//! | `past` | what had left a while ago |
//! | `passage` | whether what leaves comes through |
//! | `sums` | what an account comes to at the source, and what of it is counted twice |
//! | `book` | a source's accounts of all plans of a stream |
//!
//! *What it does not do.* It does not know which ADU was lost. What the end of a stream ([`Flags::END`]) becomes is not
//! counted.
//!
//! *Sources.* docs/ledger.md; docs/protocol.md §4.3. Counters that only grow, and the larger of two: the grow-only
//! counter of Shapiro et al., *Conflict-free replicated data types*, 2011. Marks: RFC 9341, alternate marking.
//!
//! [`Flags::END`]: crate::adu::Flags::END

mod account;
mod book;
mod disbelief;
mod entries;
mod hop;
mod passage;
mod past;
mod sums;
#[cfg(test)]
mod tests;

use core::ops::RangeInclusive;

use crate::adu::{Importance, Mark};
use crate::event::DropCause;

pub use account::{Account, EVERY, Place, SETTLE, SLACK};
pub use book::{Loss, NOTE_EVERY, Reading};
pub use disbelief::Disbelief;
pub use passage::Patience;

pub(crate) use book::Book;

/// How many bands of importance are told apart.
pub const BANDS: usize = 8;

/// The first number of what is no cause of a drop: causes have those below.
const ARRIVED: u8 = 24;

/// The first number after those of what arrived, one for each mark, and one that is not in use.
const DELIVERED: u8 = ARRIVED + Mark::COUNT as u8 + 1;

/// Beside those: that all was copied, which is of no band.
const ALL_COPIED: u8 = (DELIVERED + 2) << 3;

/// Importances that are counted together: 0 to 31 in the first band, 224 to 255 in the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u8);

/// What a counter counts, but for the band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// ADUs that a node gave up for this cause.
    Dropped(DropCause),
    /// ADUs that a node had whole, or refused, by the mark that they came with.
    Arrived(Mark),
    /// ADUs given to subscribers.
    Delivered,
    /// ADUs counted as dropped that the next node had after all.
    Returned,
    /// No ADUs, and of no band: 1 once a node that copies the stream for this plan has copied its end, and has said what it
    /// copied before.
    AllCopied,
}

/// ADUs by mark and band.
pub type Marked = [[u64; BANDS]; Mark::COUNT];

/// What became of the ADUs of one plan on one node since it began to count, by band of importance, and on its hops by mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Had whole, or refused; at the source, given by the producer.
    pub arrived: Marked,
    /// Handed to the next link.
    pub sent: Marked,
    /// Of those, left: acknowledged, or refused by the next node, or gone where nothing is acknowledged.
    pub left: Marked,
    /// Of those sent, given up.
    pub failed: Marked,
    /// Given to subscribers here.
    pub delivered: [u64; BANDS],
    /// Given up, before or after they were sent.
    pub dropped: [[u64; BANDS]; DropCause::ALL.len()],
    /// The end of the stream was copied here for this plan.
    pub is_end_copied: bool,
    /// At the source: by the receipts of the plan's sink it has them, by whatever way they came.
    pub had: [u64; BANDS],
    /// At the source: given again under another plan, for the way of this one is broken.
    pub resent: [u64; BANDS],
}

impl Band {
    /// Every band, the least important first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BANDS as u8).map(Self)
    }

    /// Returns the band of an importance.
    pub const fn of(importance: Importance) -> Self {
        Self(importance.0 >> 5)
    }

    /// Returns the position among all bands.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the importances that it holds.
    pub const fn importances(self) -> RangeInclusive<u8> {
        (self.0 << 5)..=(self.0 << 5 | 31)
    }
}

impl What {
    /// Returns the byte that names a counter.
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

    /// Returns what a byte names; `None` for what a later version counts.
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
    /// Counts an ADU that is here whole, or is refused, by the mark that it came with.
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

    /// Counts an ADU that was sent and is given up.
    pub const fn fail(&mut self, mark: Mark, band: Band, cause: DropCause) {
        self.disown(mark, band);
        self.give_up(band, cause);
    }

    /// Counts an ADU that was sent, of which nothing is said: the node before accounts for it.
    pub const fn disown(&mut self, mark: Mark, band: Band) {
        self.failed[mark.index()][band.index()] += 1;
    }

    /// Counts an ADU that goes no further and was not sent.
    pub const fn give_up(&mut self, band: Band, cause: DropCause) {
        self.dropped[cause.index()][band.index()] += 1;
    }

    /// Returns how many of a band arrived.
    pub fn arrived(&self, band: Band) -> u64 {
        self.arrived.iter().map(|bands| bands[band.index()]).sum()
    }

    /// Counts an ADU that a subscriber is given.
    pub const fn deliver(&mut self, band: Band) {
        self.delivered[band.index()] += 1;
    }

    /// Counts an ADU that went by this plan and that its sink says that it has.
    pub const fn have(&mut self, band: Band) {
        self.had[band.index()] += 1;
    }

    /// Counts an ADU that went by this plan and is given again under another.
    pub const fn resend(&mut self, band: Band) {
        self.resent[band.index()] += 1;
    }
}

const _: () = assert!(
    DropCause::ALL.len() <= ARRIVED as usize,
    "causes and other counters have different numbers"
);

/// Returns the sum of counters: what other nodes say may be anything that the wire can carry.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
