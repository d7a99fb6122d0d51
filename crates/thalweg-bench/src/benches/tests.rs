//! Proves that the table of benchmarks has unambiguous ids and groups, and consistent names.

use std::collections::BTreeSet;

use super::{BENCHES, list};

#[test]
fn ids_and_groups_are_unambiguous() {
    let ids: BTreeSet<_> = BENCHES.iter().map(|bench| bench.id).collect();
    assert_eq!(ids.len(), BENCHES.len());
    for bench in BENCHES {
        assert!(!ids.contains(bench.group) && bench.group != "all");
    }
}

#[test]
fn metrics_are_snake_case_and_listed() {
    for bench in BENCHES {
        assert!(!bench.metrics.is_empty(), "{}", bench.id);
        for metric in bench.metrics {
            let is_snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(metric.chars().all(is_snake), "{metric}");
            assert!(list().contains(metric));
        }
    }
    assert_eq!(list().lines().count(), BENCHES.len());
}
