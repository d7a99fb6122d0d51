//! Proves that the generator is the published one and stays in its ranges.

use super::SplitMix;
use crate::time::Duration;

#[test]
fn sequence_matches_reference() {
    // The first outputs for seed 1234567, as in the reference implementation's test vector.
    let mut random = SplitMix::new(1_234_567);
    assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
    assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
}

#[test]
fn unit_is_in_range() {
    let mut random = SplitMix::new(7);
    let (mut sum, mut count) = (0.0, 0);
    for _ in 0..10_000 {
        let number = random.next_unit();
        assert!((0.0..1.0).contains(&number));
        sum += number;
        count += 1;
    }
    let mean = sum / f64::from(count);
    assert!((0.48..0.52).contains(&mean), "{mean}");
}

#[test]
fn bounded_numbers_take_every_value() {
    let mut random = SplitMix::new(3);
    let mut seen = [0; 5];
    for _ in 0..1_000 {
        seen[random.next_below(5) as usize] += 1;
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    assert_eq!(random.next_below(0), 0);
    assert_eq!(random.next_duration(Duration::ZERO), Duration::ZERO);
    assert!(random.next_duration(Duration::NEVER) < Duration::NEVER);
}
