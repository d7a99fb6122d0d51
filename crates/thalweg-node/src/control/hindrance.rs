//! Streams that wait because a subscriber takes less than comes, or cannot be reached: which, and which subscriber.
//!
//! *The idea.* A stream without a deadline gives nothing up for a slow subscriber; it slows its publisher down. A person is to see at
//! once which subscriber that is: in the log when it begins and when it is over, and in the status meanwhile.
//!
//! *What it does not do.* It holds nothing up: the mailboxes and what the source keeps do (`forward::mailbox`, `continuity::outlet`).

use std::collections::BTreeMap;

use thalweg_core::id::StreamId;
use thalweg_core::time::{Duration, Instant};
use tracing::{info, warn};

use super::Control;
use crate::status::HeldUpStatus;

/// A stream that waits for less than this is not worth a line: a burst does that.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// The streams that wait.
pub(super) type Hindrances = BTreeMap<StreamId, Hindrance>;

/// A stream that waits.
#[derive(Debug)]
pub(super) struct Hindrance {
    since: Instant,
    is_told: bool,
    by: Vec<String>,
    kept_bytes: u64,
}

impl Control {
    /// Looks which streams wait, and says so of those that have begun or ceased to.
    pub(super) fn look_at_hindrances(&mut self) {
        let now = self.now();
        let mut found = self.find_hindrances();
        let before = std::mem::take(&mut self.hindrances);
        for (stream, old) in before {
            match found.get_mut(&stream) {
                Some(new) => (new.since, new.is_told) = (old.since, old.is_told),
                None if old.is_told => {
                    let name = self.name_of_stream(stream);
                    info!(stream = %name, "the stream goes on");
                }
                None => {}
            }
        }
        for (stream, one) in &mut found {
            if !one.is_told && one.since + TELL_AFTER <= now {
                one.is_told = true;
                let (name, by) = (self.name_of_stream(*stream), one.by.join(", "));
                warn!(stream = %name, %by, kept_bytes = one.kept_bytes,
                    "the stream waits for a subscriber that takes less than comes, or cannot be reached; `--wait-at-most` bounds that");
            }
        }
        self.hindrances = found;
    }

    fn find_hindrances(&self) -> Hindrances {
        let now = self.now();
        let waits = |by, kept_bytes| Hindrance {
            since: now,
            is_told: false,
            by,
            kept_bytes,
        };
        let mut found = Hindrances::new();
        for (stream, publishing) in &self.publishers {
            let Some((plans, kept_bytes)) = publishing.outlet.hindered_by() else {
                continue;
            };
            let source = self.controller.source(*stream);
            let sinks = plans.iter().filter_map(|plan| source?.sink_of(*plan));
            let mut sinks: Vec<String> = sinks.map(|sink| self.name_of(sink)).collect();
            sinks.dedup();
            found.insert(*stream, waits(sinks, kept_bytes));
        }
        for (stream, readings) in self.forwarder.mailboxes.pressed() {
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

    /// Returns what a stream waits for, if it does.
    pub(super) fn held_up(&self, stream: StreamId) -> Option<HeldUpStatus> {
        let one = self.hindrances.get(&stream)?;
        Some(HeldUpStatus {
            by: one.by.clone(),
            seconds: self.now().saturating_since(one.since).as_secs_f64(),
            kept_bytes: one.kept_bytes,
        })
    }
}
