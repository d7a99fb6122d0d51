//! Proves the sentences on streams in trouble and on links beside their rate, as wrapped on a terminal.

use serde_json::{Value, json};

use super::describe;

fn stream(name: &str, offered_bps: u64, [low, high]: [[u64; 2]; 2]) -> Value {
    let [adus, dropped] = [0, 1].map(|at| low[at] + high[at]);
    let losses = if dropped > 0 {
        json!([
            {"cause": "expired", "importance": [0, 127], "adus": low[1]},
            {"cause": "pre-empted", "importance": [128, 255], "adus": high[1]},
            {"cause": "filtered", "importance": [0, 31], "adus": 900},
        ])
    } else {
        json!([])
    };
    json!({
        "stream": name, "seconds": 8.2, "offered_bps": offered_bps, "adus": adus, "dropped": losses,
        "by_importance": [
            {"importance": [0, 127], "adus": low[0], "dropped": low[1]},
            {"importance": [128, 255], "adus": high[0], "dropped": high[1]},
        ],
    })
}

fn link(traffic: &[Value], rates: &Value) -> Value {
    let mut link = json!({"name": "relay", "sent_bps": 3_960_000, "traffic": traffic});
    for (key, value) in rates.as_object().expect("an object") {
        link[key] = value.clone();
    }
    json!({"node": {"name": "camera"}, "links": [link], "streams": []})
}

fn assert_lines(text: &str, lines: &[&str]) {
    assert_eq!(text.lines().collect::<Vec<_>>(), lines, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn losing_stream_names_its_rival() {
    let traffic = [
        stream("truck/cam1", 3_000_000, [[1_000, 880], [500, 60]]),
        stream("truck/cam2", 3_000_000, [[1_000, 0], [500, 0]]),
    ];
    assert_lines(
        &describe(&link(&traffic, &json!({"measured_bps": 4_010_000}))),
        &[
            "truck/cam1 to relay: 63 % of 1500 ADUs dropped here in the last 8 s (880",
            "    expired, 60 pre-empted); importance 0–127: 88 %, 128–255: 12 %. The link",
            "    carries 4.0 Mbit/s; the offered load is 6.0 Mbit/s (truck/cam1 3.0 Mbit/s,",
            "    63 % dropped; truck/cam2 3.0 Mbit/s; together).",
        ],
    );
}

#[test]
fn lone_stream_has_no_rival() {
    let traffic = [stream("cam", 3_000_000, [[10, 5], [10, 5]])];
    assert_lines(
        &describe(&link(&traffic, &json!({}))),
        &[
            "cam to relay: 50 % of 20 ADUs dropped here in the last 8 s (5 expired, 5",
            "    pre-empted). The link sends 4.0 Mbit/s; the offered load is 3.0 Mbit/s (cam",
            "    3.0 Mbit/s, 50 % dropped; no other stream).",
        ],
    );
}

#[test]
fn lossless_streams_are_not_named() {
    let traffic = [stream("cam", 3_000_000, [[10, 0], [10, 0]])];
    assert_eq!(
        describe(&link(&traffic, &json!({"rate_bps": 4_000_000}))),
        ""
    );
}

#[test]
fn link_above_rate_is_explained() {
    let measured = json!({"rate_bps": 2_000_000, "sent_bps": 1_900_000, "measured_bps": 9_300_000});
    assert_lines(
        &describe(&link(&[], &measured)),
        &[
            "link to relay: carries 9.3 Mbit/s, but plans are held to its `rate` of",
            "    2.0 Mbit/s: raise `rate`, or leave it out, to use more.",
        ],
    );
    assert_lines(
        &describe(&link(&[], &json!({"rate_bps": 2_000_000}))),
        &[
            "link to relay: sends 4.0 Mbit/s, more than its `rate` of 2.0 Mbit/s. Plans count",
            "    on no more than `rate`; it does not slow the link.",
        ],
    );
}

#[test]
fn remote_loss_names_its_node() {
    let loss = |hop: &str, cause: &str, adus: u64| json!({"hop": hop, "cause": cause, "importance": [0, 31], "adus": adus});
    let status = json!({
        "node": {"name": "camera"}, "links": [],
        "streams": [{"name": "cam", "ledger": {"published": 1_000, "delivered": 700, "pending": 0, "losses": [
            loss("camera", "expired", 100), loss("relay", "expired", 150), loss("relay", "oversized", 2),
            loss("relay", "filtered", 40),
        ]}}],
    });
    assert_lines(
        &describe(&status),
        &[
            "cam: 15 % of 1000 ADUs lost on other nodes since it began: at relay 150 expired,",
            "    2 oversized; `thalweg ls` there says what shares the link.",
        ],
    );
}

#[test]
fn waiting_stream_names_its_subscriber() {
    let stalled = json!({"by": ["base"], "seconds": 31.4, "kept_bytes": 16_777_216});
    let status = json!({
        "node": {"name": "camera"}, "links": [],
        "streams": [{"name": "truck/cam1", "stalled": stalled}, {"name": "truck/cam2"}],
    });
    assert_lines(
        &describe(&status),
        &[
            "truck/cam1 has waited 31 s for base, which reads too slowly or cannot be",
            "    reached; 16.0 MiB are kept. `publish --wait-at-most` bounds the wait.",
        ],
    );
}
