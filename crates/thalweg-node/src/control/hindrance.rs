//! Streams stalled by a subscriber that is too slow or unreachable: which streams, and by which
//! subscriber.
//!
//! *The idea.* A stream without a deadline drops nothing for a slow subscriber; it slows its
//! publisher down. The operator sees which subscriber that is: in the log at the start and the end
//! of a stall, and in the status meanwhile.
//!
//! *What it does not do.* It stalls nothing itself. The mailboxes and the source's store do
//! (`forward::mailbox`, `continuity::outlet`).

use std::collections::BTreeMap;

use thalweg_base::id::StreamId;
use thalweg_base::time::{Duration, Instant};
use tracing::{info, warn};

use super::Control;
use crate::status::StallStatus;

/// Shortest stall that is logged. A burst causes shorter ones.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// The stalled streams.
pub(super) type Stalls = BTreeMap<StreamId, Stall>;

/// A stalled stream.
#[derive(Debug)]
pub(super) struct Stall {
    since: Instant,
    is_logged: bool,
    by: Vec<String>,
    kept_bytes: u64,
}

impl Control {
    /// Updates the stalled streams, and logs each stall's start and end.
    pub(super) fn update_stalls(&mut self) {
        let now = self.now();
        let mut found = self.find_stalls();
        let before = std::mem::take(&mut self.stalls);
        for (stream, old) in before {
            match found.get_mut(&stream) {
                Some(new) => (new.since, new.is_logged) = (old.since, old.is_logged),
                None if old.is_logged => {
                    let name = self.name_of_stream(stream);
                    info!(stream = %name, "the stream goes on");
                }
                None => {}
            }
        }
        for (stream, one) in &mut found {
            if !one.is_logged && one.since + LOG_AFTER <= now {
                one.is_logged = true;
                let (name, by) = (self.name_of_stream(*stream), one.by.join(", "));
                warn!(stream = %name, %by, kept_bytes = one.kept_bytes,
                    "the stream waits for a subscriber that is slower than the stream or unreachable; `--wait-at-most` bounds the wait");
            }
        }
        self.stalls = found;
    }

    fn find_stalls(&self) -> Stalls {
        let now = self.now();
        let waits = |by, kept_bytes| Stall {
            since: now,
            is_logged: false,
            by,
            kept_bytes,
        };
        let mut found = Stalls::new();
        for (stream, publishing) in &self.publishers {
            let Some((plans, kept_bytes)) = publishing.outlet.stalled_by() else {
                continue;
            };
            let source = self.controller.source(*stream);
            let sinks = plans.iter().filter_map(|plan| source?.sink_of(*plan));
            let mut sinks: Vec<String> = sinks.map(|sink| self.name_of(sink)).collect();
            sinks.dedup();
            found.insert(*stream, waits(sinks, kept_bytes));
        }
        for (stream, readings) in self.forwarder.mailboxes.blocking() {
            let one = found.entry(stream).or_insert_with(|| waits(Vec::new(), 0));
            for reading in readings {
                one.kept_bytes = one.kept_bytes.max(reading.waiting.1);
                one.by.push(format!("{} on this node", reading.subscriber));
            }
        }
        found
    }

    fn name_of_stream(&self, stream: StreamId) -> String {
        let source = self.controller.source(stream);
        let own = source.map(|source| source.publication().name.to_string());
        own.or_else(|| self.stream_name(stream))
            .unwrap_or_else(|| stream.to_string())
    }

    /// Returns what stalls a stream, if anything does.
    pub(super) fn stall_status(&self, stream: StreamId) -> Option<StallStatus> {
        let one = self.stalls.get(&stream)?;
        Some(StallStatus {
            by: one.by.clone(),
            seconds: self.now().saturating_since(one.since).as_secs_f64(),
            kept_bytes: one.kept_bytes,
        })
    }
}
