//! Proves what is told of a rate and what is not, from both sides of each edge.

use super::{RISE_TIME, Steady};
use crate::time::{Duration, Instant};
use crate::units::Bitrate;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it is what a sender says of its path, which may be nothing"
)]
const fn kbps(kbps: u64) -> Option<Bitrate> {
    Some(Bitrate::from_kbps(kbps))
}

fn told(kbps: u64) -> Steady {
    let mut steady = Steady::default();
    assert!(steady.handle_rate(at(0), Some(Bitrate::from_kbps(kbps))));
    steady
}

#[test]
fn first_rate_is_told_and_so_is_its_loss() {
    let mut steady = Steady::default();
    assert!(!steady.handle_rate(at(0), None));
    assert!(steady.handle_rate(at(0), kbps(800)));
    assert_eq!(steady.told(), kbps(800));
    assert!(steady.handle_rate(at(1), None));
    assert_eq!(steady.told(), None);
}

#[test]
fn fall_is_told_at_once_beyond_an_eighth() {
    let mut steady = told(800);
    assert!(!steady.handle_rate(at(1), kbps(700)));
    assert!(steady.handle_rate(at(2), kbps(699)));
    assert_eq!(steady.told(), kbps(699));
}

#[test]
fn rise_is_told_when_it_has_lasted_and_is_the_least_of_that_time() {
    let rise_ms = RISE_TIME.as_nanos() / 1_000_000;
    let mut steady = told(800);
    assert!(!steady.handle_rate(at(10), kbps(2_000)));
    assert!(!steady.handle_rate(at(20), kbps(1_000)));
    assert!(!steady.handle_rate(at(9 + rise_ms), kbps(3_000)));
    assert!(steady.handle_rate(at(10 + rise_ms), kbps(3_000)));
    assert_eq!(steady.told(), kbps(1_000));
}

#[test]
fn rise_that_does_not_last_is_not_told() {
    let rise_ms = RISE_TIME.as_nanos() / 1_000_000;
    let mut steady = told(800);
    for round in 0..10 {
        let start = round * 2 * rise_ms;
        assert!(!steady.handle_rate(at(start), kbps(901)));
        assert!(!steady.handle_rate(at(start + rise_ms - 1), kbps(901)));
        assert!(!steady.handle_rate(at(start + rise_ms), kbps(900)));
    }
    assert_eq!(steady.told(), kbps(800));
}
