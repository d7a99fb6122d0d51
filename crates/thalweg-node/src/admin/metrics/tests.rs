//! Proves that a link's outbox is on the metrics page in base units, that a link without one has no
//! samples, and that ended streams are on the page like others.

use thalweg_base::id::NodeId;

use super::*;
use crate::forward::Exposure;
use crate::status::tests::reading;

fn link(name: &str, outbox: Option<OutboxStatus>) -> LinkStatus {
    LinkStatus {
        key: NodeId([0; 32]),
        name: name.to_string(),
        state: "up",
        reason: None,
        addresses: Vec::new(),
        rtt_ms: None,
        loss: None,
        sent_bps: None,
        received_bps: None,
        window_bps: None,
        memory: None,
        failovers: None,
        jitter_ms: None,
        measured_bps: None,
        headroom_bps: None,
        announced_bps: None,
        rate_bps: None,
        secure: true,
        trusted: true,
        adus: Exposure::default(),
        outbox,
        traffic: Vec::new(),
    }
}

#[test]
fn outbox_is_in_base_units() {
    let outbox = OutboxStatus::new(&reading(), |_| None);
    let mut page = Page::default();
    outboxes(
        &mut page,
        &[link("relay", Some(outbox)), link("desk", None)],
    );
    for line in [
        "# TYPE thalweg_link_sendable_bits_per_second gauge",
        "thalweg_link_sendable_bits_per_second{peer=\"relay\"} 2000000",
        "thalweg_link_waiting_adus{peer=\"relay\",importance=\"0\"} 3",
        "thalweg_link_waiting_adus{peer=\"relay\",importance=\"32\"} 0",
        "thalweg_link_waiting_bytes{peer=\"relay\",importance=\"224\"} 500",
        "thalweg_link_latency_seconds{peer=\"relay\",quantile=\"0.5\"} 0.0125",
        "thalweg_link_latency_seconds{peer=\"relay\",quantile=\"1\"} 0.31",
        "thalweg_link_adus_dropped_total{peer=\"relay\",cause=\"expired\"} 2",
        "thalweg_link_adus_dropped_total{peer=\"relay\",cause=\"pre-empted\"} 1",
    ] {
        assert!(
            page.text.lines().any(|found| found == line),
            "{line}\n{}",
            page.text
        );
    }
    assert!(!page.text.contains("desk"), "{}", page.text);
}

#[test]
fn ended_stream_is_on_page() {
    let counts = StreamReading {
        delivered: 7,
        dropped: [("expired", 2)].into(),
        ..StreamReading::default()
    };
    let ledger = LedgerStatus {
        published: 9,
        delivered: 7,
        pending: 0,
        losses: Vec::new(),
    };
    let over = Counted {
        name: "files/1",
        counts: &counts,
        ledger: Some(&ledger),
    };
    let mut page = Page::default();
    streams(&mut page, std::slice::from_ref(&over));
    ledgers(&mut page, &[over]);
    for line in [
        "thalweg_stream_adus_delivered_total{stream=\"files/1\"} 7",
        "thalweg_stream_adus_dropped_total{stream=\"files/1\",cause=\"expired\"} 2",
        "thalweg_stream_path_adus_published_total{stream=\"files/1\"} 9",
    ] {
        let is_there = page.text.lines().any(|found| found == line);
        assert!(is_there, "{line}\n{}", page.text);
    }
}

/// Each metric by its former name and its present one, without `thalweg_`.
const RENAMED: [(&str, &str); 6] = [
    ("refused_total", "messages_refused_total"),
    ("adus_unknown_total", "adus_unroutable_total"),
    ("stream_adus_under_way", "stream_adus_outstanding"),
    (
        "stream_adus_departed_total",
        "stream_adus_unconfirmed_total",
    ),
    (
        "stream_path_adus_given_total",
        "stream_path_adus_published_total",
    ),
    ("stream_path_adus_open", "stream_path_adus_pending"),
];

#[test]
fn former_metrics_are_gone_and_documented() {
    let source = include_str!("mod.rs");
    let reference = include_str!("../../../../../docs/reference/api.md");
    for (former, now) in RENAMED {
        assert!(
            !source.contains(&format!("\"thalweg_{former}\"")),
            "{former}"
        );
        assert!(source.contains(&format!("\"thalweg_{now}\"")), "{now}");
        let row = format!("`{former}` → `{now}`");
        assert!(
            reference.contains(&row),
            "docs/reference/api.md lacks {row}"
        );
    }
}
