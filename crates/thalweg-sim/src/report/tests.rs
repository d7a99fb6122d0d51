//! Proves that a tally's sums add up and that percentiles are nearest-rank.

use thalweg_base::event::DropCause;
use thalweg_base::time::Duration;

use super::{Percentiles, Tally};

#[test]
fn percentiles_are_nearest_rank() {
    let times = |count: u64| (1..=count).rev().map(Duration::from_millis).collect();
    let of = |count| Percentiles::of(times(count));
    assert_eq!(of(0), Percentiles::default());
    assert_eq!(
        (of(1).p50, of(1).p999, of(1).max),
        (Some(1.0), Some(1.0), Some(1.0))
    );
    let hundred = of(100);
    assert_eq!((hundred.p50, hundred.p90), (Some(50.0), Some(90.0)));
    assert_eq!((hundred.p99, hundred.p999), (Some(99.0), Some(100.0)));
    assert_eq!(of(2_000).p999, Some(1_998.0));
}

#[test]
fn every_adu_is_in_one_sum() {
    let mut tally = Tally::default();
    for importance in [255, 255, 231, 231, 207] {
        tally.handle_sent(importance, 100);
    }
    tally.handle_delivered(255, 100, Duration::from_millis(10), true);
    tally.handle_delivered(231, 100, Duration::from_millis(30), false);
    tally.handle_dropped(DropCause::Expired, "a->b", 1);
    tally.handle_dropped(DropCause::PathLost, "", 1);
    let report = tally.report("s", "b");
    assert_eq!((report.sent, report.delivered, report.in_time), (5, 2, 1));
    assert_eq!(
        (report.cancelled, report.lost, report.unaccounted),
        (1, 1, 1)
    );
    assert_eq!((report.bytes_sent, report.bytes_delivered), (500, 200));
    assert_eq!(report.by_hop["a->b"]["expired"], 1);
    assert_eq!(report.by_cause["path-lost"], 1);
    let importances: Vec<u8> = report
        .by_importance
        .iter()
        .map(|row| row.importance)
        .collect();
    assert_eq!(importances, [255, 231, 207]);
    assert_eq!(report.latency_ms.max, Some(30.0));
    assert!((report.delivered_share() - 0.4).abs() < 1e-12);
}
