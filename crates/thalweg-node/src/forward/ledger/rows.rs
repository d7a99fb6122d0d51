//! The counter rows of streams: created on first use, and kept for a while after their last use.
//!
//! *The idea.* A row is in use while its stream is announced, a lane with plans or a publisher holds it, or
//! ADUs of it are under way. A monitor that polls the counters must still see the final ones, so a
//! row is kept for [`KEPT`] after that, with the source's final ledger. On a node with many short
//! streams, such as files, the last [`OVER_MAX`] ended streams are kept.
//!
//! *What it does not do.* It reads no clock and starts no sweep; `control` does on its tick.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_base::id::{StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::Reading;

use super::super::drops::DropLog;
use super::super::{Map, Table, read, write};
use super::{StreamCounts, StreamReading};

/// How long an unused row is kept: more than two polls of a monitor that polls every two minutes.
pub(super) const KEPT: Duration = Duration::from_secs(300);

/// Maximum number of unused rows.
pub(super) const OVER_MAX: usize = 256;

/// The rows of all streams.
#[derive(Debug, Default)]
pub(super) struct Rows(Table<StreamId, Row>);

#[derive(Debug)]
struct Row {
    counts: Arc<StreamCounts>,
    name: StreamName,
    /// Since when it is unused.
    over: Option<Instant>,
    /// The ledger over all nodes, if the stream was published here and is withdrawn.
    closed: Option<Reading>,
}

/// A kept row of counters.
#[derive(Clone, Debug)]
pub(crate) struct StreamRow {
    pub(crate) name: StreamName,
    pub(crate) id: StreamId,
    pub(crate) counts: StreamReading,
    /// The ledger over all nodes, if the stream was published here.
    pub(crate) closed: Option<Reading>,
    /// Since when the stream is over, if it is.
    pub(crate) over: Option<Instant>,
}

impl Row {
    /// Returns whether it is in use; the lane of a resting stream only holds it.
    fn is_held(&self, is_resting: bool) -> bool {
        let holders = Arc::strong_count(&self.counts) - usize::from(is_resting);
        holders > 1 || self.counts.outstanding() > 0
    }
}

impl Rows {
    /// Returns the row of a stream, created on first use.
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

    /// Returns the records of drops of all streams that have or had a name, or of all.
    pub(super) fn drop_logs(
        &self,
        name: Option<&StreamName>,
    ) -> Vec<(StreamId, StreamName, Arc<DropLog>)> {
        let rows = read(&self.0);
        let named = rows
            .iter()
            .filter(|(_, row)| name.is_none_or(|name| row.name == *name));
        let logs = named.map(|(id, row)| (*id, row.name.clone(), Arc::clone(row.counts.drops())));
        let mut logs: Vec<_> = logs.collect();
        logs.sort_by_key(|(id, ..)| *id);
        logs
    }

    /// Keeps the final ledger of a withdrawn stream with its row.
    pub(super) fn close(&self, stream: StreamId, reading: Reading) {
        if let Some(row) = write(&self.0).get_mut(&stream) {
            row.closed = Some(reading);
        }
    }

    /// Returns how many ADUs of all streams were sent and have no outcome yet.
    pub(super) fn outstanding(&self) -> u64 {
        let rows = read(&self.0);
        rows.values().map(|row| row.counts.outstanding()).sum()
    }

    /// Forgets rows that have been over for [`KEPT`], and the oldest beyond [`OVER_MAX`].
    /// `announced` is called only if some row is not held.
    ///
    /// Cost    O(rows)
    pub(super) fn sweep(
        &self,
        now: Instant,
        resting: &BTreeSet<StreamId>,
        announced: impl FnOnce() -> BTreeSet<StreamId>,
    ) {
        let is_held = |(id, row): (&StreamId, &Row)| row.is_held(resting.contains(id));
        if read(&self.0).iter().all(is_held) {
            return;
        }
        let announced = announced();
        let mut rows = write(&self.0);
        rows.retain(|id, row| {
            // New holders get a row through this table only, which is locked, so no row is taken
            // into use meanwhile.
            row.over = if row.is_held(resting.contains(id)) || announced.contains(id) {
                None
            } else {
                row.over.or(Some(now))
            };
            row.over.is_none_or(|since| now < since + KEPT)
        });
        forget_oldest(&mut rows);
    }

    /// Returns all kept rows: streams that are not over first, then the most recently ended.
    pub(super) fn kept(&self) -> Vec<StreamRow> {
        let rows = read(&self.0);
        let kept = rows.iter().map(|(id, row)| StreamRow {
            name: row.name.clone(),
            id: *id,
            counts: row.counts.reading(),
            closed: row.closed.clone(),
            over: row.over,
        });
        let mut kept: Vec<StreamRow> = kept.collect();
        kept.sort_by_key(|kept| Reverse((kept.over.unwrap_or(Instant::NEVER), kept.id)));
        kept
    }
}

/// Forgets the streams that ended first, beyond [`OVER_MAX`].
fn forget_oldest(rows: &mut Map<StreamId, Row>) {
    let over = rows.iter().filter_map(|(id, row)| Some((row.over?, *id)));
    let mut over: Vec<(Instant, StreamId)> = over.collect();
    over.sort_unstable();
    let surplus = over.len().saturating_sub(OVER_MAX);
    for (_, id) in &over[..surplus] {
        rows.remove(id);
    }
}
