//! Whether the sources of a world know, at its end, what became of their ADUs.
//!
//! *The idea.* The truth of a stream is the sum of the fates of its ADUs ([`crate::oracle::ledger`]); what its source reads in
//! its ledger must be that. Where nodes or links were gone what they had to tell is gone as well, so there less is asked, or
//! nothing.
//!
//! *What it does not do.* It mends no account, and waits for none: the run asks it again until all are right or the time for
//! telling is over.

use std::collections::BTreeMap;

use thalweg_core::ledger::{Loss, Reading};
use thalweg_core::model::NodeName;

use super::Run;
use crate::host::Host;

/// Of which streams what their source is told must be the truth at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ledgers {
    /// Of those of which nothing was sent again.
    #[default]
    Unbroken,
    /// Also of those of which something was, by what their sinks have. So it is unless several ways break one after the other and
    /// what sinks say is lost meanwhile: of about a thousand made-up worlds one has such a stream.
    Mended,
}

impl Run<'_> {
    /// Returns, by stream, what its source knows of its ADUs that is not so.
    pub(super) fn tells(&self) -> Vec<Option<String>> {
        let watch = &self.watch;
        let mut readings: BTreeMap<usize, Vec<Reading>> = BTreeMap::new();
        for host in self.hosts.iter().flatten() {
            for (stream, reading) in host.readings() {
                if let Some(at) = watch.fates.stream_of(stream) {
                    readings.entry(at).or_default().push(reading);
                }
            }
        }
        let place = |loss: &Loss| watch.place_of(loss);
        let tell = |at: usize| match readings.get(&at).map(Vec::as_slice) {
            Some([reading]) => {
                let truth = watch.fates.truth(at, &watch.names);
                if !watch.fates.was_resent(at) {
                    truth.compare(reading, place)
                } else if self.is_told_by_receipts(at) {
                    truth.compare_mended(reading)
                } else {
                    None
                }
            }
            // A source that was away knows of its last life only.
            _ => None,
        };
        (0..watch.world.streams.len()).map(tell).collect()
    }

    /// Returns whether a source knows by receipts what came of a stream though ways of it broke: its ends stay, nodes do as they say,
    /// it is not held, for that may be longer than a plan lies, and nothing is copied on its way, of which the source keeps no
    /// account of its own.
    fn is_told_by_receipts(&self, at: usize) -> bool {
        let (fates, stream) = (&self.watch.fates, &self.watch.world.streams[at]);
        let is_end = |name: &NodeName| *name == stream.from || stream.to.contains(name);
        let mut names = self.watch.names.iter().enumerate();
        let stays = names.all(|(place, name)| !is_end(name) || !fates.was_gone(place));
        let is_asked = self.ledgers == Ledgers::Mended;
        is_asked && stays && !self.withholds() && !stream.needs.is_held() && !fates.was_grafted(at)
    }

    fn withholds(&self) -> bool {
        self.hosts.iter().flatten().any(Host::withholds)
    }

    /// Looks whether every source knows what became of its ADUs.
    pub(super) fn check_accounts(&mut self) {
        let mut places = 0..self.hosts.len();
        // What they had to tell, or to pass on of what others tell, is gone with them.
        let is_told = !self.withholds()
            && places.all(|place| {
                !self.watch.fates.was_gone(place) && !self.watch.fates.was_outlived(place)
            });
        for (at, tell) in self.tells().into_iter().enumerate() {
            // What was on a link that went down is told when it is back, unless the plan has been released by then; and of what
            // comes when it has been, nothing is told.
            let fates = &self.watch.fates;
            // Receipts come by another way.
            let is_known = |_: &String| {
                let is_told = is_told && !fates.was_cut(at);
                (is_told || fates.was_resent(at)) && !fates.was_late(at)
            };
            if let Some(what) = tell.filter(is_known) {
                let stream = &self.watch.world.streams[at];
                let source = self
                    .watch
                    .names
                    .iter()
                    .position(|name| *name == stream.from);
                let what = format!("stream `{}`: {what}", stream.name);
                self.watch.violate(source.unwrap_or_default(), None, what);
            }
        }
    }
}
