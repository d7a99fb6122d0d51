//! Proves how much time an ADU must have left: by rounds, by copies ahead, by the time it may have
//! lain unread.

use alloc::vec::Vec;

use thalweg_base::adu::Importance;
use thalweg_base::time::{Duration, Instant};

use super::Lag;

const MOST: Importance = Importance(255);
const LEAST: Importance = Importance(0);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + ms(millis)
}

/// Rounds that begin every 100 ms, take this long, and make a hundred copies each.
fn after(rounds: &[u64]) -> Lag {
    let mut lag = Lag::default();
    for (place, took) in (0..).zip(rounds) {
        let begun = at(1_000 + 100 * place);
        lag.handle_taken(begun, 100);
        lag.handle_end(begun + ms(*took));
    }
    lag
}

#[test]
fn only_three_recent_rounds_count() {
    for rounds in [&[][..], &[50], &[50, 50]] {
        assert_eq!(after(rounds).needed(at(1_200), 100, LEAST), Duration::ZERO);
    }
    let lag = after(&[50, 50, 50]);
    // The first of them ended at 1,050 ms.
    assert!(lag.needed(at(6_050), 100, MOST) > Duration::ZERO);
    assert_eq!(lag.needed(at(6_051), 100, MOST), Duration::ZERO);
}

#[test]
fn copies_ahead_add_their_time() {
    let mut lag = after(&[50, 50, 50]);
    let now = at(1_400);
    assert_eq!(lag.needed(now, 100, MOST), ms(50));
    assert_eq!(lag.needed(now, 10, MOST), ms(5));
    lag.handle_taken(now, 100);
    assert_eq!(lag.needed(now, 100, MOST), ms(100));
    // A dropped ADU takes no time.
    lag.handle_taken(now, 0);
    assert_eq!(lag.needed(now, 100, MOST), ms(100));
}

#[test]
fn lesser_adus_need_more_time() {
    let lag = after(&[51, 51, 51]);
    let needed = |importance| lag.needed(at(1_400), 100, Importance(importance));
    assert_eq!(needed(255), ms(51));
    assert_eq!(needed(0), ms(102));
    let all: Vec<_> = (0..=255).map(needed).collect();
    assert!(all.windows(2).all(|two| two[0] > two[1]));
}

#[test]
fn single_long_round_is_ignored() {
    let now = at(5_000);
    assert_eq!(after(&[5, 900, 5]).needed(now, 100, MOST), ms(5));
    assert_eq!(after(&[5, 5, 900]).needed(now, 100, MOST), ms(5));
    assert_eq!(after(&[5, 900, 900]).needed(now, 100, MOST), ms(900));
}

#[test]
fn unread_time_adds_last_round() {
    let lag = after(&[40, 40, 40]);
    let end = at(1_240);
    assert_eq!(lag.needed(end, 100, MOST), ms(80));
    assert_eq!(lag.needed(end + ms(30), 100, MOST), ms(50));
    assert_eq!(lag.needed(end + ms(40), 100, MOST), ms(40));
}

#[test]
fn round_of_drops_keeps_copy_time() {
    let mut lag = after(&[40, 40, 40]);
    lag.handle_taken(at(1_240), 0);
    lag.handle_end(at(1_241));
    assert_eq!(lag.last(), ms(1));
    assert_eq!(lag.needed(at(1_242), 100, MOST), ms(40));
    // Without a round there is no end of one.
    lag.handle_end(at(1_300));
    assert_eq!(lag.last(), ms(1));
}

#[test]
fn extreme_values_saturate() {
    let mut lag = Lag::default();
    for _ in 0..3 {
        lag.handle_taken(Instant::from_nanos(1), 1);
        lag.handle_taken(Instant::from_nanos(1), u32::MAX);
        lag.handle_end(Instant::from_nanos(u64::MAX - 1));
    }
    lag.handle_taken(Instant::from_nanos(u64::MAX - 1), u32::MAX);
    let needed = lag.needed(Instant::from_nanos(u64::MAX - 1), u32::MAX, LEAST);
    assert_eq!(needed.as_nanos(), u64::MAX);
}
