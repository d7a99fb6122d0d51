//! Proves that a link's reading of its outbox is in the status completely, in the units of the
//! fields' names.

use std::num::NonZeroU8;

use serde_json::json;
use thalweg_base::event::{DropCause, DropCounts};
use thalweg_base::histogram::Percentiles;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::outbox::census::{BANDS, FlowReading, OutboxReading, Waiting};

use super::OutboxStatus;

/// Returns a reading with a value in every part.
pub(crate) fn reading() -> OutboxReading {
    let waiting = |adus, bytes| Waiting {
        adus,
        bytes: DataSize::from_bytes(bytes),
    };
    let mut by_importance = [Waiting::default(); BANDS];
    by_importance[0] = waiting(3, 3_000);
    by_importance[7] = waiting(1, 500);
    let mut drops = DropCounts::ZERO;
    drops.add(DropCause::Expired);
    drops.add(DropCause::Expired);
    drops.add(DropCause::Preempted);
    let flow = |stream, adus, bytes| FlowReading {
        stream: StreamId(stream),
        epoch: Epoch(4),
        weight: NonZeroU8::new(16).expect("it is not zero"),
        waiting: waiting(adus, bytes),
    };
    OutboxReading {
        sendable_rate: Some(Bitrate::from_kbps(2_000)),
        waiting: waiting(4, 3_500),
        by_importance,
        latency: Some(Percentiles {
            count: 250,
            p50: Duration::from_micros(12_500),
            p99: Duration::from_millis(48),
            p999: Duration::from_millis(300),
            max: Duration::from_millis(310),
        }),
        drops,
        flows: vec![flow(7, 4, 3_500), flow(8, 0, 0)],
    }
}

fn name_of(stream: StreamId) -> Option<String> {
    (stream == StreamId(7)).then(|| "truck/cam1".to_string())
}

#[test]
fn reading_is_complete() {
    let status = OutboxStatus::new(&reading(), name_of);
    let mut expected = json!({
        "sendable_bps": 2_000_000,
        "waiting_adus": 4,
        "waiting_bytes": 3_500,
        "latency_ms": {"adus": 250, "p50": 12.5, "p99": 48.0, "p999": 300.0, "max": 310.0},
        "dropped": {"expired": 2, "pre-empted": 1},
        "flows": [
            {"stream": "truck/cam1", "epoch": 4, "weight": 16, "adus": 4, "bytes": 3_500},
            {"stream": StreamId(8).to_string(), "epoch": 4, "weight": 16, "adus": 0, "bytes": 0},
        ],
    });
    let bands = [3, 0, 0, 0, 0, 0, 0, 1].iter().enumerate();
    let bytes = |adus: &i32| [0, 500, 0, 3_000][*adus as usize];
    expected["by_importance"] = bands
        .map(|(at, adus)| json!({"from": 32 * at, "adus": adus, "bytes": bytes(adus)}))
        .collect();
    assert_eq!(serde_json::to_value(&status).expect("plain data"), expected);
}

#[test]
fn unmeasured_is_null() {
    let silent = OutboxReading {
        sendable_rate: None,
        latency: None,
        ..reading()
    };
    let status = OutboxStatus::new(&silent, |_| None);
    let status = serde_json::to_value(&status).expect("plain data");
    assert!(status["sendable_bps"].is_null() && status["latency_ms"].is_null());
}
