//! Checks at the end of a run that the sources' ledgers are true.
//!
//! The truth of a stream is the sum of the fates of its ADUs ([`crate::oracle::ledger`]). Where nodes
//! or links were gone, their unsent reports are gone too, so less is checked there, or nothing. The run
//! repeats the check until all ledgers are right or the time for reports is over.

use std::collections::BTreeMap;

use thalweg_control::ledger::{Loss, Reading};
use thalweg_planner::model::NodeName;

use super::Run;
use crate::host::Host;

/// Which streams' ledgers must be true at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ledgers {
    /// Streams of which nothing was resent.
    #[default]
    Unbroken,
    /// Also streams with resent ADUs, by their sinks' receipts. These can be lost if several paths
    /// break one after the other; about one in a thousand generated worlds has such a stream.
    Mended,
}

impl Run<'_> {
    /// Returns, by stream, how its source's ledger differs from the truth.
    pub(super) fn ledger_errors(&self) -> Vec<Option<String>> {
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
                } else if self.has_receipts(at) {
                    truth.compare_resent(reading)
                } else {
                    None
                }
            }
            // A source that was away knows of its last life only.
            _ => None,
        };
        (0..watch.world.streams.len()).map(tell).collect()
    }

    /// Returns whether a source knows by receipts what happened to a stream although its paths broke.
    /// That requires that its ends stay; that no node withholds; that the stream is not held, which may
    /// last longer than a plan; and that nothing is copied on its path, because the source keeps no account
    /// of its own for copies.
    fn has_receipts(&self, at: usize) -> bool {
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

    /// Reports a violation for every ledger that should be true and is not.
    pub(super) fn check_accounts(&mut self) {
        let mut places = 0..self.hosts.len();
        // A node that was gone, or frozen for longer than its links live, lost its own reports and
        // those that it should have forwarded.
        let is_told = !self.withholds()
            && places.all(|place| {
                !self.watch.fates.was_gone(place) && !self.watch.fates.was_outlived(place)
            });
        for (at, tell) in self.ledger_errors().into_iter().enumerate() {
            // Reports on a link that went down are repeated when it is back, unless the plan has been
            // released by then. ADUs that arrive after the release are not reported at all.
            let fates = &self.watch.fates;
            // Receipts take another path, so a cut does not lose them.
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
                self.watch
                    .add_violation(source.unwrap_or_default(), None, what);
            }
        }
    }
}
