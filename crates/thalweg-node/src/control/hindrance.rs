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

use super::mind::Mind;
use super::programs::{Programs, Stalled};
use crate::forward::Forwarder;
use crate::status::StallStatus;

/// Shortest stall that is logged. A burst causes shorter ones.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// The stalled streams.
#[derive(Debug, Default)]
pub(super) struct Stalls(BTreeMap<StreamId, Stall>);

/// A stalled stream.
#[derive(Debug)]
struct Stall {
    since: Instant,
    is_logged: bool,
    by: Vec<String>,
    kept_bytes: u64,
}

impl Stalls {
    /// Updates the stalled streams, and logs each stall's start and end.
    pub(super) fn update(&mut self, programs: &Programs, forwarder: &Forwarder, mind: &Mind) {
        let now = mind.now();
        let mut found = find(programs, forwarder, mind);
        let before = std::mem::take(&mut self.0);
        for (stream, old) in before {
            match found.get_mut(&stream) {
                Some(new) => (new.since, new.is_logged) = (old.since, old.is_logged),
                None if old.is_logged => {
                    let name = name_of_stream(stream, mind);
                    info!(stream = %name, "the stream goes on");
                }
                None => {}
            }
        }
        for (stream, one) in &mut found {
            if !one.is_logged && one.since + LOG_AFTER <= now {
                one.is_logged = true;
                let (name, by) = (name_of_stream(*stream, mind), one.by.join(", "));
                warn!(stream = %name, %by, kept_bytes = one.kept_bytes,
                    "the stream waits for a subscriber that is slower than the stream or unreachable; `--wait-at-most` bounds the wait");
            }
        }
        self.0 = found;
    }

    /// Returns what stalls a stream, if anything does.
    pub(super) fn status(&self, stream: StreamId, now: Instant) -> Option<StallStatus> {
        let one = self.0.get(&stream)?;
        Some(StallStatus {
            by: one.by.clone(),
            seconds: now.saturating_since(one.since).as_secs_f64(),
            kept_bytes: one.kept_bytes,
        })
    }
}

/// Returns the streams that are stalled now, as if each had just begun to be.
fn find(programs: &Programs, forwarder: &Forwarder, mind: &Mind) -> BTreeMap<StreamId, Stall> {
    let now = mind.now();
    let waits = |by, kept_bytes| Stall {
        since: now,
        is_logged: false,
        by,
        kept_bytes,
    };
    let mut found = BTreeMap::new();
    for Stalled {
        stream,
        plans,
        kept_bytes,
    } in programs.stalled()
    {
        let source = mind.controller().source(stream);
        let sinks = plans.iter().filter_map(|plan| source?.sink_of(*plan));
        let mut sinks: Vec<String> = sinks.map(|sink| mind.name_of(sink)).collect();
        sinks.dedup();
        found.insert(stream, waits(sinks, kept_bytes));
    }
    for (stream, readings) in forwarder.mailboxes.blocking() {
        let one = found.entry(stream).or_insert_with(|| waits(Vec::new(), 0));
        for reading in readings {
            one.kept_bytes = one.kept_bytes.max(reading.waiting.1);
            one.by.push(format!("{} on this node", reading.subscriber));
        }
    }
    found
}

fn name_of_stream(stream: StreamId, mind: &Mind) -> String {
    let source = mind.controller().source(stream);
    let own = source.map(|source| source.publication().name.to_string());
    own.or_else(|| mind.stream_name(stream))
        .unwrap_or_else(|| stream.to_string())
}
