//! How the outbox of a link is, as data: what waits, what the path can send, how long ADUs take, what was given up.
//!
//! *What it does not do.* It counts nothing: [`OutboxReading`] is what the link read off its outbox.

use std::collections::BTreeMap;

use serde::Serialize;
use thalweg_core::histogram::Percentiles;
use thalweg_core::id::StreamId;
use thalweg_core::outbox::census::{self, FlowReading, OutboxReading, Waiting};
use thalweg_core::units::Bitrate;

/// The outbox of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboxStatus {
    /// The estimate of what the path can send.
    pub sendable_bps: Option<u64>,
    /// ADUs of which not all is handed to the transport.
    pub waiting_adus: usize,
    /// Their bytes that are not.
    pub waiting_bytes: u64,
    /// The same by importance, the least first, in bands of 32.
    pub by_importance: Vec<BandStatus>,
    /// From an ADU's sending to its acknowledgement, over the last ten seconds; none if none was acknowledged.
    pub latency_ms: Option<LatencyStatus>,
    /// ADUs that the link gave up or refused since it is up, by cause.
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

/// How long ADUs took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyStatus {
    /// How many ADUs that is of.
    pub adus: u64,
    /// The median.
    pub p50: f64,
    /// Of 100 ADUs, 99 took this long at most.
    pub p99: f64,
    /// Of 1,000 ADUs, 999 took this long at most.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// What waits of one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowStatus {
    /// The stream's name, or its number if this node has no name for it.
    pub stream: String,
    /// The plan's number.
    pub epoch: u32,
    /// Its share of the link against other flows'.
    pub weight: u8,
    /// ADUs.
    pub adus: usize,
    /// Bytes.
    pub bytes: u64,
}

impl OutboxStatus {
    /// Returns a reading in the words of the status; `name_of` gives the name of a stream, if it has one here.
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
