//! A source's accounts of all plans of a stream: the present ones, and the sums of those that are over.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Account, BANDS, Band, Counts, What, total};
use crate::event::DropCause;
use crate::id::NodeId;
use crate::limits::LEDGER_NODES_MAX;
use crate::time::{Duration, Instant};

/// How often it is said at most that a stream loses ADUs.
pub const NOTE_EVERY: Duration = Duration::from_secs(10);

/// In which order the causes of what came after all are believed to be: what is given up while it is under way.
const TAKEN_BACK: [DropCause; 4] = [
    DropCause::Expired,
    DropCause::PathLost,
    DropCause::Cancelled,
    // One that had left whole goes with what it depends on.
    DropCause::Dependant,
];

/// What became of a stream's ADUs, as far as its source has been told. An ADU counts once for each plan that it was given
/// under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// ADUs that the producer gave.
    pub given: u64,
    /// ADUs that sinks gave to their subscribers.
    pub delivered: u64,
    /// ADUs that went no further, by hop, cause and importance, in that order.
    pub losses: Vec<Loss>,
}

/// ADUs that ended at one node for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Where, or on the link from there to the next node; `None` for nodes of former plans that are not told apart any more.
    pub node: Option<NodeId>,
    /// Why.
    pub cause: DropCause,
    /// How much they mattered.
    pub band: Band,
    /// How many.
    pub adus: u64,
}

/// The accounts of one stream at its source.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// What was given while no plan was in force, or under one that is gone.
    unplanned: Counts,
    /// ADUs given, and counters by node, of plans that are over.
    given: u64,
    past: BTreeMap<(Option<NodeId>, u8), u64>,
    /// What was said last, and when it may be said again.
    noted: Vec<Loss>,
    note: Instant,
    /// Whether anything was lost since it was last added up.
    is_news: bool,
}

impl Reading {
    /// Returns how many went no further.
    pub fn lost(&self) -> u64 {
        total(self.losses.iter().map(|loss| loss.adus))
    }

    /// Returns how many are on their way, or ended without the source knowing yet.
    pub fn open(&self) -> u64 {
        let ended = self.delivered.saturating_add(self.lost());
        self.given.saturating_sub(ended)
    }
}

impl Book {
    /// Takes in what was given under no plan.
    pub(crate) fn handle_unplanned(&mut self, counts: &Counts) {
        self.unplanned.clone_from(counts);
        self.is_news = true;
    }

    /// Takes in that a plan has lost more.
    pub(crate) const fn handle_loss(&mut self) {
        self.is_news = true;
    }

    /// Keeps what a plan that is over has come to.
    pub(crate) fn close(&mut self, account: &Account, path: &[NodeId]) {
        self.given = self.given.saturating_add(account.given());
        let mut known: BTreeSet<NodeId> = self.past.keys().filter_map(|(node, _)| *node).collect();
        for (at, number, count) in account.entries() {
            let node = path.get(at).copied();
            let node = node.filter(|node| known.contains(node) || known.len() < LEDGER_NODES_MAX);
            known.extend(node);
            add(&mut self.past, (node, number), count);
        }
        for (at, number, count) in account.twice() {
            let node = path.get(at).copied().filter(|node| known.contains(node));
            take(&mut self.past, &(node, number), count);
        }
    }

    /// Returns the sums of all plans, of which these are not over.
    pub(crate) fn reading<'a>(
        &self,
        source: NodeId,
        present: impl Iterator<Item = (&'a Account, &'a [NodeId])>,
    ) -> Reading {
        let mut sums = self.past.clone();
        let unplanned = total(self.unplanned.arrived.iter().flatten().copied());
        let mut given = self.given.saturating_add(unplanned);
        for (cause, dropped) in DropCause::ALL.iter().zip(&self.unplanned.dropped) {
            for (band, count) in Band::all().zip(dropped) {
                let number = What::Dropped(*cause).number(band);
                add(&mut sums, (Some(source), number), *count);
            }
        }
        for (account, path) in present {
            given = given.saturating_add(account.given());
            for (at, number, count) in account.entries() {
                add(&mut sums, (path.get(at).copied(), number), count);
            }
            for (at, number, count) in account.twice() {
                take(&mut sums, &(path.get(at).copied(), number), count);
            }
        }
        summed(given, &sums)
    }

    /// Returns whether there may be a loss to say, and it may be said now.
    pub(crate) fn is_note_due(&self, now: Instant) -> bool {
        self.is_news && self.note <= now
    }

    /// Returns what a stream lost most of since it was said last.
    pub(crate) fn poll_note(&mut self, reading: &Reading, now: Instant) -> Option<Loss> {
        self.is_news = false;
        let grown = reading.losses.iter().filter(|loss| is_news(loss.cause));
        let grown = grown.map(|loss| Loss {
            adus: loss.adus.saturating_sub(self.noted_of(loss)),
            ..*loss
        });
        let most = grown.max_by_key(|loss| loss.adus)?;
        if most.adus == 0 {
            return None;
        }
        self.noted.clone_from(&reading.losses);
        self.note = now + NOTE_EVERY;
        Some(most)
    }

    fn noted_of(&self, loss: &Loss) -> u64 {
        let is_same = |noted: &&Loss| {
            (noted.node, noted.cause, noted.band) == (loss.node, loss.cause, loss.band)
        };
        self.noted
            .iter()
            .find(is_same)
            .map_or(0, |noted| noted.adus)
    }
}

/// What a plan drops on purpose, and what nobody asked for, is no news.
fn is_news(cause: DropCause) -> bool {
    !matches!(cause, DropCause::Filtered | DropCause::NoSubscriber)
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, count: u64) {
    if count > 0 {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn take<K: Ord>(sums: &mut BTreeMap<K, u64>, key: &K, count: u64) {
    if let Some(sum) = sums.get_mut(key) {
        *sum = sum.saturating_sub(count);
    }
}

/// Returns the counters as losses, without what came after all.
fn summed(given: u64, sums: &BTreeMap<(Option<NodeId>, u8), u64>) -> Reading {
    let mut reading = Reading {
        given,
        ..Reading::default()
    };
    let mut dropped: BTreeMap<(Option<NodeId>, DropCause, Band), u64> = BTreeMap::new();
    let mut returned: BTreeMap<Option<NodeId>, [u64; BANDS]> = BTreeMap::new();
    for ((node, number), count) in sums {
        match What::from_number(*number) {
            Some((What::Dropped(cause), band)) => add(&mut dropped, (*node, cause, band), *count),
            Some((What::Delivered, _)) => {
                reading.delivered = reading.delivered.saturating_add(*count);
            }
            Some((What::Returned, band)) => {
                let sum = &mut returned.entry(*node).or_default()[band.index()];
                *sum = sum.saturating_add(*count);
            }
            Some((What::Arrived(_) | What::AllCopied, _)) | None => {}
        }
    }
    for (node, returned) in returned {
        for (band, mut left) in Band::all().zip(returned) {
            for cause in TAKEN_BACK.into_iter().chain(DropCause::ALL) {
                let Some(count) = dropped.get_mut(&(node, cause, band)) else {
                    continue;
                };
                let taken = left.min(*count);
                *count -= taken;
                left -= taken;
            }
        }
    }
    let dropped = dropped.into_iter().filter(|(_, adus)| *adus > 0);
    reading.losses = dropped
        .map(|((node, cause, band), adus)| Loss {
            node,
            cause,
            band,
            adus,
        })
        .collect();
    reading
}
