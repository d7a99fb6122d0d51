//! Proves, without measuring, that every baseline is measured; checks the arithmetic by hand-made values.

use std::collections::BTreeSet;
use std::time::Duration;

use super::batch::Taken;
use super::figures::{baselines, goodput_mbps, lost};
use super::{Cell, HOPS_MAX, LENGTHS_BYTES, Side, cells};

#[test]
fn baselines_are_measured_too() {
    let all: BTreeSet<Cell> = cells().collect();
    for cell in &all {
        for (name, other) in baselines(*cell) {
            assert!(all.contains(&other), "{name} of {}", cell.name());
            let full = |cell: Cell| cell.is_for_throughput();
            assert!(!full(*cell) || full(other), "{name} of {}", cell.name());
        }
    }
}

#[test]
fn cell_names_are_unique() {
    let names: BTreeSet<String> = cells().map(Cell::name).collect();
    assert_eq!(names.len(), cells().count());
    assert!(names.contains(".hops_1.bytes_60000"));
    assert!(names.contains(".full.hops_3.bytes_100"));
    assert!(names.contains(".hops_2.adapters_5.bytes_1000"));
}

#[test]
fn plain_paths_have_equal_hops() {
    for side in [Side::UntilDeadline, Side::Full, Side::Quic, Side::Udp] {
        let plain = cells().filter(|cell| cell.line.side == side && cell.line.adapters == 0);
        let beyond_one_node = plain.filter(|cell| cell.line.hops > 0).count();
        assert_eq!(beyond_one_node, HOPS_MAX * LENGTHS_BYTES.len(), "{side:?}");
    }
}

#[test]
fn goodput_is_bits_over_time() {
    let taken = Taken {
        sent: 10,
        received: 8,
        lasted: Duration::from_millis(1),
        ..Taken::default()
    };
    assert!((goodput_mbps(1_000, &taken) - 64.0).abs() < 1e-9);
    assert!((lost(&taken) - 0.2).abs() < 1e-9);
}
