//! Proves the set of what has come against a plain set, within its bounds.

use alloc::collections::BTreeSet;

use super::{Held, Seen};
use crate::id::Sequence;
use crate::limits::{RECEIPT_RANGES_MAX, SEEN_RANGES_MAX};
use crate::random::SplitMix;

#[test]
fn a_sequence_is_new_once_in_whatever_order_they_come() {
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
        for _ in 0..400 {
            let sequence = random.next_below(120);
            let is_new = seen.insert(Sequence(sequence));
            assert_eq!(is_new, model.insert(sequence), "seed {seed}: {sequence}");
        }
        let held = seen.held();
        let touches = held
            .ranges
            .windows(2)
            .any(|pair| pair[0].end >= pair[1].start);
        let lies_on = held
            .ranges
            .first()
            .is_some_and(|first| first.start <= held.floor);
        assert!(!touches && !lies_on, "seed {seed}: {held:?}");
        if held.ranges.len() < RECEIPT_RANGES_MAX {
            for sequence in 0..130 {
                let has = held.has(Sequence(sequence));
                assert_eq!(has, model.contains(&sequence), "seed {seed}: {sequence}");
            }
        }
    }
}

#[test]
fn of_many_ranges_the_oldest_gap_is_settled_and_the_newest_are_told() {
    let mut seen = Seen::default();
    let most = SEEN_RANGES_MAX as u64;
    for at in 0..=most {
        assert!(seen.insert(Sequence(10 + 2 * at)));
    }
    assert!(!seen.insert(Sequence(5)), "nobody waits for it any more");
    let held = seen.held();
    assert_eq!((held.floor, held.ranges.len()), (11, RECEIPT_RANGES_MAX));
    assert!(held.has(Sequence(10 + 2 * most)) && !held.has(Sequence(12)));
    assert!(Held::everything().has(Sequence(u64::MAX - 1)));
}
