//! Proves that the table of benchmarks can be selected from without doubt, and that its names are in one style.

use std::collections::BTreeSet;

use super::{BENCHES, list};

#[test]
fn no_id_or_group_means_two_things() {
    let ids: BTreeSet<_> = BENCHES.iter().map(|bench| bench.id).collect();
    assert_eq!(ids.len(), BENCHES.len());
    for bench in BENCHES {
        assert!(!ids.contains(bench.group) && bench.group != "all");
    }
}

#[test]
fn metrics_are_snake_case_and_stand_in_the_list() {
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
