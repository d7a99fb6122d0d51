//! Proves the wording of counts and drops.

use super::*;

#[test]
fn counts_have_units() {
    let counts = Counts {
        adus: 250,
        bytes: 1_250_000,
    };
    assert_eq!(
        counts.describe(Duration::from_secs(10)),
        "250 ADUs, 1.2 MB in 10.0 s, 1.00 Mbit/s"
    );
    assert_eq!(size(999), "999 B");
}

#[test]
fn zero_causes_are_left_out() {
    let described = |pairs: &[(&str, u64)]| {
        let map = pairs
            .iter()
            .map(|(cause, count)| ((*cause).to_string(), *count));
        drops(&map.collect())
    };
    assert_eq!(described(&[]), "none");
    assert_eq!(
        described(&[("expired", 3), ("overflow", 0), ("path lost", 1)]),
        "expired 3, path lost 1"
    );
}
