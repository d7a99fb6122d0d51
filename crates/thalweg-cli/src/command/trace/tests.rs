//! Proves that a summary groups by path, ends where it should, and fits a window of 80 by 24.

use thalweg_node::{HopCost, TracedAdu};

use super::summary::{Spread, Summary};
use crate::terminal::Colour;

fn hop(node: &str, wait_us: u64) -> HopCost {
    HopCost {
        node: node.into(),
        node_us: 120,
        lift_us: 900,
        wait_us,
        link_us: 20_000,
    }
}

fn adu(sink: &str, sequence: u64, wait_us: u64) -> TracedAdu {
    let hops = vec![hop("camera", wait_us), hop("relay", 40), hop(sink, 0)];
    TracedAdu {
        stream: "truck/cam1".parse().expect("a name"),
        sink: sink.into(),
        epoch: 3,
        sequence,
        budget_us: Some(300_000),
        sum_us: 3 * 21_020 + wait_us + 40,
        hops,
    }
}

#[test]
fn spread_is_by_nearest_rank() {
    let spread = Spread::of((1..=200).rev().collect());
    let [median_us, p99_us, worst_us] = [100, 198, 200];
    let expected = Spread {
        median_us,
        p99_us,
        worst_us,
    };
    assert_eq!(spread, expected);
    assert_eq!(Spread::of(vec![7]).p99_us, 7);
    assert_eq!(Spread::of(Vec::new()).worst_us, 0);
}

#[test]
fn each_sink_has_its_own_table() {
    let mut summary = Summary::new(2);
    assert!(summary.add(adu("ann", 1, 10), 2) && summary.add(adu("bob", 1, 10), 2));
    assert!(summary.add(adu("ann", 9, 250_000), 2) && !summary.is_full());
    assert!(!summary.add(adu("ann", 11, 10), 2), "a third");
    assert!(summary.add(adu("bob", 9, 10), 2) && summary.is_full());
    let groups = summary.groups();
    let sinks: Vec<_> = groups
        .iter()
        .map(|group| (&*group.sink, group.adus))
        .collect();
    assert_eq!(sinks, [("ann", 2), ("bob", 2)]);
    assert_eq!((groups[0].late, groups[1].late), (1, 0));
    assert_eq!(groups[0].hops[0].all.worst_us, 271_020);
    let stream = "truck/cam1".parse().expect("a name");
    let text = summary.describe(&stream, Colour::NEVER);
    assert!(text.contains("truck/cam1 to ann, plan 3: 2 ADUs"), "{text}");
    assert!(
        text.contains("the median uses 21 %, the worst 104 %; 1 late"),
        "{text}"
    );
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn widest_table_fits_eighty_columns() {
    let name = "n".repeat(64);
    let mut widest = adu(&name, 1, 0);
    for hop in &mut widest.hops {
        *hop = HopCost {
            node: name.clone(),
            node_us: 999_900,
            lift_us: 999_900,
            wait_us: 999_900,
            link_us: 999_900,
        };
    }
    widest.sum_us = 3 * 3_999_600;
    let mut summary = Summary::new(1);
    assert!(summary.add(widest, 1));
    let stream = "truck/cam1".parse().expect("a name");
    let text = summary.describe(&stream, Colour::NEVER);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}
