//! Checks the set of received sequences against a plain set, within its bounds.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::{Held, Seen};
use crate::event::DropCause;
use crate::id::{Epoch, Sequence};
use crate::limits::{RECEIPT_RANGES_MAX, SEEN_RANGES_MAX};
use crate::random::SplitMix;

const PLAN: Epoch = Epoch(1);

#[test]
fn sequence_is_new_once_in_any_order() {
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
        for _ in 0..400 {
            let sequence = random.next_below(120);
            let is_new = seen.insert(PLAN, Sequence(sequence)).is_ok();
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
fn restart_keeps_receipts() {
    for seed in 0..100 {
        let mut random = SplitMix::new(seed);
        let (mut seen, mut ever) = (Seen::default(), Seen::default());
        for _ in 0..3 {
            seen.begin_anew(None);
            let mut model = BTreeSet::new();
            for _ in 0..60 {
                let sequence = Sequence(random.next_below(40));
                let _ = ever.insert(PLAN, sequence);
                let is_new = seen.insert(PLAN, sequence).is_ok();
                assert_eq!(is_new, model.insert(sequence), "seed {seed}: {sequence:?}");
                assert_eq!(seen.held(), ever.held(), "seed {seed}");
            }
        }
    }
}

#[test]
fn former_plans_are_cancelled_but_held() {
    let mut seen = Seen::default();
    assert_eq!(seen.insert(Epoch(3), Sequence(0)), Ok(()));
    seen.begin_anew(Some(Epoch(3)));
    for epoch in [2, 3] {
        let late = seen.insert(Epoch(epoch), Sequence(1));
        assert_eq!(late, Err(DropCause::Cancelled));
    }
    assert_eq!(seen.held().floor, 2);
    let again = [0, 1, 0].map(|sequence| seen.insert(Epoch(4), Sequence(sequence)));
    assert_eq!(again, [Ok(()), Ok(()), Err(DropCause::Duplicate)]);
    seen.go_on();
    assert_eq!(seen.insert(Epoch(3), Sequence(2)), Ok(()));
}

#[test]
fn many_ranges_settle_oldest_gap() {
    let mut seen = Seen::default();
    let most = SEEN_RANGES_MAX as u64;
    for at in 0..=most {
        assert_eq!(seen.insert(PLAN, Sequence(10 + 2 * at)), Ok(()));
    }
    let late = seen.insert(PLAN, Sequence(5));
    assert_eq!(late, Err(DropCause::Duplicate), "it is no longer awaited");
    let held = seen.held();
    assert_eq!((held.floor, held.ranges.len()), (11, RECEIPT_RANGES_MAX));
    assert!(held.has(Sequence(10 + 2 * most)) && !held.has(Sequence(12)));
    assert!(Held::everything().has(Sequence(u64::MAX - 1)));
}

#[test]
fn lacks_only_gaps_within_told_ranges() {
    let lacked = |held: &Held, sequences: core::ops::Range<u64>| -> Vec<u64> {
        let all = sequences.map(Sequence);
        let lacked = all.filter(|sequence| held.lacks(*sequence));
        lacked.map(|sequence| sequence.0).collect()
    };
    let of = |floor, ranges| Held { floor, ranges };
    assert_eq!(lacked(&of(3, vec![]), 0..20), [], "none is later");
    let one = core::iter::once(5..7).collect();
    assert_eq!(lacked(&of(3, one), 0..20), [3, 4]);
    let held = of(3, vec![5..7, 8..9, 11..12]);
    assert_eq!(lacked(&held, 0..20), [3, 4, 7, 9, 10]);
    let many = |ranges: u64| -> Held {
        let ranges = (0..ranges).map(|at| 10 + 2 * at..11 + 2 * at);
        of(3, ranges.collect())
    };
    let most = RECEIPT_RANGES_MAX as u64;
    let all_told = lacked(&many(most - 1), 0..200);
    assert_eq!(
        all_told.first(),
        Some(&3),
        "what is not named has not arrived"
    );
    assert_eq!(all_told.len() as u64, 7 + most - 2);
    let newest_told = lacked(&many(most), 0..200);
    assert_eq!(newest_told.first(), Some(&11));
    assert_eq!(newest_told.len() as u64, most - 1);
    assert_eq!(lacked(&Held::everything(), 0..200), []);
}

#[test]
fn raised_floor_names_nothing() {
    let ranges = |count: u64| (0..count).map(|at| 20 + 2 * at..21 + 2 * at).collect();
    let few = Held {
        floor: 10,
        ranges: ranges(RECEIPT_RANGES_MAX as u64 - 1),
    };
    let many = Held {
        floor: 10,
        ranges: ranges(RECEIPT_RANGES_MAX as u64),
    };
    for sequence in [Sequence(9), Sequence(10), Sequence(20), Sequence(21)] {
        assert_eq!(few.names(sequence), few.has(sequence));
        assert_eq!(many.names(sequence), sequence == Sequence(20));
    }
    assert!(Held::everything().has(Sequence(5)));
    assert!(!Held::everything().names(Sequence(5)));
}
