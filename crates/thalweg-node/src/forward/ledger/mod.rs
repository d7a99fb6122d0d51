//! What became of every ADU on this node, counted by stream and cause.
//!
//! *The idea.* Each stream has one row of counters which its routes share. What is handed to a link is under
//! way until the link reports an outcome: then it was sent, or dropped. So `sent = acknowledged + departed`,
//! and an ADU that expired in the outbox never counts as sent.
//!
//! Beside it each plan has an [`Account`], of which the source is told.
//!
//! What is kept of a stream that is over, and for how long, says `rows`.
//!
//! *What it does not do.* It tells no other node: `control` does.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_core::ledger::Reading;
use thalweg_core::time::{Duration, Instant};
use thalweg_net::Outcome;
use tokio::sync::Notify;

use super::{Account, Table, read, write};

pub(crate) use rows::Kept;
use rows::Rows;

/// The counters of one stream on this node.
#[derive(Debug, Default)]
pub(crate) struct StreamCounts {
    received: AtomicU64,
    acknowledged: AtomicU64,
    departed: AtomicU64,
    delivered: AtomicU64,
    under_way: AtomicU64,
    dropped: [AtomicU64; DropCause::ALL.len()],
    changed: Notify,
    /// A producer here gives it.
    is_given: AtomicBool,
    /// The plans whose ways broke: what is under way there has been sent again, or need not be.
    stranded: Mutex<Vec<Arc<Account>>>,
}

/// A moment's reading of a stream's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamReading {
    /// ADUs that came from another node.
    pub received: u64,
    /// ADUs that left over a link: the acknowledged and the departed ones.
    pub sent: u64,
    /// ADUs that the next node has whole.
    pub acknowledged: u64,
    /// ADUs that left where no acknowledgement is given: datagrams and ordered sequences.
    pub departed: u64,
    /// ADUs given to subscribers on this node.
    pub delivered: u64,
    /// ADUs that wait in an outbox, or were sent and whose fate is not known yet.
    pub under_way: u64,
    /// ADUs that went no further, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// How many ADUs were sent to a neighbour with their payload sealed, and how many without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exposure {
    /// With a sealed payload.
    pub sealed: u64,
    /// With a readable payload.
    pub plain: u64,
}

/// The counters of what is sent to one neighbour; the routes to it share them, so that counting takes no lock.
#[derive(Debug, Default)]
pub(crate) struct ExposureCounts {
    sealed: AtomicU64,
    plain: AtomicU64,
}

/// The counters of all streams.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    streams: Rows,
    accounts: Table<(StreamId, Epoch), Arc<Account>>,
    exposures: Table<NodeId, Arc<ExposureCounts>>,
    unknown: AtomicU64,
    /// Told when ADUs of a plan come with another mark.
    turned: Arc<Notify>,
}

impl Ledger {
    /// Returns the row of a stream, made on first use.
    pub(crate) fn row(&self, stream: StreamId, name: &StreamName) -> Arc<StreamCounts> {
        self.streams.row(stream, name)
    }

    pub(crate) fn find(&self, stream: StreamId) -> Option<Arc<StreamCounts>> {
        self.streams.find(stream)
    }

    /// Keeps what the source of a stream knew when it was withdrawn, for as long as its row is kept.
    pub(crate) fn close(&self, stream: StreamId, reading: Reading) {
        self.streams.close(stream, reading);
    }

    /// Forgets the rows of streams that have been over for long; which are announced is asked if that matters.
    ///
    /// Cost    O(rows)
    pub(crate) fn sweep(&self, now: Instant, announced: impl FnOnce() -> BTreeSet<StreamId>) {
        self.streams.sweep(now, announced);
    }

