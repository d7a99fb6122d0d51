//! Proves how differences are computed, marked and judged, and that reports of different worlds are
//! refused.

use std::collections::BTreeMap;

use thalweg_sim::report::{Percentiles, Player, Report, StreamReport};

use super::{compare, describe};
use crate::terminal::Colour;

fn report(world: &str, by: Player, delivered: u64, p50: Option<f64>) -> Report {
    Report {
        world: world.into(),
        by,
        seed: 0,
        seconds: 10.0,
        trace_hash: None,
        streams: vec![StreamReport {
            stream: "cam".into(),
            sink: "base".into(),
            sent: 100,
            delivered,
            in_time: delivered,
            replayed: 0,
            cancelled: 0,
            lost: 100 - delivered,
            unaccounted: 0,
            bytes_sent: 1,
            bytes_delivered: 1,
            by_cause: BTreeMap::new(),
            by_hop: BTreeMap::new(),
            by_importance: Vec::new(),
            latency_ms: Percentiles {
                p50,
                ..Percentiles::default()
            },
            psnr: None,
        }],
        links: Vec::new(),
        violations: Vec::new(),
    }
}

#[test]
fn ten_percent_is_the_limit() {
    let first = report("w.toml", Player::Simulator, 80, Some(50.0));
    let second = report("worlds/w.toml", Player::Testbed, 88, Some(56.0));
    let rows = compare(&first, &second).expect("one world");
    let seen: Vec<_> = rows.iter().map(|row| (row.figure, row.beyond)).collect();
    assert_eq!(seen, [("delivered %", false), ("latency p50 ms", true)]);
    let text = describe(&first, &second, &rows, Colour::NEVER);
    assert!(
        text.contains("+12.0 %") && text.contains("beyond 10 %"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn missing_figure_disagrees() {
    let first = report("w.toml", Player::Simulator, 80, Some(50.0));
    let second = report("w.toml", Player::Testbed, 80, None);
    let rows = compare(&first, &second).expect("one world");
    assert!(rows[1].beyond && rows[1].difference_percent.is_none());
}

#[test]
fn different_worlds_are_refused() {
    let first = report("w.toml", Player::Simulator, 80, None);
    let other = report("v.toml", Player::Testbed, 80, None);
    assert!(
        compare(&first, &other)
            .expect_err("two worlds")
            .contains("`v.toml`")
    );
    let mut longer = report("w.toml", Player::Testbed, 80, None);
    longer.seconds = 20.0;
    assert!(
        compare(&first, &longer)
            .expect_err("two lengths")
            .contains("20 s")
    );
    let mut renamed = report("w.toml", Player::Testbed, 80, None);
    renamed.streams[0].sink = "desk".into();
    assert!(
        compare(&first, &renamed)
            .expect_err("two sinks")
            .contains("desk")
    );
}
