//! Proves the view: typical frames at three sizes and all sizes without a panic (`frames`), the
//! meaning of the figures (`figures`), and the keys (`keys`).

mod figures;
mod frames;
mod keys;

use serde_json::{Value, json};

use super::reading::Reading;
use super::state::State;
use super::view::View;

/// A node without links and streams.
fn bare() -> Value {
    json!({
        "node": {"name": "camera"},
        "uptime_seconds": 12.0,
        "links": [],
        "streams": [],
        "routes": [],
    })
}

fn link(name: &str) -> Value {
    json!({
        "key": name, "name": name, "state": "up", "reason": null,
        "rtt_ms": 12.34, "loss": 0.004, "sent_bps": 2_104_000, "outbox": null,
    })
}

/// The outbox of a link whose bands hold this many ADUs of 1,000 bytes, the least important first.
fn outbox(adus: [u64; 8]) -> Value {
    let bands = adus.iter().enumerate();
    let bands: Vec<Value> = bands
        .map(|(at, adus)| json!({"from": 32 * at, "adus": adus, "bytes": adus * 1_000}))
        .collect();
    let sum: u64 = adus.iter().sum();
    json!({
        "sendable_bps": 2_400_000,
        "waiting_adus": sum,
        "waiting_bytes": sum * 1_000,
        "by_importance": bands,
        "latency_ms": {"adus": 812, "p50": 11.9, "p99": 48.2, "p999": 301.0, "max": 310.4},
        "dropped": {},
        "flows": [],
    })
}

fn stream(name: &str, publisher: &str, sent: u64) -> Value {
    json!({
        "name": name, "id": name, "publisher": publisher, "rate_bps": 368_056,
        "counts": {
            "received": 0, "sent": sent, "acknowledged": sent, "unconfirmed": 0, "delivered": 0,
            "outstanding": 0, "dropped": {},
        },
    })
}

fn reading(value: Value) -> Reading {
    serde_json::from_value(value).expect("it is in the shape of a status")
}

/// A view, and the state of a person without choices.
fn view(before: Option<Value>, now: Value) -> (View, State) {
    let before = before.map(reading);
    let view = View::new(before.as_ref(), &reading(now));
    let mut state = State::default();
    state.handle_view(&view);
    (view, state)
}
