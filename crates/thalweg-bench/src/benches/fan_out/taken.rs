//! Evaluates the records of a window.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{LENGTH_BYTES, PACE};
use crate::peers::tree::Record;
use crate::sample::quantile;

/// The results for the ADUs that were due in a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    /// Latency of each first arrival of an ADU at a sink.
    latencies_ms: Vec<f64>,
    /// Number of ADUs that arrived, per sink.
    came: Vec<u32>,
    /// Number of ADUs that were due.
    adus: u32,
    /// Cores that the relay kept busy.
    pub(super) relay_cores: f64,
    /// Cores that the sinks kept busy.
    pub(super) sinks_cores: f64,
}

impl Taken {
    /// Evaluates the ADUs that were due in a span of the clock, in nanoseconds.
    pub(super) fn of(
        records: &[Record],
        due: &Range<u64>,
        sinks: u32,
        adus: u32,
        [relay_cores, sinks_cores]: [f64; 2],
    ) -> Self {
        let mut taken = Self {
            latencies_ms: Vec::new(),
            came: vec![0; sinks as usize],
            adus,
            relay_cores,
            sinks_cores,
        };
        let mut seen = BTreeSet::new();
        for record in records {
            if !due.contains(&record.due_nanos) || !seen.insert((record.sink, record.number)) {
                continue;
            }
            if let Some(came) = taken.came.get_mut(record.sink as usize) {
                *came += 1;
                let latency = record.came_nanos.saturating_sub(record.due_nanos);
                taken.latencies_ms.push(latency as f64 / 1e6);
            }
        }
        taken
    }

    /// Returns the delivered share of the due ADUs, over all sinks.
    pub(super) fn share(&self) -> f64 {
        self.latencies_ms.len() as f64 / (self.came.len() as f64 * f64::from(self.adus))
    }

    /// Returns the shares of the sink that had the least and of the one that had the most.
    pub(super) fn extremes(&self) -> [f64; 2] {
        let of = |came: Option<&u32>| f64::from(*came.unwrap_or(&0)) / f64::from(self.adus);
        [of(self.came.iter().min()), of(self.came.iter().max())]
    }

    /// Returns the forwarding rate per core that the relay kept busy.
    pub(super) fn mbps_per_core(&self) -> f64 {
        let mbit = self.latencies_ms.len() as f64 * LENGTH_BYTES as f64 * 8.0 / 1e6;
        let seconds = PACE.as_secs_f64() * f64::from(self.adus);
        mbit / seconds / self.relay_cores
    }

    /// Returns a quantile of the latencies.
    pub(super) fn latency_ms(&self, share: f64) -> f64 {
        quantile(&self.latencies_ms, share)
    }
}
