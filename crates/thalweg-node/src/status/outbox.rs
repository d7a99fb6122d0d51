//! The outbox of a link as data: what waits, what the path can send, how long ADUs take, what was
//! dropped.
//!
//! *What it does not do.* It counts nothing; [`OutboxReading`] is the link's reading of its outbox.

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_base::histogram::Percentiles;
use thalweg_base::id::StreamId;
use thalweg_base::units::Bitrate;
use thalweg_link::outbox::census::{self, FlowReading, OutboxReading, Waiting};

/// The outbox of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxStatus {
    /// The estimated rate of the path.
    pub sendable_bps: Option<u64>,
    /// ADUs that are not wholly handed to the transport.
    pub waiting_adus: usize,
    /// Their bytes not handed over yet.
    pub waiting_bytes: u64,
    /// The same by importance, the least first, in bands of 32.
    pub by_importance: Vec<BandStatus>,
    /// Latency from an ADU's sending to its acknowledgement, over the last ten seconds; `None`
    /// without any.
    pub latency_ms: Option<LatencyStatus>,
    /// ADUs dropped or refused by the link since it went up, by cause.
    pub dropped: BTreeMap<&'static str, u64>,
    /// What waits by flow: by stream and plan.
    pub flows: Vec<FlowStatus>,
}

/// What waits of one band of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandStatus {
    /// The least importance of the band.
    pub from: u8,
    /// ADUs.
    pub adus: usize,
    /// Bytes.
    pub bytes: u64,
}

/// The latency of ADUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyStatus {
    /// The number of ADUs measured.
    pub adus: u64,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// What waits of one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowStatus {
    /// The stream's name, or its id if this node has no name for it.
    pub stream: String,
    /// The plan's epoch.
    pub epoch: u32,
    /// Its share of the link relative to other flows.
    pub weight: u8,
    /// ADUs.
    pub adus: usize,
    /// Bytes.
    pub bytes: u64,
}

impl OutboxStatus {
    /// Returns a reading in the status' form; `name_of` returns the name of a stream, if it has one
    /// here.
    pub fn new(reading: &OutboxReading, name_of: impl Fn(StreamId) -> Option<String>) -> Self {
        let drops = reading.drops.iter();
        let bands = reading.by_importance.iter().enumerate();
        Self {
            sendable_bps: reading.sendable_rate.map(Bitrate::as_bps),
            waiting_adus: reading.waiting.adus,
            waiting_bytes: reading.waiting.bytes.as_bytes(),
            by_importance: bands.map(|(at, waiting)| band(at, waiting)).collect(),
            latency_ms: reading.latency.as_ref().map(latency),
            dropped: drops.map(|(cause, count)| (cause.name(), count)).collect(),
            flows: reading
                .flows
                .iter()
                .map(|flow| FlowStatus::new(flow, &name_of))
                .collect(),
        }
    }
}

impl FlowStatus {
    fn new(flow: &FlowReading, name_of: impl Fn(StreamId) -> Option<String>) -> Self {
        Self {
            stream: name_of(flow.stream).unwrap_or_else(|| flow.stream.to_string()),
            epoch: flow.epoch.0,
            weight: flow.weight.get(),
            adus: flow.waiting.adus,
            bytes: flow.waiting.bytes.as_bytes(),
        }
    }
}

fn band(at: usize, waiting: &Waiting) -> BandStatus {
    BandStatus {
        from: census::band_start(at).0,
        adus: waiting.adus,
        bytes: waiting.bytes.as_bytes(),
    }
}

fn latency(all: &Percentiles) -> LatencyStatus {
    LatencyStatus {
        adus: all.count,
        p50: all.p50.as_millis_f64(),
        p99: all.p99.as_millis_f64(),
        p999: all.p999.as_millis_f64(),
        max: all.max.as_millis_f64(),
    }
}
