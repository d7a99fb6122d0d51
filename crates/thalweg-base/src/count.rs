//! One node's counts of one plan's ADUs: filled by the data path, summed by the ledger.
//!
//! *The idea.* Counters only grow, so a report of them may be lost, repeated or late. An ADU is
//! counted by its [`Band`] of importance, and on a hop also by the [`Mark`] that it carries there.
//!
//! *What it does not do.* It neither reports nor compares: the control plane's ledger does. The end
//! of a stream is no ADU and is counted nowhere.
//!
//! *Sources.* docs/concepts/ledger.md.

use core::ops::RangeInclusive;

use crate::adu::{Importance, Mark};
use crate::event::DropCause;

/// Number of importance bands.
pub const BANDS: usize = 8;

/// Importances that are counted together: 0 to 31 in the first band, 224 to 255 in the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u8);

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

    /// Returns the band of a number; only its lowest three bits count.
    pub const fn from_number(number: u8) -> Self {
        Self(number & 7)
    }

    /// Returns the number, 0 to `BANDS` − 1.
    pub const fn number(self) -> u8 {
        self.0
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

    /// Returns how many ADUs were sent and have no outcome yet.
    pub fn outstanding(&self) -> u64 {
        let sum = |rows: &Marked| rows.iter().flatten().sum::<u64>();
        sum(&self.sent).saturating_sub(sum(&self.left) + sum(&self.failed))
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
