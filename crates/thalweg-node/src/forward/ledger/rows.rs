//! The rows of streams: made on first use, and kept for a while once nobody uses them any more.
//!
//! *The idea.* A row is in use while its stream is announced, a route or a publisher holds it, or ADUs of it are under way. Whoever
//! reads counters every now and then is to see the last of them too, so it is kept for [`KEPT`] after that, with what its
//! source knew at the end. A node that serves many short streams, such as files, keeps [`OVER_MAX`] of those that are over, the
//! last ones to end.
//!
//! *What it does not do.* It looks at no clock and begins no sweep: `control` does, at its tick.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_core::id::{StreamId, StreamName};
use thalweg_core::ledger::Reading;
use thalweg_core::time::{Duration, Instant};

use super::super::{Map, Table, read, write};
use super::{StreamCounts, StreamReading};

/// How long a row is kept that nobody uses: longer than two looks of whoever looks once in two minutes.
pub(super) const KEPT: Duration = Duration::from_secs(300);

/// How many of those are kept at most.
pub(super) const OVER_MAX: usize = 256;

/// The rows of all streams.
#[derive(Debug, Default)]
pub(super) struct Rows(Table<StreamId, Row>);

#[derive(Debug)]
struct Row {
    counts: Arc<StreamCounts>,
    name: StreamName,
    /// Since when nobody uses it.
    over: Option<Instant>,
    /// What became of its ADUs on all nodes, if it was published here and is withdrawn.
    closed: Option<Reading>,
}

/// What was counted of a stream, and whether it is over here.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) name: StreamName,
    pub(crate) id: StreamId,
    pub(crate) counts: StreamReading,
    /// What became of its ADUs on all nodes, if it was published here.
    pub(crate) closed: Option<Reading>,
    /// Since when it is over, if it is.
    pub(crate) over: Option<Instant>,
}

impl Row {
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.counts) > 1 || self.counts.under_way() > 0
    }
}

impl Rows {
    /// Returns the row of a stream, made on first use.
    pub(super) fn row(&self, stream: StreamId, name: &StreamName) -> Arc<StreamCounts> {
        let new = || Row {
            counts: Arc::default(),
            name: name.clone(),
            over: None,
            closed: None,
        };
        let mut rows = write(&self.0);
        let row = rows.entry(stream).or_insert_with(new);
        row.over = None;
        Arc::clone(&row.counts)
    }

    pub(super) fn find(&self, stream: StreamId) -> Option<Arc<StreamCounts>> {
        read(&self.0)
            .get(&stream)
            .map(|row| Arc::clone(&row.counts))
    }

    /// Keeps with a row what its source knew when the stream was withdrawn.
    pub(super) fn close(&self, stream: StreamId, reading: Reading) {
        if let Some(row) = write(&self.0).get_mut(&stream) {
            row.closed = Some(reading);
        }
    }

    /// Returns how many ADUs of all streams were sent and have not ended.
    pub(super) fn under_way(&self) -> u64 {
        let rows = read(&self.0);
        rows.values().map(|row| row.counts.under_way()).sum()
    }

    /// Forgets what has been over for long enough, and of the rest what is too much. Which streams are announced is asked if
    /// some row is not held.
    ///
    /// Cost    O(rows)
    pub(super) fn sweep(&self, now: Instant, announced: impl FnOnce() -> BTreeSet<StreamId>) {
        if read(&self.0).values().all(Row::is_held) {
            return;
        }
        let announced = announced();
        let mut rows = write(&self.0);
        rows.retain(|id, row| {
            // Who holds no row gets one by this table only, so nobody begins to use it meanwhile.
            row.over = if row.is_held() || announced.contains(id) {
                None
            } else {
                row.over.or(Some(now))
            };
            row.over.is_none_or(|since| now < since + KEPT)
        });
        forget_oldest(&mut rows);
    }

    /// Returns all that is kept: first what is not over yet, then the last to end.
    pub(super) fn kept(&self) -> Vec<Kept> {
        let rows = read(&self.0);
        let kept = rows.iter().map(|(id, row)| Kept {
            name: row.name.clone(),
            id: *id,
            counts: row.counts.reading(),
            closed: row.closed.clone(),
            over: row.over,
        });
        let mut kept: Vec<Kept> = kept.collect();
        kept.sort_by_key(|kept| Reverse((kept.over.unwrap_or(Instant::NEVER), kept.id)));
        kept
    }
}

/// Forgets those that were over first, beyond [`OVER_MAX`].
fn forget_oldest(rows: &mut Map<StreamId, Row>) {
    let over = rows.iter().filter_map(|(id, row)| Some((row.over?, *id)));
    let mut over: Vec<(Instant, StreamId)> = over.collect();
    over.sort_unstable();
    let surplus = over.len().saturating_sub(OVER_MAX);
    for (_, id) in &over[..surplus] {
        rows.remove(id);
    }
}
