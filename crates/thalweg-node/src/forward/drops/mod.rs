//! The drops of one stream on this node, as records: when, which sequences, why and where.
//!
//! *The idea.* Counters say how many were lost, and nothing of when. So each drop opens a record, or joins
//! one of the same place and cause that is younger than [`INTERVAL`]; a record is *closed* after that
//! time, gets a number, and goes into a ring. A reader remembers the number up to which it has read.
//!
//! ```text
//! drop ─► open: one per place and cause ── INTERVAL ──► closed: numbered, the last RECORDS_MAX
//! ```
//!
//! *What it does not do.* It drops nothing, and it reads no clock.
//!
//! *Sources.* docs/concepts/mailbox.md; spec SO-16, SO-20.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::Header;
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};

/// How long a record collects drops of one place and cause: short beside what a person sees on a timeline.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Closed records that are kept of a stream: the last three minutes of a place that drops all the time.
pub(super) const RECORDS_MAX: usize = 2_048;

/// Open records: each mailbox of a stream is a place. The oldest is closed early beyond this.
const OPEN_MAX: usize = 64;

/// Why ADUs are gone that never came: the source's ledger knows.
const MISSING: &str = "missing";

/// Where on this node an ADU was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At its source, before a plan carried it.
    Source,
    /// While it arrived, or on arrival.
    Arrival,
    /// In the node: by an adapter, or before it was copied.
    Node,
    /// In the outbox of a link, or on it.
    Link(NodeId),
    /// Before it came here.
    Way,
    /// In the mailbox of this subscriber.
    Mailbox(Arc<str>),
}

impl Place {
    /// Returns its kind's name.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Arrival => "arrival",
            Self::Node => "node",
            Self::Link(_) => "link",
            Self::Way => "way",
            Self::Mailbox(_) => "mailbox",
        }
    }
}

/// Drops of one place and cause within [`INTERVAL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its number, from 1 on; 0 while it is open.
    pub(crate) number: u64,
    /// The first drop and the last one.
    pub(crate) times: [Instant; 2],
    /// The lowest and the highest sequence. Others between may have been dropped elsewhere, or not at all.
    pub(crate) sequences: [u64; 2],
    pub(crate) adus: u64,
    /// The least and the largest importance; `None` of ADUs that never came.
    pub(crate) importance: Option<[u8; 2]>,
    pub(crate) cause: &'static str,
    pub(crate) place: Place,
}

/// Number of drops, by kind of place and cause.
pub(crate) type DropSums = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// The drops of one stream.
#[derive(Debug, Default)]
pub(crate) struct DropLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    open: Vec<Record>,
    closed: VecDeque<Record>,
    /// The number of the record that was closed last.
    last: u64,
    /// Missing ADUs below this were recorded: several subscribers lack the same ones.
    missing_below: u64,
    sums: DropSums,
}

impl DropLog {
    /// Records a dropped ADU.
    pub(crate) fn record(&self, header: &Header, place: Place, cause: DropCause, now: Instant) {
        let importance = header.importance.0;
        self.lock().add(Record {
            number: 0,
            times: [now; 2],
            sequences: [header.sequence.0; 2],
            adus: 1,
            importance: Some([importance; 2]),
            cause: cause.name(),
            place,
        });
    }

    /// Records ADUs that never came, or come too late to be in sequence.
    pub(crate) fn record_missing(&self, missing: Range<u64>, now: Instant) {
        let log = &mut self.lock();
        let from = missing.start.max(log.missing_below);
        if from >= missing.end {
            return;
        }
        log.missing_below = missing.end;
        log.add(Record {
            number: 0,
            times: [now; 2],
            sequences: [from, missing.end - 1],
            adus: missing.end - from,
            importance: None,
            cause: MISSING,
            place: Place::Way,
        });
    }

    /// Returns the records after a number that are closed by now.
    pub(crate) fn after(&self, number: u64, now: Instant) -> Vec<Record> {
        let log = &mut self.lock();
        log.close_old(now);
        let from = log.closed.partition_point(|record| record.number <= number);
        log.closed.range(from..).cloned().collect()
    }

    /// Returns the number of the record that was closed last.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Returns how many there were.
    pub(crate) fn sums(&self) -> DropSums {
        self.lock().sums.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn add(&mut self, new: Record) {
        let [now, _] = new.times;
        let causes = self.sums.entry(new.place.kind()).or_default();
        *causes.entry(new.cause).or_default() += new.adus;
        self.close_old(now);
        let is_same = |open: &&mut Record| open.cause == new.cause && open.place == new.place;
        if let Some(open) = self.open.iter_mut().find(is_same) {
            open.join(&new);
            return;
        }
        if self.open.len() >= OPEN_MAX {
            let oldest = self.open.remove(0);
            self.close(oldest);
        }
        self.open.push(new);
    }

    /// Closes the records that are as old as they may get.
    fn close_old(&mut self, now: Instant) {
        let is_old = |record: &Record| record.times[0] + INTERVAL <= now;
        if !self.open.iter().any(is_old) {
            return;
        }
        let (old, open) = std::mem::take(&mut self.open).into_iter().partition(is_old);
        self.open = open;
        let old: Vec<Record> = old;
        for record in old {
            self.close(record);
        }
    }

    fn close(&mut self, mut record: Record) {
        self.last += 1;
        record.number = self.last;
        if self.closed.len() >= RECORDS_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back(record);
    }
}

impl Record {
    /// Adds the drops of another record of the same place and cause.
    fn join(&mut self, other: &Self) {
        self.times[1] = other.times[1].max(self.times[1]);
        self.sequences = outer(self.sequences, other.sequences);
        self.adus += other.adus;
        self.importance = match (self.importance, other.importance) {
            (Some(one), Some(other)) => Some(outer(one, other)),
            (one, other) => one.or(other),
        };
    }
}

fn outer<T: Ord + Copy>([low, high]: [T; 2], [other_low, other_high]: [T; 2]) -> [T; 2] {
    [low.min(other_low), high.max(other_high)]
}
