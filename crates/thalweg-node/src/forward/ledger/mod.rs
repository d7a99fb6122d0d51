//! Counters of every ADU on this node, by stream and cause.
//!
//! *The idea.* Each stream has one row of counters. An ADU handed to a link
//! is under way until the link reports its outcome: sent, or dropped. So `sent = acknowledged +
//! unconfirmed`, and an ADU that expired in the outbox never counts as sent.
//!
//! `rows` says how long the counters of an ended stream are kept.
//!
//! *What it does not do.* It does not count for each plan, which is reported to the stream's source: the
//! machine in each stream's lane does.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde::Serialize;
use thalweg_base::event::DropCause;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_control::ledger::Reading;
use thalweg_net::Outcome;
use tokio::sync::Notify;

use super::drops::DropLog;
use super::{Table, write};

use rows::Rows;
pub(crate) use rows::StreamRow;

/// The counters of one stream on this node.
#[derive(Debug, Default)]
pub(crate) struct StreamCounts {
    received: AtomicU64,
    acknowledged: AtomicU64,
    unconfirmed: AtomicU64,
    delivered: AtomicU64,
    outstanding: AtomicU64,
    dropped: [AtomicU64; DropCause::ALL.len()],
    changed: Notify,
    /// A producer on this node publishes it.
    is_published: AtomicBool,
    drops: Arc<DropLog>,
}

/// A reading of a stream's counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamReading {
    /// ADUs received from another node.
    pub received: u64,
    /// ADUs that left over a link: the sum of `acknowledged` and `unconfirmed`.
    pub sent: u64,
    /// ADUs that the next node has whole.
    pub acknowledged: u64,
    /// ADUs that left where the link acknowledges none: in datagrams and ordered sequences.
    pub unconfirmed: u64,
    /// ADUs delivered to subscribers on this node.
    pub delivered: u64,
    /// ADUs that wait in an outbox, or were sent and have no outcome yet.
    pub outstanding: u64,
    /// Dropped ADUs, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Drops on this node by kind of place and by cause; one that several mailboxes dropped counts in each.
    pub drops: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

/// ADUs sent to a neighbour, by whether their payload was sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exposure {
    /// ADUs with a sealed payload.
    pub sealed: u64,
    /// ADUs with a readable payload.
    pub plain: u64,
}

/// The exposure counters of one neighbour; they go with the link to it, so that counting takes no
/// lock.
#[derive(Debug, Default)]
pub(crate) struct ExposureCounts {
    sealed: AtomicU64,
    plain: AtomicU64,
}

/// The counters of all streams and neighbours.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    streams: Rows,
    exposures: Table<NodeId, Arc<ExposureCounts>>,
    unknown: AtomicU64,
}

impl Ledger {
    /// Returns the row of a stream, created on first use.
    pub(crate) fn row(&self, stream: StreamId, name: &StreamName) -> Arc<StreamCounts> {
        self.streams.row(stream, name)
    }

    pub(crate) fn find(&self, stream: StreamId) -> Option<Arc<StreamCounts>> {
        self.streams.find(stream)
    }

    /// Keeps the final ledger of a withdrawn stream for as long as its row.
    pub(crate) fn close(&self, stream: StreamId, reading: Reading) {
        self.streams.close(stream, reading);
    }

    /// Returns the records of drops of all streams that have or had a name, or of all.
    pub(crate) fn drop_logs(
        &self,
        name: Option<&StreamName>,
    ) -> Vec<(StreamId, StreamName, Arc<DropLog>)> {
        self.streams.drop_logs(name)
    }

    /// Forgets rows of streams that have been over for long. A stream that is `resting` has a lane
    /// here that holds its row, and does not use it; `announced` is called only if it matters.
    ///
    /// Cost    O(rows)
    pub(crate) fn sweep(
        &self,
        now: Instant,
        resting: &BTreeSet<StreamId>,
        announced: impl FnOnce() -> BTreeSet<StreamId>,
    ) {
        self.streams.sweep(now, resting, announced);
    }

    /// Returns the kept rows of all streams: streams that are not over first, then the most
    /// recently ended.
    pub(crate) fn kept(&self) -> Vec<StreamRow> {
        self.streams.kept()
    }

    /// Returns how many ADUs of all streams were sent and have no outcome yet.
    pub(crate) fn outstanding(&self) -> u64 {
        self.streams.outstanding()
    }

    pub(crate) fn count_unknown(&self) {
        self.unknown.fetch_add(1, Relaxed);
    }

    /// Returns how many ADUs came under a plan not installed here, or from a node other than the
    /// plan's previous one.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    /// Returns the exposure counters of a neighbour, created on first use.
    pub(crate) fn exposure(&self, next: NodeId) -> Arc<ExposureCounts> {
        Arc::clone(write(&self.exposures).entry(next).or_default())
    }
}

impl ExposureCounts {
    pub(crate) fn sent(&self, sealed: bool) {
        let count = if sealed { &self.sealed } else { &self.plain };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn reading(&self) -> Exposure {
        Exposure {
            sealed: self.sealed.load(Relaxed),
            plain: self.plain.load(Relaxed),
        }
    }
}

impl StreamCounts {
    /// Notes that a producer on this node publishes the stream and waits for outcomes of its ADUs.
    pub(crate) fn mark_published(&self) {
        self.is_published.store(true, Relaxed);
    }

    /// Returns whether a producer here may wait for outcomes.
    pub(crate) fn is_published(&self) -> bool {
        self.is_published.load(Relaxed)
    }

    /// Returns the records of its drops.
    pub(crate) const fn drops(&self) -> &Arc<DropLog> {
        &self.drops
    }

    pub(crate) fn received(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    /// Counts an ADU handed to a link.
    pub(crate) fn handed_on(&self) {
        self.outstanding.fetch_add(1, Relaxed);
    }

    pub(crate) fn delivered(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    pub(crate) fn dropped(&self, cause: DropCause) {
        self.dropped[cause.index()].fetch_add(1, Relaxed);
    }

    /// Counts the outcome of an ADU that was handed to a link.
    pub(crate) fn ended(&self, outcome: Outcome) {
        match (outcome, outcome.drop_cause()) {
            (_, Some(cause)) => self.dropped(cause),
            (Outcome::Departed, None) => {
                self.unconfirmed.fetch_add(1, Relaxed);
            }
            (_, None) => {
                self.acknowledged.fetch_add(1, Relaxed);
            }
        }
        self.outstanding.fetch_sub(1, Relaxed);
        self.changed.notify_waiters();
    }

    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Relaxed)
    }

    /// Wakes those who [wait](Self::wait), for something other than a counter has changed.
    pub(crate) fn notify_changed(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until `is_met` holds; it is checked after each outcome and each notification.
    pub(crate) async fn wait(&self, is_met: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register before the check, so that a notification in between is not missed.
            changed.as_mut().enable();
            if is_met() {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn reading(&self) -> StreamReading {
        let count = |cause: &DropCause| self.dropped[cause.index()].load(Relaxed);
        let dropped = DropCause::ALL
            .iter()
            .map(|cause| (cause.name(), count(cause)));
        let acknowledged = self.acknowledged.load(Relaxed);
        let unconfirmed = self.unconfirmed.load(Relaxed);
        StreamReading {
            received: self.received.load(Relaxed),
            sent: acknowledged + unconfirmed,
            acknowledged,
            unconfirmed,
            delivered: self.delivered.load(Relaxed),
            outstanding: self.outstanding(),
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
            drops: self.drops.sums(),
        }
    }
}
