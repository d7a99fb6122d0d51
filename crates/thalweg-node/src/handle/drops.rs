//! What was dropped of streams on this node: all that is still known, or as it happens.
//!
//! *The idea.* The data path keeps records in rings, one for each stream. A reader looks
//! every [`DROP_INTERVAL`], which is how long a record is open, and remembers how far it has read; a name
//! may have had several streams.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use thalweg_base::id::{StreamId, StreamName};
use thalweg_base::time::Instant;

use super::Handle;
use crate::forward::{DROP_INTERVAL, DropPlace, DropRecord};
use crate::status::DropStatus;

/// Follows the drops of a stream.
pub struct Drops {
    handle: Handle,
    name: StreamName,
    /// The number of the last record that was read, by stream.
    read: BTreeMap<StreamId, u64>,
}

/// Returns what is known of drops of a stream on a node, or of all streams, the oldest first.
pub(super) fn known(handle: &Handle, name: Option<&StreamName>) -> Vec<DropStatus> {
    let now = handle.now();
    let mut all = Vec::new();
    for (stream, name, log) in handle.forwarder.ledger.drop_logs(name) {
        let records = log.after(0, now).into_iter();
        all.extend(records.map(|one| status(&one, (stream, &name), now)));
    }
    all.sort_by(|one, other| one.time.total_cmp(&other.time));
    all
}

impl Drops {
    /// Follows the drops of a stream from now on.
    pub(super) fn follow(handle: Handle, name: StreamName) -> Self {
        let logs = handle.forwarder.ledger.drop_logs(Some(&name)).into_iter();
        let read = logs.map(|(stream, _, log)| (stream, log.last()));
        Self {
            read: read.collect(),
            handle,
            name,
        }
    }

    /// Waits for drops; `None` once the node has stopped. Cancel safe.
    pub async fn recv(&mut self) -> Option<Vec<DropStatus>> {
        loop {
            let new = self.take_new();
            if !new.is_empty() {
                return Some(new);
            }
            if self.handle.is_stopped() {
                return None;
            }
            tokio::time::sleep(DROP_INTERVAL.into()).await;
        }
    }

    fn take_new(&mut self) -> Vec<DropStatus> {
        let now = self.handle.now();
        let mut new = Vec::new();
        for (stream, name, log) in self.handle.forwarder.ledger.drop_logs(Some(&self.name)) {
            let read = self.read.entry(stream).or_default();
            for record in log.after(*read, now) {
                *read = record.number;
                new.push(status(&record, (stream, &name), now));
            }
        }
        new
    }
}

fn status(
    record: &DropRecord,
    (stream, name): (StreamId, &StreamName),
    now: Instant,
) -> DropStatus {
    let [first, last] = record.times;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix = since.map_or(0.0, |since| since.as_secs_f64());
    DropStatus {
        stream: name.clone(),
        id: stream.to_string(),
        number: record.number,
        time: unix - now.saturating_since(first).as_secs_f64(),
        seconds: last.saturating_since(first).as_secs_f64(),
        place: record.place.kind().into(),
        at: match &record.place {
            DropPlace::Link(peer) => Some(peer.to_string()),
            DropPlace::Mailbox(subscriber) => Some(subscriber.to_string()),
            _ => None,
        },
        cause: record.cause.into(),
        adus: record.adus,
        sequences: record.sequences,
        importance: record.importance,
    }
}