    /// Returns the counters of all streams that are kept: first of those that are not over yet, then of the last to end.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        self.streams.kept()
    }

    /// Returns the account of a plan, made on first use; that of epoch 0 is of what is given under no plan.
    pub(crate) fn account(&self, stream: StreamId, epoch: Epoch) -> Arc<Account> {
        let account = || Arc::new(Account::new(Arc::clone(&self.turned)));
        let mut accounts = write(&self.accounts);
        Arc::clone(accounts.entry((stream, epoch)).or_insert_with(account))
    }

    pub(crate) fn find_account(&self, stream: StreamId, epoch: Epoch) -> Option<Arc<Account>> {
        read(&self.accounts).get(&(stream, epoch)).map(Arc::clone)
    }

    /// Forgets the account of a plan: should it come back, it counts from zero.
    pub(crate) fn forget_account(&self, stream: StreamId, epoch: Epoch) {
        write(&self.accounts).remove(&(stream, epoch));
    }

    /// Returns the accounts that have changed since they were read, which was so long ago.
    ///
    /// To be read one by one: what hundreds of them count together is more than a cache holds.
    pub(crate) fn stale_accounts(
        &self,
        now: Instant,
        unread: Duration,
    ) -> Vec<((StreamId, Epoch), Arc<Account>)> {
        let accounts = read(&self.accounts);
        let unread = accounts
            .iter()
            .filter(|(_, account)| account.is_unread(now, unread));
        let unread = unread.map(|(plan, account)| (*plan, Arc::clone(account)));
        unread.collect()
    }

    /// Waits until ADUs of a plan have come with another mark than those before, since that was waited for last.
    pub(crate) async fn turned(&self) {
        self.turned.notified().await;
    }

    /// Returns how many ADUs of all streams were sent and have not ended.
    pub(crate) fn under_way(&self) -> u64 {
        self.streams.under_way()
    }

    pub(crate) fn count_unknown(&self) {
        self.unknown.fetch_add(1, Relaxed);
    }

    /// Returns how many ADUs came under a plan that is not installed here, or not from where it says.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    /// Returns the counters of what is sent to a neighbour, made on first use.
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
    /// Takes in that the stream is given here by a producer, who waits until ADUs of it have ended.
    pub(crate) fn give(&self) {
        self.is_given.store(true, Relaxed);
    }

    /// Returns whether somebody may wait until ADUs have ended.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given.load(Relaxed)
    }

    pub(crate) fn received(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    /// An ADU is handed to a link.
    pub(crate) fn handed_on(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    pub(crate) fn delivered(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    pub(crate) fn dropped(&self, cause: DropCause) {
        self.dropped[cause.index()].fetch_add(1, Relaxed);
    }

    /// Counts what became of an ADU that was handed to a link.
    pub(crate) fn ended(&self, outcome: Outcome) {
        match (outcome, outcome.drop_cause()) {
            (_, Some(cause)) => self.dropped(cause),
            (Outcome::Departed, None) => {
                self.departed.fetch_add(1, Relaxed);
            }
            (_, None) => {
                self.acknowledged.fetch_add(1, Relaxed);
            }
        }
        self.under_way.fetch_sub(1, Relaxed);
        self.changed.notify_waiters();
    }

    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed)
    }

    /// Waits no more for what is under way under a plan: its way broke.
    pub(crate) fn strand(&self, account: &Arc<Account>) {
        let mut stranded = self.stranded();
        stranded.retain(|account| account.under_way() > 0);
        stranded.push(Arc::clone(account));
        drop(stranded);
        self.changed.notify_waiters();
    }

    /// Returns how many that are under way are waited for.
    fn awaited(&self) -> u64 {
        let under_way = self.under_way();
        if under_way == 0 {
            return 0;
        }
        let stranded = self.stranded();
        let stranded = stranded.iter().map(|account| account.under_way());
        under_way.saturating_sub(stranded.sum())
    }

    fn stranded(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        // No code that can panic runs under this lock.
        self.stranded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no more than `most` ADUs are under way, those aside whose way broke.
    pub(crate) async fn settled(&self, most: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening before looking: what ends between the two is not missed.
            changed.as_mut().enable();
            if self.under_way() <= most || self.awaited() <= most {
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
        let departed = self.departed.load(Relaxed);
        StreamReading {
            received: self.received.load(Relaxed),
            sent: acknowledged + departed,
            acknowledged,
            departed,
            delivered: self.delivered.load(Relaxed),
            under_way: self.under_way(),
            dropped: dropped.filter(|(_, count)| *count > 0).collect(),
        }
    }
}
