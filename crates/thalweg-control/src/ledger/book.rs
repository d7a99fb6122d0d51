//! A source's accounts of all plans of a stream: the current ones, and the sums of those that
//! ended.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::limits::LEDGER_NODES_MAX;
use thalweg_base::time::{Duration, Instant};

use super::{Account, BANDS, Band, Counts, What, total};

/// Shortest interval between two notes that a stream loses ADUs.
pub const NOTE_INTERVAL: Duration = Duration::from_secs(10);

/// The order in which causes are charged for ADUs that arrived although they were dropped: causes
/// that drop an ADU in flight come first.
const TAKEN_BACK: [DropCause; 4] = [
    DropCause::Expired,
    DropCause::PathLost,
    DropCause::Cancelled,
    // A dependant that had left completely is dropped with the ADU that it depends on.
    DropCause::Dependant,
];

/// A stream's totals as far as its source knows. An ADU counts once for each plan that it was given
/// under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// ADUs that the producer gave.
    pub given: u64,
    /// ADUs that sinks handed to their subscribers.
    pub delivered: u64,
    /// ADUs that were lost, sorted by hop, cause and importance.
    pub losses: Vec<Loss>,
}

/// ADUs lost at one node for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The node, standing also for its link to the next; `None` sums the nodes of ended plans
    /// beyond [`LEDGER_NODES_MAX`].
    pub node: Option<NodeId>,
    /// The cause.
    pub cause: DropCause,
    /// Their importance.
    pub band: Band,
    /// How many.
    pub adus: u64,
}

/// The accounts of one stream at its source.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// ADUs given while no plan was in force, or under one that is gone.
    unplanned: Counts,
    /// Of ended plans: ADUs given, and counters by node.
    given: u64,
    past: BTreeMap<(Option<NodeId>, u8), u64>,
    /// The losses at the last note, and the earliest time of the next.
    noted: Vec<Loss>,
    note: Instant,
    /// Whether anything was lost since the losses were last added up.
    is_news: bool,
}

impl Reading {
    /// Returns the number of lost ADUs.
    pub fn lost(&self) -> u64 {
        total(self.losses.iter().map(|loss| loss.adus))
    }

    /// Returns the number of ADUs in flight or without a reported fate.
    pub fn open(&self) -> u64 {
        let ended = self.delivered.saturating_add(self.lost());
        self.given.saturating_sub(ended)
    }
}

impl Book {
    /// Takes in the counts of ADUs that were given under no plan.
    pub(crate) fn handle_unplanned(&mut self, counts: &Counts) {
        self.unplanned.clone_from(counts);
        self.is_news = true;
    }

    /// Takes in that a plan has lost more.
    pub(crate) const fn handle_loss(&mut self) {
        self.is_news = true;
    }

    /// Adds the totals of an ended plan.
    pub(crate) fn close(&mut self, account: &Account, path: &[NodeId]) {
        self.given = self.given.saturating_add(account.given());
        let mut known: BTreeSet<NodeId> = self.past.keys().filter_map(|(node, _)| *node).collect();
        for (at, number, count) in account.entries() {
            let node = path.get(at).copied();
            // Beyond the limit, nodes share one row.
            let node = node.filter(|node| known.contains(node) || known.len() < LEDGER_NODES_MAX);
            known.extend(node);
            add(&mut self.past, (node, number), count);
        }
        for (at, number, count) in account.double_counted() {
            let node = path.get(at).copied().filter(|node| known.contains(node));
            subtract(&mut self.past, &(node, number), count);
        }
    }

    /// Returns the totals of all plans; `present` are those that have not ended.
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
            for (at, number, count) in account.double_counted() {
                subtract(&mut sums, &(path.get(at).copied(), number), count);
            }
        }
        summed(given, &sums)
    }

    /// Returns whether there may be a new loss, and a note is allowed now.
    pub(crate) fn is_note_due(&self, now: Instant) -> bool {
        self.is_news && self.note <= now
    }

    /// Returns the largest loss since the last note.
    pub(crate) fn poll_note(&mut self, reading: &Reading, now: Instant) -> Option<Loss> {
        self.is_news = false;
        let grown = reading.losses.iter().filter(|loss| is_news(loss.cause));
        let grown = grown.map(|loss| Loss {
            adus: loss.adus.saturating_sub(self.last_noted_of(loss)),
            ..*loss
        });
        let most = grown.max_by_key(|loss| loss.adus)?;
        if most.adus == 0 {
            return None;
        }
        self.noted.clone_from(&reading.losses);
        self.note = now + NOTE_INTERVAL;
        Some(most)
    }

    fn last_noted_of(&self, loss: &Loss) -> u64 {
        let is_same = |noted: &&Loss| {
            (noted.node, noted.cause, noted.band) == (loss.node, loss.cause, loss.band)
        };
        self.noted
            .iter()
            .find(is_same)
            .map_or(0, |noted| noted.adus)
    }
}

/// Returns whether a cause deserves a note: drops that the plan intends do not, nor ADUs without a
/// subscriber.
fn is_news(cause: DropCause) -> bool {
    !matches!(cause, DropCause::Filtered | DropCause::NoSubscriber)
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, count: u64) {
    if count > 0 {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
}

fn subtract<K: Ord>(sums: &mut BTreeMap<K, u64>, key: &K, count: u64) {
    if let Some(sum) = sums.get_mut(key) {
        *sum = sum.saturating_sub(count);
    }
}

/// Returns the counters as losses, without the ADUs that arrived after all.
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
            // Subtract returned ADUs from the causes in order.
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
