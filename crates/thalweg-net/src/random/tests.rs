//! Proves that the generator is the published one and stays in its range.

use super::SplitMix;

#[test]
fn sequence_is_the_published_one() {
    // The first outputs for seed 1234567, as in the reference implementation's test vector.
    let mut random = SplitMix::new(1_234_567);
    assert_eq!(random.next(), 6_457_827_717_110_365_317);
    assert_eq!(random.next(), 3_203_168_211_198_807_973);
}

#[test]
fn unit_lies_between_zero_and_one() {
    let mut random = SplitMix::new(7);
    let numbers: Vec<f64> = (0..10_000).map(|_| random.next_unit()).collect();
    assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
    let mean = numbers.iter().sum::<f64>() / 10_000.0;
    assert!((0.48..0.52).contains(&mean), "{mean}");
}
