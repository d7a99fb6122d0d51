//! A host that does nothing with what it is to pass on, or with a part of it.
//!
//! *The idea.* It answers its neighbours as ever and takes what they send. One that keeps all, control for others too, says
//! nothing of it; one that keeps a share of the ADUs says of those too that they came, and passes on the rest.

use thalweg_core::adu::Header;
use thalweg_core::event::DropCause;
use thalweg_core::units::Ratio;

use super::Host;
use crate::fate::Copy;
use crate::watch::Watch;

impl Host {
    /// Takes what it is to pass on from now on, and does nothing with a share of it.
    pub const fn handle_withhold(&mut self, share: Ratio) {
        self.withheld = share;
    }

    /// Returns whether it passes on nothing, or not all.
    pub fn withholds(&self) -> bool {
        self.withheld > Ratio::ZERO
    }

    /// Returns whether it passes on nothing.
    pub(super) fn withholds_all(&self) -> bool {
        self.withheld == Ratio::ONE
    }

    /// Returns whether an ADU that is to be passed on is not.
    pub(super) fn is_withheld(&mut self) -> bool {
        // Nothing is drawn where nothing is left to chance.
        self.withholds_all() || self.withholds() && self.dice.next_bool(self.withheld)
    }

    /// Does nothing with an ADU: all of it is read, and none of it is kept.
    pub(super) fn withhold(&mut self, header: &Header, copy: Option<Copy>, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if !self.withholds_all() {
            self.count_arrived(header.mark(), header, now);
        }
        watch.dropped(self.place, copy, DropCause::PathLost);
    }
}
