//! This node's own record: its number, and when it is made.

use thalweg_base::id::NodeId;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::VARINT_MAX;

use crate::routing::cadence::{Cadence, Urgency};

/// State of this node's own record.
#[derive(Debug)]
pub(super) struct OwnRecord {
    sequence: u64,
    /// When it was last made; `None` to make it at once.
    made: Option<Instant>,
    cadence: Cadence,
    /// The urgency of a measurement that the record does not yet show.
    measured: Option<Urgency>,
    /// When new or lost links are to be announced.
    links_due: Instant,
}

impl Default for OwnRecord {
    fn default() -> Self {
        Self {
            sequence: 0,
            made: None,
            cadence: Cadence::default(),
            measured: None,
            links_due: Instant::NEVER,
        }
    }
}

impl OwnRecord {
    /// Returns when it was last made, unless it is to be made at once.
    pub(super) const fn made(&self) -> Option<Instant> {
        self.made
    }

    /// Returns when new or lost links are to be announced.
    pub(super) const fn links_due(&self) -> Instant {
        self.links_due
    }

    /// Announces new or lost links then.
    pub(super) const fn set_links_due(&mut self, due: Instant) {
        self.links_due = due;
    }

    /// Handles a measurement that it does not show.
    pub(super) fn handle_measured(&mut self, urgency: Urgency) {
        self.measured = self.measured.max(Some(urgency));
    }

    /// Sets the urgency of what it does not show.
    pub(super) const fn set_measured(&mut self, urgency: Urgency) {
        self.measured = Some(urgency);
    }

    /// Handles a stream that is about to use a link.
    pub(super) const fn raise_urgency(&mut self) {
        if self.measured.is_some() {
            self.measured = Some(Urgency::Stream);
        }
    }

    /// Returns when a pending measurement may be announced, if there is one.
    pub(super) fn measured_due(&self, interval: Duration) -> Option<Instant> {
        Some(self.cadence.next(interval, self.measured?))
    }

    /// Handles the announcement of a measurement.
    pub(super) fn handle_told(&mut self, interval: Duration, now: Instant) {
        self.cadence.handle_told(interval, now);
    }

    /// Has it made at once.
    pub(super) const fn make_at_once(&mut self) {
        self.made = None;
    }

    /// Handles its making; returns its number.
    pub(super) fn make(&mut self, since_1970: Duration, now: Instant) -> u64 {
        (self.measured, self.links_due) = (None, Instant::NEVER);
        self.made = Some(now);
        // Wall-clock time keeps the number growing across restarts; a clock that was set back is
        // outrun by one.
        let micros = since_1970.as_micros();
        let micros = micros.saturating_add(now.as_nanos() / 1_000);
        let next = self.sequence.saturating_add(1);
        self.sequence = micros.max(next).min(VARINT_MAX);
        self.sequence
    }

    /// Handles a record of this node from before a restart; returns whether it has a larger number,
    /// which the next outruns.
    pub(super) const fn outrun(&mut self, sequence: u64) -> bool {
        let is_larger = sequence > self.sequence;
        if is_larger {
            self.sequence = sequence;
        }
        is_larger
    }

    /// Returns when this node repeats it: 0.5 to 1.5 intervals after the last. The jitter keeps nodes
    /// that started together from announcing together for long.
    pub(super) fn refresh_at(&self, id: NodeId, interval: Duration) -> Instant {
        let Some(made) = self.made else {
            return Instant::ZERO;
        };
        let mut seed = [0; 8];
        seed.copy_from_slice(&id.0[..8]);
        let seed = u64::from_be_bytes(seed) ^ self.sequence;
        let share = 512 + SplitMix::new(seed).next_below(1_024);
        let nanos = interval.as_nanos() / 1_024;
        made + Duration::from_nanos(nanos.saturating_mul(share))
    }
}
