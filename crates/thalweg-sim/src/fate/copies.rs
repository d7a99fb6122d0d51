//! Counts the copies of an ADU that crossed one link in one direction.

use std::collections::BTreeMap;

use super::Fates;
use crate::oracle::recast::Doubled;

impl Fates {
    /// Returns the ADUs of which more than one copy was handed to one link.
    ///
    /// Cost    O(ADUs · sinks · hops)
    pub fn doubled(&self) -> Vec<Doubled> {
        let mut doubled = Vec::new();
        for (stream, fates) in self.streams.iter().enumerate() {
            for (adu, sent) in fates.sent.iter().enumerate() {
                let mut copies: BTreeMap<[usize; 2], usize> = BTreeMap::new();
                let passages = fates.passages.iter().filter_map(|sink| sink.get(adu));
                let attempts = passages.flat_map(|passage| passage.attempts.values());
                for hop in attempts.flat_map(|attempt| &attempt.hops) {
                    *copies.entry([hop.from, hop.to]).or_default() += 1;
                }
                let many = copies.into_iter().filter(|(_, copies)| *copies > 1);
                doubled.extend(many.map(|(link, copies)| Doubled {
                    stream,
                    link,
                    due: sent.due,
                    copies,
                }));
            }
        }
        doubled
    }
}
