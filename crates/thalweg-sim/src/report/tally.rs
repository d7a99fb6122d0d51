//! Counts the fates of one stream's ADUs on their path to one sink.

use std::collections::BTreeMap;

use thalweg_base::event::DropCause;
use thalweg_base::time::Duration;

use super::{ImportanceReport, Percentiles, StreamReport, is_cancelled};

/// The counts of a stream's ADUs so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    sent: u64,
    bytes_sent: u64,
    bytes_delivered: u64,
    cancelled: u64,
    lost: u64,
    by_cause: BTreeMap<String, u64>,
    by_hop: BTreeMap<String, BTreeMap<String, u64>>,
    by_importance: BTreeMap<u8, Row>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    sent: u64,
    in_time: u64,
    replayed: u64,
    latencies: Vec<Duration>,
}

impl Tally {
    /// Counts an ADU that the producer gave.
    pub fn handle_sent(&mut self, importance: u8, payload_bytes: usize) {
        self.sent += 1;
        self.bytes_sent += payload_bytes as u64;
        self.by_importance.entry(importance).or_default().sent += 1;
    }

    /// Counts a delivered ADU; `latency` is since it was due at its producer.
    pub fn handle_delivered(
        &mut self,
        importance: u8,
        payload_bytes: usize,
        latency: Duration,
        in_time: bool,
    ) {
        self.bytes_delivered += payload_bytes as u64;
        let row = self.by_importance.entry(importance).or_default();
        row.in_time += u64::from(in_time);
        row.latencies.push(latency);
    }

    /// Counts a replayed ADU. It is late by design, so its latency is not recorded.
    pub fn handle_replayed(&mut self, importance: u8, payload_bytes: usize) {
        self.bytes_delivered += payload_bytes as u64;
        self.by_importance.entry(importance).or_default().replayed += 1;
    }

    /// Counts dropped ADUs; `place` is a node, a link as `a->b`, or empty if unknown.
    pub fn handle_dropped(&mut self, cause: DropCause, place: &str, count: u64) {
        if is_cancelled(cause) {
            self.cancelled += count;
        } else {
            self.lost += count;
        }
        *self.by_cause.entry(cause.name().to_owned()).or_default() += count;
        if !place.is_empty() {
            let causes = self.by_hop.entry(place.to_owned()).or_default();
            *causes.entry(cause.name().to_owned()).or_default() += count;
        }
    }

    /// Returns the report.
    ///
    /// Cost    O(n log n) of the ADUs delivered
    pub fn report(&self, stream: &str, sink: &str) -> StreamReport {
        let rows = self.by_importance.iter().rev();
        let by_importance: Vec<_> = rows
            .map(|(importance, row)| row.report(*importance))
            .collect();
        let delivered = by_importance.iter().map(|row| row.delivered).sum();
        let all = self.by_importance.values();
        StreamReport {
            stream: stream.to_owned(),
            sink: sink.to_owned(),
            sent: self.sent,
            delivered,
            in_time: by_importance.iter().map(|row| row.in_time).sum(),
            replayed: all.clone().map(|row| row.replayed).sum(),
            cancelled: self.cancelled,
            lost: self.lost,
            unaccounted: self
                .sent
                .saturating_sub(delivered + self.cancelled + self.lost),
            bytes_sent: self.bytes_sent,
            bytes_delivered: self.bytes_delivered,
            by_cause: self.by_cause.clone(),
            by_hop: self.by_hop.clone(),
            by_importance,
            latency_ms: Percentiles::of(
                all.flat_map(|row| row.latencies.iter().copied()).collect(),
            ),
            psnr: None,
        }
    }
}

impl Row {
    fn report(&self, importance: u8) -> ImportanceReport {
        ImportanceReport {
            importance,
            sent: self.sent,
            delivered: self.latencies.len() as u64 + self.replayed,
            in_time: self.in_time,
            latency_ms: Percentiles::of(self.latencies.clone()),
        }
    }
}

impl Percentiles {
    /// Returns the percentiles of these times.
    ///
    /// Cost    O(n log n)
    pub fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let rank = |per_mille: usize| {
            let rank = (samples.len() * per_mille).div_ceil(1_000).max(1);
            samples.get(rank - 1).map(|sample| sample.as_millis_f64())
        };
        Self {
            p50: rank(500),
            p90: rank(900),
            p99: rank(990),
            p999: rank(999),
            max: rank(1_000),
        }
    }
}
