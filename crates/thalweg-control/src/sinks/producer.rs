//! Silent producers: the next nodes report them, and sinks switch to another producer of the name.
//!
//! *The idea.* When a producer's node dies, its neighbours notice within moments; its sinks only when
//! its links leave the map, after 8 s. So the neighbours send a report along the path of the ADUs to
//! the sinks ([`Parts::report_source_silent`](crate::parts::Parts::report_source_silent)). There
//! another producer of that name takes over, if there is one. If there is none, nothing changes: the
//! silent one may return.
//!
//! A source with another path switches before the report is sent,
//! [`SILENCE_REPORT_DELAY`](crate::health::SILENCE_REPORT_DELAY) after the silence. Its sinks then
//! have a newer plan, and ignore a report on an older one.
//!
//! *What it does not do.* It switches no sink back: a sink stays with the producer that it switched to.
//!
//! *Sources.* docs/concepts/continuity.md §1, docs/concepts/recast.md; docs/reference/protocol.md §4.8.

use alloc::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;

/// Silent producers of wanted streams, and until when that is remembered.
#[derive(Debug, Default)]
pub(super) struct SilentProducers(BTreeMap<NodeId, Instant>);

impl SilentProducers {
    /// Returns whether a producer is silent.
    pub(super) fn has(&self, producer: NodeId) -> bool {
        self.0.contains_key(&producer)
    }

    /// Returns when the first silence is forgotten.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.0.values().min().copied().unwrap_or(Instant::NEVER)
    }

    /// Records a silent producer; returns whether that is news.
    pub(super) fn insert(&mut self, producer: NodeId, until: Instant) -> bool {
        self.0.insert(producer, until).is_none()
    }

    /// Handles an answer of a producer.
    pub(super) fn remove(&mut self, producer: NodeId) {
        self.0.remove(&producer);
    }

    /// Forgets silences that are over; returns whether there were any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|_, until| *until > now);
        self.0.len() != before
    }
}
