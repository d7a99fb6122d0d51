//! Proves the histogram against sorted lists: percentiles within the stated error, sums and
//! differences with exact counts.

use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::time::Instant;

/// Values of every magnitude, up to just beyond the table.
fn times(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let time = prop_oneof![
        0..2_000u64,
        0..10_000_000u64,
        (0..38u32, any::<u64>()).prop_map(|(bits, noise)| noise % (2 << bits)),
    ];
    vec(time, 1..most)
}

/// Values of every magnitude within the table.
fn times_within(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let within = |time: u64| time.min(TIME_MAX.as_nanos());
    times(most).prop_map(move |nanos| nanos.into_iter().map(within).collect())
}

fn histogram(nanos: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for time in nanos {
        histogram.record(Duration::from_nanos(*time));
    }
    histogram
}

/// The nearest rank in a sorted list.
fn exact(sorted: &[u64], permille: u32) -> u64 {
    let rank = (sorted.len() as u64 * u64::from(permille)).div_ceil(1_000);
    sorted[rank.max(1) as usize - 1]
}

/// The permitted error of a percentile.
fn error_nanos(value: u64) -> u64 {
    if value < 64_000 {
        500
    } else {
        value.div_ceil(64)
    }
}

fn at_secs(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

proptest! {
    #[test]
    fn percentiles_match_sorted_list(nanos in times(400), permille in 0..=1_000u32) {
        let histogram = histogram(&nanos);
        let mut sorted = nanos;
        sorted.sort_unstable();
        let value = exact(&sorted, permille);
        prop_assume!(value <= TIME_MAX.as_nanos());
        let found = histogram.percentile(permille).expect("there are times").as_nanos();
        prop_assert!(found.abs_diff(value) <= error_nanos(value), "{} for {}", found, value);
    }

    #[test]
    fn max_is_exact(nanos in times(50)) {
        let histogram = histogram(&nanos);
        let all = histogram.percentiles().expect("there are times");
        prop_assert_eq!(all.count, nanos.len() as u64);
        prop_assert_eq!(all.max.as_nanos(), nanos.into_iter().max().expect("there are times"));
        prop_assert!(all.p50 <= all.p99 && all.p99 <= all.p999 && all.p999 <= all.max);
    }

    #[test]
    fn merge_equals_histogram_of_both(one in times(100), other in times(100)) {
        let mut sum = histogram(&one);
        sum.merge(&histogram(&other));
        let both: Vec<u64> = one.into_iter().chain(other).collect();
        prop_assert_eq!(sum.percentiles(), histogram(&both).percentiles());
    }

    #[test]
    fn subtract_leaves_later_values(before in times(100), since in times_within(100)) {
        let earlier = histogram(&before);
        let mut later = earlier.clone();
        later.merge(&histogram(&since));
        later.subtract(&earlier);
        let mut sorted = since;
        sorted.sort_unstable();
        prop_assert_eq!(later.count(), sorted.len() as u64);
        for permille in [0, 500, 990, 999, 1_000] {
            let value = exact(&sorted, permille);
            let found = later.percentile(permille).expect("there are times").as_nanos();
            prop_assert!(found.abs_diff(value) <= error_nanos(value), "{} for {}", found, value);
        }
    }

    #[test]
    fn recent_equals_last_ten_seconds(
        recorded in vec((0..25_000u64, times(8)), 1..20),
        asked in 25_000..40_000u64,
    ) {
        let mut recorded = recorded;
        recorded.sort_by_key(|(millis, _)| *millis);
        let mut recent = Recent::default();
        for (millis, nanos) in &recorded {
            let now = Instant::ZERO + Duration::from_millis(*millis);
            for time in nanos {
                recent.record(now, Duration::from_nanos(*time));
            }
        }
        let lately = |(millis, _): &&(u64, Vec<u64>)| asked / 1_000 - millis / 1_000 < 10;
        let nanos: Vec<u64> = recorded.iter().filter(lately).flat_map(|(_, nanos)| nanos.clone()).collect();
        let now = Instant::ZERO + Duration::from_millis(asked);
        prop_assert_eq!(recent.percentiles(now), histogram(&nanos).percentiles());
    }
}

#[test]
fn buckets_have_no_gap() {
    let mut edge = 0u64;
    for index in 0..BUCKETS - 1 {
        let shift = (index / STEPS).saturating_sub(1);
        let width = 1u64 << shift;
        assert_eq!(bucket(Duration::from_micros(edge)), index);
        assert_eq!(bucket(Duration::from_micros(edge + width - 1)), index);
        edge += width;
    }
    assert_eq!(bucket(Duration::from_micros(edge)), BUCKETS - 1);
    assert_eq!(bucket(TIME_MAX), BUCKETS - 2);
    assert_eq!(bucket(Duration::NEVER), BUCKETS - 1);
}

#[test]
fn empty_has_no_percentile_and_one_value_has_all() {
    let mut histogram = Histogram::default();
    assert!(histogram.percentiles().is_none() && histogram.percentile(500).is_none());
    histogram.record(Duration::from_micros(7));
    let all = histogram.percentiles().expect("there is one");
    assert_eq!(
        [all.p50, all.p99, all.p999, all.max],
        [Duration::from_micros(7); 4]
    );
}

#[test]
fn longer_value_is_counted_with_exact_max() {
    let mut histogram = Histogram::default();
    let hour = Duration::from_secs(3_600);
    histogram.record(Duration::from_millis(1));
    histogram.record(hour);
    assert_eq!(histogram.percentile(999), Some(hour));
    assert_eq!(histogram.count(), 2);
}

#[test]
fn recent_values_expire_after_ten_seconds() {
    let mut recent = Recent::default();
    assert!(recent.percentiles(Instant::ZERO).is_none());
    recent.record(at_secs(3), Duration::from_secs(1));
    recent.record(at_secs(5), Duration::from_millis(1));
    let count = |recent: &Recent, secs| recent.percentiles(at_secs(secs)).map(|all| all.count);
    assert_eq!(count(&recent, 5), Some(2));
    assert_eq!(count(&recent, 12), Some(2));
    assert_eq!(count(&recent, 13), Some(1));
    assert_eq!(count(&recent, 15), None);
    // The second that reused a slot holds nothing of the earlier one.
    recent.record(at_secs(13), Duration::from_millis(2));
    assert_eq!(count(&recent, 13), Some(2));
    let max = recent.percentiles(at_secs(13)).map(|all| all.max);
    assert_eq!(max, Some(Duration::from_millis(2)));
}
