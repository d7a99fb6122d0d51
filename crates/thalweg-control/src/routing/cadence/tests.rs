//! Proves that records stay under their share of a slow link, from three nodes to ten thousand.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::{Cadence, REFRESH_MIN, SHARE, Urgency, interval};

/// A record of a node with four neighbours, with its signature and frame.
const RECORD_BYTES: u64 = 390;

#[test]
fn repetitions_stay_under_share() {
    for nodes in [3, 10, 100, 1_000, 10_000] {
        let every = interval(DataSize::from_bytes(nodes * RECORD_BYTES));
        assert!(every >= REFRESH_MIN);
        let rate = DataSize::from_bytes(2 * nodes * RECORD_BYTES) / every;
        assert!(rate <= SHARE, "{nodes} nodes: {rate}");
    }
}

#[test]
fn burst_is_followed_by_one_per_interval() {
    let every = Duration::from_secs(60);
    for (urgency, burst) in [(Urgency::Stream, 4), (Urgency::Planner, 1)] {
        let mut cadence = Cadence::default();
        let mut now = Instant::from_nanos(1_000_000_000_000);
        for _ in 0..2 {
            for _ in 0..burst {
                assert!(cadence.next(every, urgency) <= now);
                cadence.handle_told(every, now);
            }
            assert_eq!(cadence.next(every, urgency), now + every);
            now = now + Duration::from_secs(600);
        }
    }
}

#[test]
fn nobody_gets_no_burst() {
    let every = Duration::from_secs(60);
    let mut cadence = Cadence::default();
    let mut announced = Instant::ZERO;
    for _ in 0..3 {
        assert_eq!(cadence.next(every, Urgency::Nobody), announced + every);
        announced = announced + every;
        cadence.handle_told(every, announced);
        announced = announced + every;
    }
}

#[test]
fn stream_may_announce_before_planner() {
    let every = Duration::from_secs(60);
    let mut cadence = Cadence::default();
    let now = Instant::from_nanos(1_000_000_000_000);
    cadence.handle_told(every, now);
    for _ in 0..3 {
        assert!(cadence.next(every, Urgency::Planner) > now);
        assert!(cadence.next(every, Urgency::Stream) <= now);
        cadence.handle_told(every, now);
    }
    assert!(cadence.next(every, Urgency::Stream) > now);
}
