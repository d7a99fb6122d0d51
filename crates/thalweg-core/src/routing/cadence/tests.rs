//! Proves that records stay under their share of a slow link, from three nodes to ten thousand.

use super::{Cadence, REFRESH_MIN, SHARE, interval};
use crate::time::{Duration, Instant};
use crate::units::DataSize;

/// A record of a node with four neighbours, with its signature and frame.
const RECORD_BYTES: u64 = 390;

#[test]
fn repetitions_of_any_number_of_nodes_stay_under_their_share() {
    for nodes in [3, 10, 100, 1_000, 10_000] {
        let every = interval(DataSize::from_bytes(nodes * RECORD_BYTES));
        assert!(every >= REFRESH_MIN);
        let rate = DataSize::from_bytes(2 * nodes * RECORD_BYTES) / every;
        assert!(rate <= SHARE, "{nodes} nodes: {rate}");
    }
}

#[test]
fn four_are_told_at_once_and_then_one_each_interval() {
    let every = Duration::from_secs(60);
    let mut cadence = Cadence::default();
    let mut now = Instant::from_nanos(1_000_000_000_000);
    for _ in 0..4 {
        assert!(cadence.next(every) <= now);
        cadence.handle_told(every, now);
    }
    assert_eq!(cadence.next(every), now + every);
    now = now + Duration::from_secs(600);
    assert!(cadence.next(every) <= now);
    for _ in 0..4 {
        cadence.handle_told(every, now);
    }
    assert_eq!(cadence.next(every), now + every);
}
