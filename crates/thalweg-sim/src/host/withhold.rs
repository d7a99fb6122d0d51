//! A host that silently drops all or part of what it should forward.
//!
//! It answers its neighbours and takes what they send. A host that withholds everything, including
//! other nodes' control frames, reports nothing of it; one that withholds a share of the ADUs reports
//! those as received and forwards the rest.

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::units::Ratio;

use super::Host;
use crate::fate::Copy;
use crate::watch::Watch;

impl Host {
    /// Withholds this share of what it should forward from now on.
    pub const fn handle_withhold(&mut self, share: Ratio) {
        self.withheld = share;
    }

    /// Returns whether it withholds anything.
    pub fn withholds(&self) -> bool {
        self.withheld > Ratio::ZERO
    }

    /// Returns whether it forwards nothing.
    pub(super) fn withholds_all(&self) -> bool {
        self.withheld == Ratio::ONE
    }

    /// Draws whether an ADU that should be forwarded is withheld.
    pub(super) fn is_withheld(&mut self) -> bool {
        // Draw only where chance decides, so that other runs keep their random sequence.
        self.withholds_all() || self.withholds() && self.rng.next_bool(self.withheld)
    }

    /// Reads an ADU to its end and discards it.
    pub(super) fn withhold(&mut self, header: &Header, copy: Option<Copy>, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if !self.withholds_all() {
            self.count_arrived(header.mark(), header, now);
        }
        watch.dropped(self.place, copy, DropCause::PathLost);
    }
}
