//! Proves that time saturates instead of wrapping, and that `NEVER` absorbs.

use alloc::string::ToString;

use super::{Duration, Instant, Rough};

#[test]
fn never_is_last_and_absorbs() {
    let late = Instant::from_nanos(u64::MAX - 1);
    assert!(Instant::NEVER > late);
    assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
    assert_eq!(Instant::NEVER - Duration::from_secs(1), Instant::NEVER);
    assert_eq!(late + Duration::from_nanos(1), Instant::NEVER);
    assert_eq!(Instant::NEVER.saturating_since(late), Duration::NEVER);
    assert_eq!(
        Duration::NEVER.saturating_sub(Duration::from_secs(9)),
        Duration::NEVER
    );
}

#[test]
fn past_is_zero_time_ago() {
    let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(7));
    assert_eq!(late.saturating_since(early), Duration::from_nanos(2));
    assert_eq!(early.saturating_since(late), Duration::ZERO);
    assert_eq!(early - Duration::from_nanos(6), Instant::ZERO);
}

#[test]
fn floats_saturate_into_durations() {
    assert_eq!(Duration::from_secs_f64(0.25), Duration::from_millis(250));
    assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
    assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
    assert_eq!(Duration::from_secs_f64(f64::INFINITY), Duration::NEVER);
}

#[test]
fn time_prints_in_readable_units() {
    assert_eq!(
        Instant::from_nanos(1_204_000_000).to_string(),
        "1.204000000s"
    );
    assert_eq!(Instant::NEVER.to_string(), "never");
    assert_eq!(Duration::from_millis(300).to_string(), "300 ms");
    assert_eq!(Duration::from_millis(1500).to_string(), "1.5 s");
    assert_eq!(Duration::ZERO.to_string(), "0 s");
}

#[test]
fn rough_duration_has_two_largest_units() {
    for (seconds, text) in [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h"),
        (3_659, "1 h"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (86_400 + 3_600, "1 d 1 h"),
        (365 * 86_400, "365 d"),
        (u64::MAX, "213503982334601 d 7 h"),
    ] {
        assert_eq!(Rough(seconds).to_string(), text);
    }
}
