//! Checks that a source's ledger is the truth, once all reports have had time to arrive.
//!
//! The run knows how every ADU ended; the source knows what the nodes of its plans reported. Both must
//! reach the same sums, by node, cause and band. One thing no machine can know: an ADU dropped while it
//! was being sent may have arrived or not. Once a node learns how many arrived it corrects the sum, but
//! not which cause. So the causes that depend on a link's outcome (expired, cancelled, path-lost) are
//! compared as one sum. A dependant that had left whole may have arrived as well: as many may stand
//! under `dependant` as are missing in that sum.
//!
//! For a stream with resent ADUs the deliveries are known, because sinks acknowledge them, but reports
//! of losses behind a cut do not arrive. So only an upper bound is checked: no more may stand as lost
//! or open than ended otherwise.
//!
//! Runs that are exempt, except for that: a node was gone, with its unsent reports, or withheld ADUs; a
//! stream's last ADUs crossed a link that then brought no report back until it was given up; ADUs were
//! in flight until their source released the plan, ten seconds after its end.

use std::collections::BTreeMap;

use thalweg_base::event::DropCause;
use thalweg_control::ledger::{Band, Loss, Reading};

/// The fate of a stream's ADUs that were given under a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// ADUs delivered.
    pub delivered: u64,
    /// ADUs that were lost, by the node's index, cause and band.
    pub lost: BTreeMap<(usize, DropCause, Band), u64>,
    /// ADUs that a node's link dropped as dependants although they had arrived.
    pub returned: BTreeMap<(usize, Band), u64>,
}

/// The key by which losses are compared: node, band, and the cause if the node alone decided on it.
type Key = (usize, Band, Option<DropCause>);

impl Truth {
    /// Returns how a ledger differs from the truth; `place` maps a loss to its node's index.
    pub fn compare(&self, reading: &Reading, place: impl Fn(&Loss) -> usize) -> Option<String> {
        let mut reported: BTreeMap<Key, u64> = BTreeMap::new();
        for loss in reading.losses.iter().filter(|loss| is_planned(loss.cause)) {
            *reported
                .entry(key((place(loss), loss.cause, loss.band)))
                .or_default() += loss.adus;
        }
        let mut known: BTreeMap<Key, u64> = BTreeMap::new();
        for (loss, adus) in &self.lost {
            *known.entry(key(*loss)).or_default() += adus;
        }
        for (&(node, band), most) in &self.returned {
            let dependant = (node, band, Some(DropCause::Dependant));
            let right = known.get(&dependant).copied().unwrap_or_default();
            if let Some(count) = reported.get_mut(&dependant) {
                let taken_elsewhere = count.saturating_sub(right).min(*most);
                *count -= taken_elsewhere;
                *reported.entry((node, band, None)).or_default() += taken_elsewhere;
            }
        }
        reported.retain(|_, adus| *adus > 0);
        let is_same = reading.delivered == self.delivered && reported == known;
        (!is_same).then(|| self.describe(reading))
    }

    /// Returns how a ledger differs from the truth for a stream with resent ADUs.
    pub fn compare_resent(&self, reading: &Reading) -> Option<String> {
        let lost = reading.losses.iter().filter(|loss| is_planned(loss.cause));
        let lost: u64 = lost.map(|loss| loss.adus).sum();
        let most: u64 = self.lost.values().sum();
        let again = reading.losses.iter();
        let again = again.filter(|loss| loss.cause == DropCause::Duplicate);
        let again: u64 = again.map(|loss| loss.adus).sum();
        // An ADU that had arrived unreported before it was resent is known there as a duplicate, not as
        // delivered.
        let delivered = self.delivered.saturating_sub(again)..=self.delivered;
        let is_so = delivered.contains(&reading.delivered) && lost + reading.open() <= most;
        (!is_so).then(|| self.describe(reading))
    }

    fn describe(&self, reading: &Reading) -> String {
        format!(
            "its ledger has {} delivered, {} open and {:?}, but the truth is {} and {:?}",
            reading.delivered,
            reading.open(),
            reading.losses,
            self.delivered,
            self.lost
        )
    }
}

/// Returns whether an ADU with this drop cause was given under a plan.
pub const fn is_planned(cause: DropCause) -> bool {
    !matches!(cause, DropCause::NoSubscriber)
}

/// Returns whether this drop cause depends on a link's outcome.
pub const fn is_link_cause(cause: DropCause) -> bool {
    matches!(
        cause,
        DropCause::Expired | DropCause::Cancelled | DropCause::PathLost
    )
}

const fn key((node, cause, band): (usize, DropCause, Band)) -> Key {
    (
        node,
        band,
        if is_link_cause(cause) {
            None
        } else {
            Some(cause)
        },
    )
}
