//! Proves which changes of a rate are reported, from both sides of each edge.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

use super::{RISE_TIME, Steady};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a sender reports its path as an option"
)]
const fn kbps(kbps: u64) -> Option<Bitrate> {
    Some(Bitrate::from_kbps(kbps))
}

fn reporting(kbps: u64) -> Steady {
    let mut steady = Steady::default();
    assert!(steady.handle_rate(at(0), Some(Bitrate::from_kbps(kbps))));
    steady
}

#[test]
fn first_and_lost_rate_are_reported() {
    let mut steady = Steady::default();
    assert!(!steady.handle_rate(at(0), None));
    assert!(steady.handle_rate(at(0), kbps(800)));
    assert_eq!(steady.told(), kbps(800));
    assert!(steady.handle_rate(at(1), None));
    assert_eq!(steady.told(), None);
}

#[test]
fn fall_beyond_eighth_is_immediate() {
    let mut steady = reporting(800);
    assert!(!steady.handle_rate(at(1), kbps(700)));
    assert!(steady.handle_rate(at(2), kbps(699)));
    assert_eq!(steady.told(), kbps(699));
}

#[test]
fn lasting_rise_reports_minimum() {
    let rise_ms = RISE_TIME.as_nanos() / 1_000_000;
    let mut steady = reporting(800);
    assert!(!steady.handle_rate(at(10), kbps(2_000)));
    assert!(!steady.handle_rate(at(20), kbps(1_000)));
    assert!(!steady.handle_rate(at(9 + rise_ms), kbps(3_000)));
    assert!(steady.handle_rate(at(10 + rise_ms), kbps(3_000)));
    assert_eq!(steady.told(), kbps(1_000));
}

#[test]
fn brief_rise_is_unreported() {
    let rise_ms = RISE_TIME.as_nanos() / 1_000_000;
    let mut steady = reporting(800);
    for round in 0..10 {
        let start = round * 2 * rise_ms;
        assert!(!steady.handle_rate(at(start), kbps(901)));
        assert!(!steady.handle_rate(at(start + rise_ms - 1), kbps(901)));
        assert!(!steady.handle_rate(at(start + rise_ms), kbps(900)));
    }
    assert_eq!(steady.told(), kbps(800));
}
