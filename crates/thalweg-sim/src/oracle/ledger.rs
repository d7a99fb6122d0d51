//! Whether the ledger of a stream's source is the truth, once all that could be told has been told.
//!
//! *The idea.* The run knows of every ADU how it ended; the source knows what the nodes of its plans told. Both must come to
//! the same sums, by node, cause and importance. In one thing a machine cannot know, and may count otherwise: an ADU that it
//! gave up while it was sent may have been there by then, or not. Once it is told how many came, it takes back so many, but
//! which of several it cannot say. So what depends on the word of a link is compared in one sum: expired, cancelled, path-lost.
//! One that had left whole and was given up with what it depends on may be there as well: so many may stand under
//! `dependant` that are missing in that sum.
//!
//! Of a stream of which something was sent again by another way it is known what was delivered, for sinks name what they have; but
//! where and why the rest was lost, what nodes behind a cut had to tell does not come by it. So it is asked that no more stands as
//! lost or open than ended otherwise: what is sent again is no loss.
//!
//! *What it does not do.* Of a run in which a node was gone, with what it had not told, or passed on nothing, it says nothing else;
//! nor of one whose last ADUs went over a link that then took no word of them back until it was given up; nor of one whose ADUs
//! were on their way for so long that its source had given up their plan, ten seconds after its end.

use std::collections::BTreeMap;

use thalweg_core::event::DropCause;
use thalweg_core::ledger::{Band, Loss, Reading};

/// What became of the ADUs of a stream that were given under a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// ADUs delivered.
    pub delivered: u64,
    /// ADUs that ended otherwise: the node's place, why, how important, how many.
    pub lost: BTreeMap<(usize, DropCause, Band), u64>,
    /// ADUs that a node's link gave up as dependants, and that were there after all.
    pub returned: BTreeMap<(usize, Band), u64>,
}

/// By what losses are compared: their node, their band, and their cause if the node alone decided on it.
type Key = (usize, Band, Option<DropCause>);

impl Truth {
    /// Says what a ledger has otherwise; `place` tells where a node is.
    pub fn compare(&self, reading: &Reading, place: impl Fn(&Loss) -> usize) -> Option<String> {
        let mut said: BTreeMap<Key, u64> = BTreeMap::new();
        for loss in reading.losses.iter().filter(|loss| is_planned(loss.cause)) {
            *said
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
            if let Some(count) = said.get_mut(&dependant) {
                let taken_elsewhere = count.saturating_sub(right).min(*most);
                *count -= taken_elsewhere;
                *said.entry((node, band, None)).or_default() += taken_elsewhere;
            }
        }
        said.retain(|_, adus| *adus > 0);
        let is_same = reading.delivered == self.delivered && said == known;
        (!is_same).then(|| self.says(reading))
    }

    /// Says what a ledger has otherwise of a stream of which something was sent again.
    pub fn compare_mended(&self, reading: &Reading) -> Option<String> {
        let lost = reading.losses.iter().filter(|loss| is_planned(loss.cause));
        let lost: u64 = lost.map(|loss| loss.adus).sum();
        let most: u64 = self.lost.values().sum();
        let again = reading.losses.iter();
        let again = again.filter(|loss| loss.cause == DropCause::Duplicate);
        let again: u64 = again.map(|loss| loss.adus).sum();
        // What had come before it was sent again, and was not told, is known as twice there and not as delivered.
        let delivered = self.delivered.saturating_sub(again)..=self.delivered;
        let is_so = delivered.contains(&reading.delivered) && lost + reading.open() <= most;
        (!is_so).then(|| self.says(reading))
    }

    fn says(&self, reading: &Reading) -> String {
        format!(
            "its ledger says {} delivered, {} open and {:?}, and the truth is {} and {:?}",
            reading.delivered,
            reading.open(),
            reading.losses,
            self.delivered,
            self.lost
        )
    }
}

/// Whether an ADU was given under a plan.
pub const fn is_planned(cause: DropCause) -> bool {
    !matches!(cause, DropCause::NoSubscriber)
}

/// Whether it depends on the word of a link that an ADU ended so.
pub const fn is_word(cause: DropCause) -> bool {
    matches!(
        cause,
        DropCause::Expired | DropCause::Cancelled | DropCause::PathLost
    )
}

const fn key((node, cause, band): (usize, DropCause, Band)) -> Key {
    (node, band, if is_word(cause) { None } else { Some(cause) })
}
